"""
Seeds catch components that are broken on purpose: each in one way that a careless
change could bring about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from twisted.python.failure import Failure

from tests.simulation.device import SteppedDevice
from tests.simulation.scene import Profile
from tests.simulation.simulation import run
from tests.simulation.storing import FaultyStore
from twisted_aotx.client.device import DeviceClient
from twisted_aotx.client.replies import Window
from twisted_aotx.gateway import events
from twisted_aotx.gateway.resource import Call
from twisted_aotx.journal.store import Store
from twisted_aotx.journal.writer import ReadBytes
from twisted_aotx.orders import SourceRecord, StoreRecord
from twisted_aotx.runtime.bridge import EngineBridge
from twisted_aotx.runtime.leases import BridgedLease

pytestmark = pytest.mark.simulation

#: Seeds that may pass a broken component before one catches it.
SEEDS_MAX = 8
#: Clients that leave, and nothing else.
LEAVING = Profile(leaves=0.4, sessions=40)


def is_caught(profile: Profile, *words: str, first: int = 1) -> bool:
    """
    Whether a seed from *first* on finds something that is told with one of *words*.
    """
    return any(
        any(word in fault for word in words)
        for seed in range(first, first + SEEDS_MAX)
        for fault in run(seed, profile).faults
    )


def test_a_stream_resumed_a_byte_late_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resumed_at = events.resumed_at

    def late(call: Call, handle: Any) -> int:
        cursor = resumed_at(call, handle)
        return cursor + (cursor > 0)

    monkeypatch.setattr(events, "resumed_at", late)

    assert is_caught(LEAVING, "stream")


def test_a_source_that_is_told_before_it_is_saved_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(
        store: FaultyStore, records: Sequence[StoreRecord], read_bytes: ReadBytes
    ) -> None:
        kept = [each for each in records if not isinstance(each, SourceRecord)]
        Store.save_together(store, kept, read_bytes)

    monkeypatch.setattr(FaultyStore, "save_together", forgetful)

    assert is_caught(Profile(sessions=40), "lacks")


def test_a_budget_that_leaks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(call: Call, _reason: Failure) -> None:
        call.gone = True

    monkeypatch.setattr(Call, "_lost", gone)

    assert is_caught(LEAVING, "still holds")


def test_work_of_an_old_lease_that_reaches_the_next_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No generation is checked, neither by the bridge nor by the device."""
    newest: dict[tuple[int, int], int] = {}
    report = SteppedDevice.report
    open_lease: Callable[..., None] = EngineBridge._open

    def opened(bridge: EngineBridge, order: Any) -> None:
        newest[id(bridge._device), order.slot] = order.generation
        open_lease(bridge, order)

    def reported(
        device: SteppedDevice,
        slot: int,
        generation: int,
        kind: int,
        value: int,
        data: bytes = b"",
    ) -> bool:
        current = newest.get((id(device), slot), generation)
        return report(device, slot, current, kind, value, data)

    monkeypatch.setattr(EngineBridge, "_open", opened)
    monkeypatch.setattr(SteppedDevice, "report", reported)
    monkeypatch.setattr(BridgedLease, "drop", lambda lease: True)

    # The seeds before these have no slot whose next lease comes in time.
    assert is_caught(Profile(sessions=60), "its engine", first=15)


def test_an_output_of_another_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that keeps the last window and hands it to whoever asks next."""
    read = DeviceClient.read
    kept: list[Window] = []

    async def mixed(client: DeviceClient, *arguments: Any) -> Window:
        window = await read(client, *arguments)
        kept.append(window)
        return kept.pop(0) if len(kept) > 3 else window

    monkeypatch.setattr(DeviceClient, "read", mixed)

    assert is_caught(Profile(sessions=40), "not its output")
