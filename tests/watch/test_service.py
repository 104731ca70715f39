"""
The socket of watches: who may come, what is told, and every bound.
"""

from __future__ import annotations

import attrs
import pytest
from twisted.internet.error import CannotListenError
from twisted.logger import capturedLogs, formatEvent

from tests.watch.bench import EPOCH, PRINCIPAL, Bench, id_of, watch
from twisted_aotx.devices import IProgress, Progress
from twisted_aotx.limits import (
    WATCH_CONNECTIONS_MAX,
    WATCH_FORGET_SECONDS,
    WATCH_RECORDS_MAX,
    WATCHES_MAX,
)
from twisted_aotx.seqpacket import QUEUE_BYTES_MAX
from twisted_aotx.testing import MemoryWorld
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wire.watch import WATCH_BYTES, Notice


def test_who_waits_is_told_when_the_device_tells(bench: Bench) -> None:
    peer, other = bench.connect(), bench.connect()
    bench.armed(peer, watch(1), watch(2))
    bench.armed(other, watch(3))

    bench.progressed(2, total=5)

    assert bench.notices(peer) == [
        Notice(PRINCIPAL, id_of(2), EPOCH, total_bytes=5, phase=Phase.RUNNING)
    ]
    assert bench.notices(peer) == []
    assert bench.notices(other) == []


def test_notices_of_one_bell_share_a_packet(bench: Bench) -> None:
    peer = bench.connect()
    count = WATCH_RECORDS_MAX + 1
    bench.armed(peer, *(watch(number) for number in range(count)))

    for number in range(count - 1):
        bench.device.told.append(Progress(PRINCIPAL, id_of(number), 1, Phase.RUNNING))
    bench.progressed(count - 1)

    assert len(bench.notices(peer)) == WATCH_RECORDS_MAX
    assert len(bench.notices(peer)) == 1
    assert bench.notices(peer) == []


def test_when_notices_were_lost_everybody_is_told(bench: Bench) -> None:
    peer = bench.connect()
    bench.armed(peer, watch(1), watch(2))

    bench.device.is_losing = True
    bench.rung()

    assert len(bench.notices(peer)) == 2


def test_the_device_tells_only_while_somebody_watches(bench: Bench) -> None:
    assert IProgress.providedBy(bench.device)
    one, two = bench.connect(), bench.connect()
    assert bench.device.watched == []

    bench.watch(one, watch(1))
    bench.watch(two, watch(1))
    assert bench.device.watched == [True]

    one.close()
    bench.world.settle()
    assert bench.device.watched == [True]

    two.close()
    bench.world.settle()
    assert bench.device.watched == [True, False]
    bench.progressed()
    assert bench.device.told, "nobody asks it any more"


def test_a_watch_that_is_not_renewed_is_over() -> None:
    """A client that lost its interest does not say so."""
    bench = Bench(MemoryWorld())
    bench.service.start()
    peer = bench.connect()
    bench.watch(peer, watch(1), watch(2))
    advance = bench.world.reactor.advance  # type: ignore[attr-defined]  # a clock's
    advance(WATCH_FORGET_SECONDS - 1)
    bench.armed(peer, watch(2))

    advance(1)
    assert bench.device.watched == [True]
    assert bench.notices(peer) == []
    bench.progressed(2)
    assert len(bench.notices(peer)) == 1

    advance(WATCH_FORGET_SECONDS)
    assert bench.device.watched == [True, False]


def test_a_request_of_another_epoch_is_not_kept(bench: Bench) -> None:
    peer = bench.connect()

    bench.watch(peer, attrs.evolve(watch(1), epoch=EPOCH + 1))

    assert bench.notices(peer) == [Notice(PRINCIPAL, id_of(1), EPOCH, 0, 0)]
    assert bench.device.watched == []
    assert len(bench.service._renewals) == 0


# --- who may not ----------------------------------------------------------------------


def test_another_user_is_closed_without_a_byte() -> None:
    world = MemoryWorld()
    bench = Bench(world)
    bench.service.start()
    world.system.uid += 1
    peer = world.system.makeSocket()
    peer.connect_ex(bench.path)
    world.system.uid -= 1
    with capturedLogs() as events:
        world.settle()

    assert bench.is_closed(peer)
    assert [formatEvent(event) for event in events] == [
        "a watching peer of another user was closed"
    ]


def test_the_most_connections_and_not_one_more(bench: Bench) -> None:
    peers = [bench.connect() for _ in range(WATCH_CONNECTIONS_MAX)]
    bench.armed(peers[-1], watch(1))

    with capturedLogs() as events:
        one_more = bench.connect()

    assert bench.is_closed(one_more)
    assert "there are enough" in str(formatEvent(events[0]))
    peers[0].close()
    bench.world.settle()
    bench.armed(bench.connect(), watch(1))
    for peer in peers[1:]:
        peer.close()


@pytest.mark.parametrize(
    "packet",
    [b"x", b"x" * WATCH_BYTES, watch(1).pack() + b"\0", b"\0" * (WATCH_BYTES * 65)],
)
def test_a_peer_that_speaks_otherwise_is_closed(bench: Bench, packet: bytes) -> None:
    peer, other = bench.connect(), bench.connect()
    bench.armed(other, watch(1))

    with capturedLogs() as events:
        peer.send(packet, 0)
        bench.world.settle()

    assert bench.is_closed(peer)
    (text,) = [str(formatEvent(event)) for event in events]
    assert text.startswith("a watching peer was closed: ")
    bench.progressed(1)
    assert len(bench.notices(other)) == 1


def test_a_peer_with_too_many_watches_loses_the_oldest(bench: Bench) -> None:
    peer = bench.connect()
    for start in range(0, WATCHES_MAX, WATCH_RECORDS_MAX):
        numbers = range(start, start + WATCH_RECORDS_MAX)
        bench.watch(peer, *(watch(number) for number in numbers))
        assert len(bench.notices(peer)) == WATCH_RECORDS_MAX

    bench.armed(peer, watch(WATCHES_MAX))

    assert len(bench.service._renewals) == WATCHES_MAX
    bench.watch(peer, watch(1), watch(0))
    assert [notice.id for notice in bench.notices(peer)] == [id_of(0)]


def test_a_peer_that_takes_no_notices_is_not_read(bench: Bench) -> None:
    """So what waits for it has a bound, however much it sends."""
    peer = bench.connect()
    watches = [watch(number) for number in range(WATCH_RECORDS_MAX)]
    data = b"".join(each.pack() for each in watches)
    sent = 0
    try:
        while sent < QUEUE_BYTES_MAX:
            sent += peer.send(data, 0)
            # New news for each: every watch is answered at once.
            for number in range(WATCH_RECORDS_MAX):
                bench.progressed(number, total=sent)
    except BlockingIOError:
        pass

    (connected,) = bench.service._peers
    assert connected._socket._queue.queued_bytes <= 2 * len(data)
    assert sent < QUEUE_BYTES_MAX


# --- start and end --------------------------------------------------------------------


def test_the_socket_is_for_this_user_and_gone_at_the_end(bench: Bench) -> None:
    peer = bench.connect()
    bench.watch(peer, watch(1))
    bench.notices(peer)
    assert bench.world.system.lstat(bench.path).st_mode & 0o077 == 0

    ended = bench.service.stop()
    bench.world.settle()

    assert ended.called
    assert bench.is_closed(peer)
    with pytest.raises(FileNotFoundError):
        bench.world.system.lstat(bench.path)
    assert bench.service.stop().called


def test_a_path_that_is_taken_refuses_the_start(bench: Bench) -> None:
    again = Bench(bench.world)
    again.path = bench.path
    again.service._socket_path = bench.service._socket_path

    with pytest.raises(CannotListenError):
        again.service.start()
    assert again.service.stop().called
