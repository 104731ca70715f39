"""
Requests sent ahead of their replies on one connection.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.internet.defer import CancelledError

from tests.client.bench import ALICE, ID, Bench, Call
from twisted_aotx.client import DeviceClient
from twisted_aotx.client.media import CHUNKS_AHEAD, media_chunks
from twisted_aotx.errors import (
    ConnectFailed,
    DeviceRefused,
    ExchangeTimeout,
    InvalidReply,
    ServiceClosed,
)
from twisted_aotx.testing import MemoryWorld, reply_to
from twisted_aotx.wire.media import MediaFrame, Metadata
from twisted_aotx.wire.numbers import MediaPhase, Operation
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader

HEADER = RequestHeader(Operation.MEDIA, ALICE.principal, ALICE.revision, id=ID)
AHEAD = 3


class Stream:
    """
    A run of payloads 0, 1, 2, … of one byte each, and what came of it.
    """

    def __init__(self, bench: Bench, client: DeviceClient, count: int) -> None:
        self.bench = bench
        self.count = count
        self.accepted: list[bytes] = []
        self.call = bench.call(
            client.stream(HEADER, self.payloads(), self.accept, ahead=AHEAD)
        )

    def payloads(self) -> Iterator[bytes]:
        yield from (bytes([number]) for number in range(self.count))

    def accept(self, reply: ReplyHeader, payload: bytes) -> None:
        self.accepted.append(payload)

    @property
    def sent(self) -> list[int]:
        """The payloads that have arrived."""
        return [payload[0] for _, payload in self.bench.peer.requests]

    def answer(self, payload: bytes, status: int = 200) -> None:
        """Answer the oldest request that is open."""
        request, later = self.bench.open.pop(0)
        later.callback(reply_to(request, status, payload))
        self.bench.world.settle()


def test_so_many_are_sent_ahead_and_no_more(bench: Bench) -> None:
    """Each reply makes room for one; the end is when the last was answered."""
    stream = Stream(bench, bench.client(), 6)

    seen = [len(stream.sent)]
    for number in range(6):
        assert not stream.call.is_done
        stream.answer(b"reply %d" % number)
        seen.append(len(stream.sent))

    assert seen == [3, 4, 5, 6, 6, 6, 6]
    assert stream.sent == [0, 1, 2, 3, 4, 5]
    assert stream.accepted == [b"reply %d" % number for number in range(6)]
    assert stream.call.is_done
    assert stream.call.failure is None
    assert all(request.payload_bytes == 1 for request, _ in bench.peer.requests)


def test_the_connection_is_used_again(bench: Bench) -> None:
    client = bench.client()
    stream = Stream(bench, client, 1)
    stream.answer(b"")

    call = bench.read(client, mark=4)
    bench.answer()

    assert call.result[0].cursor == 4
    assert bench.peer.connected == 1


def test_nothing_to_send_is_done_at_once(bench: Bench) -> None:
    stream = Stream(bench, bench.client(), 0)

    assert stream.call.is_done
    assert stream.call.failure is None


def test_a_reply_like_the_one_before_is_not_shown_again(bench: Bench) -> None:
    stream = Stream(bench, bench.client(), 5)

    for payload in (b"a", b"a", b"b", b"a", b"a"):
        stream.answer(payload)

    assert stream.accepted == [b"a", b"b", b"a"]


def test_what_is_no_reply_ends_it(bench: Bench) -> None:
    stream = Stream(bench, bench.client(), 5)
    stream.answer(b"a")
    request, later = bench.open.pop(0)
    later.callback(reply_to(request, id=bytes(16)))
    bench.world.settle()

    assert isinstance(stream.call.failure, InvalidReply)
    assert bench.peer.connections == []


def test_a_payload_that_cannot_be_had_ends_it(bench: Bench) -> None:
    client = bench.client()

    def payloads() -> Iterator[bytes]:
        yield b"a"
        raise OSError("the file is gone")

    call = bench.call(client.stream(HEADER, payloads(), lambda *_: None, ahead=AHEAD))

    assert isinstance(call.failure, OSError)
    assert bench.peer.connections == []


def test_a_connection_that_is_lost_ends_it(bench: Bench) -> None:
    stream = Stream(bench, bench.client(), 9)
    stream.answer(b"a")
    bench.peer.drop_all()
    bench.world.settle()

    assert isinstance(stream.call.failure, ConnectFailed)


def test_each_reply_has_its_time(memory: MemoryWorld, timed: Bench) -> None:
    """15 s from the last one, however long all of them take; then it is given up."""
    stream = Stream(timed, timed.client(), 9)
    for _ in range(4):
        memory.reactor.advance(14.9)
        stream.answer(b"a")
    assert not stream.call.is_done

    memory.reactor.advance(14.9)
    before = stream.call.is_done
    memory.reactor.advance(0.1)

    assert not before
    assert isinstance(stream.call.failure, ExchangeTimeout)


def test_a_caller_that_gives_up_closes_the_connection(bench: Bench) -> None:
    client = bench.client()
    stream = Stream(bench, client, 9)

    stream.call.cancel()
    bench.world.settle()
    bench.open.clear()
    other = bench.read(client, mark=1)
    bench.answer()

    assert isinstance(stream.call.failure, CancelledError)
    assert len(bench.peer.connections) == 1
    assert bench.peer.connected == 2
    assert other.result[0].cursor == 1


def test_close_fails_it(bench: Bench) -> None:
    client = bench.client()
    stream = Stream(bench, client, 9)

    client.close()
    bench.world.settle()

    assert isinstance(stream.call.failure, ServiceClosed)


# --- chunks of a source ---------------------------------------------------------------

SIZE = 9 * 8192 + 5


def metadata(phase: int = MediaPhase.RECEIVING, status: int = 0) -> bytes:
    return Metadata(bytes(32), SIZE, phase, status, 1).pack()


def chunks_of(bench: Bench, blocks: list[bytes]) -> Call:
    return bench.call(media_chunks(bench.client(), ALICE, ID, SIZE, blocks))


def test_a_source_arrives_in_chunks(bench: Bench) -> None:
    """Of 8,192 bytes, the last of what is left, whatever the blocks are."""
    source = bytes(range(256)) * 288 + b"five."
    assert len(source) == SIZE
    call = chunks_of(bench, [source[:65536], source[65536:]])

    assert len(bench.open) == CHUNKS_AHEAD
    while bench.open:
        request, later = bench.open.pop(0)
        later.callback(reply_to(request, 200, metadata()))
        bench.world.settle()

    assert call.is_done
    assert call.failure is None
    frames = [MediaFrame.unpack(payload) for _, payload in bench.peer.requests]
    assert [len(frame.data) for frame in frames] == [8192] * 9 + [5]
    assert [frame.head.source_offset for frame in frames] == [
        8192 * n for n in range(10)
    ]
    assert {frame.head.source_bytes for frame in frames} == {SIZE}
    assert b"".join(frame.data for frame in frames) == source


@pytest.mark.parametrize(
    ("status", "payload", "failure"),
    [
        (409, metadata(MediaPhase.REFUSED, 4), DeviceRefused),
        (404, b"", DeviceRefused),
        (202, metadata(), InvalidReply),
        (200, metadata()[:-1], InvalidReply),
    ],
)
def test_a_chunk_that_is_not_taken(
    bench: Bench, status: int, payload: bytes, failure: type[Exception]
) -> None:
    """The first says why; no more are sent, and the connection is closed."""
    call = chunks_of(bench, [bytes(SIZE)])
    for answer in ((200, metadata()), (status, payload)):
        request, later = bench.open.pop(0)
        later.callback(reply_to(request, *answer))
        bench.world.settle()

    assert type(call.failure) is failure
    if isinstance(call.failure, DeviceRefused):
        assert (call.failure.status, call.failure.payload) == (status, payload)
    assert len(bench.peer.requests) == CHUNKS_AHEAD + 1
    assert bench.peer.connections == []
