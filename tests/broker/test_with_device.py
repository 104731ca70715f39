"""
Client, broker and device together, stepped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.bench import failure_of
from tests.broker.whole import EPOCH, REVISION, SUBMISSION, TEXT, Whole, caller, row
from tests.client.bench import Call
from tests.device.capacities import SMALL
from twisted_aotx.broker.errors import GrantsRefused
from twisted_aotx.errors import DeviceRefused
from twisted_aotx.testing import read_packet
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wire.packet import PACKET_BYTES_MAX, RequestHeader, join


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    whole = Whole(tmp_path, row(1), row(2, tokens=10))
    started = whole.broker.start()
    whole.step()
    assert started.called
    yield whole
    whole.close()


def test_device_refuses_a_table(tmp_path: Path) -> None:
    """A table that the device does not take refuses the start; no socket."""
    whole = Whole(tmp_path, row(1, tokens=SMALL.sequence_tokens))

    started = whole.broker.start()
    whole.step()
    refusal = failure_of(started)

    assert isinstance(refusal, GrantsRefused)
    assert refusal.status == 400
    assert not whole.world.system.exists(whole.path)
    whole.close()


def test_information(whole: Whole) -> None:
    """Each principal is told its own grant, and METRICS where the device is."""
    one = whole.call(whole.client.info(caller(1))).result
    two = whole.call(whole.client.metrics(caller(2))).result
    nobody = whole.call(whole.client.info(caller(9))).failure

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

    admitted = whole.call(whole.client.submit(caller(1), EPOCH, request_id, SUBMISSION))
    whole.step(ticks=10)
    window = whole.call(whole.client.read(caller(1), EPOCH, request_id, 6)).result

    assert admitted.result.phase == Phase.QUEUED
    assert window.reply.phase == Phase.COMPLETED
    assert window.data == TEXT.encode()[6:]
    assert window.reply.total_bytes == len(TEXT)


def test_client_that_leaves_after_submit(whole: Whole) -> None:
    """cases D 77: the request completes, and a new connection reads it."""
    request_id = bytes(15) + b"\x02"
    gone = Call(whole.client.submit(caller(1), EPOCH, request_id, SUBMISSION))
    whole.world.settle()
    gone.cancel()

    whole.step(ticks=10)
    window = whole.call(whole.client.read(caller(1), EPOCH, request_id, 0)).result

    assert window.data == TEXT.encode()


def test_many_callers_do_not_mix(whole: Whole) -> None:
    """Forty callers share fifteen channels; each gets its own answer."""
    calls = [Call(whole.client.info(caller(1 + index % 2))) for index in range(40)]
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
            4, caller(1).principal, REVISION, EPOCH, bytes([mark] * 16)
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
