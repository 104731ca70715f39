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
from twisted_aotx.broker import service as broker_service
from twisted_aotx.broker.channel import ChannelState
from twisted_aotx.broker.factory import BrokerFactory
from twisted_aotx.broker.protocol import BrokerProtocol
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


def is_caught(profile: Profile, *words: str) -> bool:
    """Whether a seed finds something that is told with one of *words*."""
    return any(
        any(word in fault for word in words)
        for seed in range(1, SEEDS_MAX + 1)
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

    # Stalls: a slot whose next lease comes before the word of the last one's end.
    assert is_caught(Profile(sessions=90, stalls=0.05), "its engine")


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


class Careless(BrokerFactory):
    """A broker that gives a channel to the next peer while a packet is under way."""

    def answered(self, channel: int) -> None:
        reply = self._mailboxes.reply(channel)
        self._mailboxes.release(channel)
        peer = self._peers.get(channel)
        if peer is not None and self._channels[channel].state is ChannelState.PUBLISHED:
            self._channels[channel].state = ChannelState.IDLE
            peer.reply(reply)

    def publish(self, peer: BrokerProtocol, packet: bytes) -> None:
        self._channels[peer.channel].state = ChannelState.PUBLISHED
        if self._mailboxes.is_free(peer.channel):
            self._mailboxes.publish(peer.channel, packet)

    def lost(self, peer: BrokerProtocol) -> None:
        self._idle.stop(peer)
        del self._peers[peer.channel]
        self._channels[peer.channel].state = ChannelState.FREE
        self._free.append(peer.channel)


def test_an_old_reply_to_a_new_peer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_service, "BrokerFactory", Careless)

    assert is_caught(
        Profile(sessions=60, deeds=("replace_grants",), store_slow=0.5),
        "answers another",
        "invalid_device_response",
    )


def test_a_stop_that_never_reaches_the_engine_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EngineBridge, "_stop", lambda bridge, order: None)

    assert is_caught(Profile(sessions=40, misbehaves=0.3), "not told of its end")
