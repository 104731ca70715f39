"""
Client, broker and device together, in memory and stepped: one thread, one clock.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.bench import failure_of
from tests.client.bench import Call
from tests.device.capacities import SMALL
from twisted_aotx.broker.errors import GrantsRefused
from twisted_aotx.broker.service import BrokerService
from twisted_aotx.client import Caller, DeviceClient
from twisted_aotx.device.host import Device
from twisted_aotx.engines.reference import make
from twisted_aotx.errors import DeviceRefused
from twisted_aotx.testing import MemoryWorld, read_packet
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.numbers import Action, Phase
from twisted_aotx.wire.packet import PACKET_BYTES_MAX, RequestHeader, join
from twisted_aotx.wire.requests import Message, Submission, TextPart

EPOCH = 7
REVISION = 3
TEXT = "hello from the device"
SUBMISSION = Submission(
    role=2,
    limit=64,
    temperature=0.0,
    top_p=1.0,
    messages=(Message(1, (TextPart(b"hi"),)),),
)


def _caller(number: int) -> Caller:
    return Caller(number.to_bytes(16, "big"), REVISION)


def _row(number: int, *, tokens: int = 100) -> GrantRow:
    return GrantRow(
        principal=_caller(number).principal,
        revision=REVISION,
        actions=Action.INFER | Action.TELEMETRY,
        models=1 << 2,
        pages=0,
        tokens=tokens,
        requests=4,
        media=0,
        media_bytes=0,
    )


class Whole:
    """
    Everything between a client and an engine.
    """

    def __init__(self, folder: Path, *rows: GrantRow) -> None:
        self.world = MemoryWorld()
        self.device = Device(
            SMALL,
            epoch=EPOCH,
            hash_key=2,
            seed_key=3,
            engines=[make(2, {"text": TEXT}, SMALL.slots, SMALL.sequence_tokens)],
        )
        self.now_ns = 0
        path = self.world.path("service.sock")
        grants = folder / "grants"
        grants.write_bytes(GrantTable(REVISION, rows).pack())
        grants.chmod(0o600)
        self.path = path
        self.broker = BrokerService(
            self.world.reactor,
            self.device,
            socket_path=os.fsdecode(path),
            grants_path=str(grants),
            system=self.world.system,
        )
        self.client = DeviceClient(
            self.world.reactor,
            path,
            connections_max=SMALL.channels - 1,
            system=self.world.system,
        )

    def step(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self.world.reactor.advance(0.001)
            self.now_ns += 1_000_000
            self.device.tick(self.now_ns)
            self.broker.replies_published()
        self.world.settle()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Call:
        call = Call(coroutine)
        self.step()
        return call

    def close(self) -> None:
        self.device.close()
        self.device.free()


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    whole = Whole(tmp_path, _row(1), _row(2, tokens=10))
    started = whole.broker.start()
    whole.step()
    assert started.called
    yield whole
    whole.close()


def test_device_refuses_a_table(tmp_path: Path) -> None:
    """A table that the device does not take refuses the start; no socket."""
    whole = Whole(tmp_path, _row(1, tokens=SMALL.sequence_tokens))

    started = whole.broker.start()
    whole.step()
    refusal = failure_of(started)

    assert isinstance(refusal, GrantsRefused)
    assert refusal.status == 400
    assert not whole.world.system.exists(whole.path)
    whole.close()


def test_information(whole: Whole) -> None:
    """Each principal is told its own grant, and METRICS where the device is."""
    one = whole.call(whole.client.info(_caller(1))).result
    two = whole.call(whole.client.metrics(_caller(2))).result
    nobody = whole.call(whole.client.info(_caller(9))).failure

    assert (one.epoch, one.information.grant_tokens) == (EPOCH, 100)
    assert two.information.grant_tokens == 10
    assert one.information.channels == SMALL.channels
    assert (one.information.tick, two.information.tick > 0) == (0, True)
    assert isinstance(nobody, DeviceRefused)
    assert nobody.status == 403
    assert nobody.reply is not None
    assert nobody.reply.epoch == EPOCH


def test_request_from_start_to_end(whole: Whole) -> None:
    """What the engine writes is what the client reads."""
    request_id = bytes(15) + b"\x01"

    admitted = whole.call(
        whole.client.submit(_caller(1), EPOCH, request_id, SUBMISSION)
    )
    whole.step(ticks=10)
    window = whole.call(whole.client.read(_caller(1), EPOCH, request_id, 6)).result

    assert admitted.result.phase == Phase.QUEUED
    assert window.reply.phase == Phase.COMPLETED
    assert window.data == TEXT.encode()[6:]
    assert window.reply.total_bytes == len(TEXT)


def test_client_that_leaves_after_submit(whole: Whole) -> None:
    """cases D 77: the request completes, and a new connection reads it."""
    request_id = bytes(15) + b"\x02"
    gone = Call(whole.client.submit(_caller(1), EPOCH, request_id, SUBMISSION))
    whole.world.settle()
    gone.cancel()

    whole.step(ticks=10)
    window = whole.call(whole.client.read(_caller(1), EPOCH, request_id, 0)).result

    assert window.data == TEXT.encode()


def test_many_callers_do_not_mix(whole: Whole) -> None:
    """Forty callers share fifteen channels; each gets its own answer."""
    calls = [Call(whole.client.info(_caller(1 + index % 2))) for index in range(40)]
    whole.step(ticks=12)

    tokens = [call.result.information.grant_tokens for call in calls]
    assert tokens == [100 - 90 * (index % 2) for index in range(40)]


@pytest.mark.parametrize("broken", [bytes(127), bytes(PACKET_BYTES_MAX + 1)])
def test_broken_packets_never_reach_the_device(whole: Whole, broken: bytes) -> None:
    """cases A 1, A 2: closed, no reply, and the device is as it was."""
    peer = whole.world.system.makeSocket()
    peer.connect_ex(whole.path)
    before = whole.device.digest()

    peer.send(broken, 0)
    whole.world.settle()
    whole.broker.replies_published()

    assert read_packet(peer) == b""
    assert whole.device.digest() == before


def test_two_frames_ahead(whole: Whole) -> None:
    """cases E 85: the second frame is answered after the first, a tick later."""
    peer = whole.world.system.makeSocket()
    peer.connect_ex(whole.path)
    for mark in (1, 2):
        header = RequestHeader(
            4, _caller(1).principal, REVISION, EPOCH, bytes([mark] * 16)
        )
        peer.send(join(header), 0)

    whole.step()
    first, nothing = read_packet(peer), read_packet(peer)
    whole.step()
    second = read_packet(peer)

    assert first is not None
    assert first[48:64] == bytes([1] * 16)
    assert nothing is None
    assert second is not None
    assert second[48:64] == bytes([2] * 16)
