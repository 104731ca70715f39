"""
Peers and their packets (`wire.md` §1, §12; `device.md` §16).
"""

from __future__ import annotations

import errno

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.broker.bench import Bench, answer_to, packet
from twisted_aotx.testing import MemoryMailboxes, MemoryWorld
from twisted_aotx.wire.packet import PACKET_BYTES_MAX


def test_exchange(serving: Bench) -> None:
    """A packet reaches the mailbox as it is, and the reply comes back as it is."""
    peer = serving.connect()

    serving.send(peer, packet(7, b"ask"))
    published = list(serving.mailboxes.published)
    serving.answer_next(b"tell")

    assert published == [(1, packet(7, b"ask"))]
    assert serving.read(peer) == answer_to(packet(7, b"ask"), b"tell")
    assert serving.mailboxes.is_free(1)


def test_what_is_in_a_packet_is_not_the_brokers_business(serving: Bench) -> None:
    """128 bytes of nothing are published; the device refuses them."""
    peer = serving.connect()

    serving.send(peer, bytes(128))

    assert serving.mailboxes.published == [(1, bytes(128))]


def test_largest_packet(serving: Bench) -> None:
    """65,536 bytes go in and come back whole."""
    peer = serving.connect()
    largest = packet(1, bytes(PACKET_BYTES_MAX - 128))

    serving.send(peer, largest)
    serving.answer_next(b"x" * (PACKET_BYTES_MAX - 128))

    reply = serving.read(peer)
    assert reply is not None
    assert len(reply) == PACKET_BYTES_MAX


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(packet()[:127], id="cases A 1: 127 bytes"),
        pytest.param(b"x", id="one byte"),
        pytest.param(bytes(PACKET_BYTES_MAX + 1), id="cases A 2: 65,537 bytes"),
        pytest.param(packet(operation=1), id="operation 1"),
        pytest.param(b"NOMAGIC!" + packet(operation=1)[8:], id="1 without magic"),
    ],
)
def test_closed_without_reply(serving: Bench, broken: bytes) -> None:
    """cases A 1, A 2: the peer is closed, no reply, nothing published."""
    peer, other = serving.connect(), serving.connect()

    serving.send(peer, broken)

    assert serving.read(peer) == b""
    assert serving.mailboxes.published == []
    serving.send(other, packet())
    assert len(serving.mailboxes.published) == 1


def test_one_packet_in_flight(serving: Bench) -> None:
    """cases E 85: the second packet is published only after the first was answered."""
    peer = serving.connect()

    serving.send(peer, packet(1), packet(2))
    first = list(serving.mailboxes.published)
    serving.answer_next()
    second = list(serving.mailboxes.published)
    reply = serving.read(peer)
    nothing_yet = serving.read(peer)
    serving.answer_next()

    assert first == [(1, packet(1))]
    assert second == [(1, packet(2))]
    assert reply == answer_to(packet(1))
    assert nothing_yet is None
    assert serving.read(peer) == answer_to(packet(2))


def test_pipelined_packets_keep_their_order(serving: Bench) -> None:
    """cases E 85: twenty packets sent ahead are answered one by one."""
    peer = serving.connect()

    serving.send(peer, *[packet(mark) for mark in range(20)])
    for _ in range(20):
        assert len(serving.mailboxes.published) == 1
        serving.answer_next()

    replies = [serving.read(peer) for _ in range(20)]
    assert replies == [answer_to(packet(mark)) for mark in range(20)]


def test_second_packet_waits_until_the_first_reply_is_taken(serving: Bench) -> None:
    """
    cases E 85: a peer that sends and never reads is held back as soon as a reply does
    not fit its socket; once it reads, everything is answered in order.
    """
    peer = serving.connect()
    payload = bytes(PACKET_BYTES_MAX - 128)

    serving.send(peer, *[packet(mark) for mark in range(8)])
    answered = 0
    while serving.mailboxes.published:
        serving.answer_next(payload)
        answered += 1
    held_back = answered
    for mark in range(8):
        assert serving.read(peer) == answer_to(packet(mark), payload)
        serving.world.settle()
        if serving.mailboxes.published:
            serving.answer_next(payload)

    assert held_back == 5  # four fit the socket, the fifth waits
    assert serving.read(peer) is None


def test_peers_do_not_mix(serving: Bench) -> None:
    """Each peer gets the reply to its own packet, in whatever order they come."""
    peers = [serving.connect() for _ in range(3)]
    for mark, peer in enumerate(peers):
        serving.send(peer, packet(mark))

    for channel, request in reversed(serving.mailboxes.published):
        serving.answer(channel, answer_to(request))
    serving.world.settle()

    assert [serving.read(peer) for peer in peers] == [
        answer_to(packet(mark)) for mark in range(3)
    ]


def test_every_channel_is_taken(memory: MemoryWorld, serving: Bench) -> None:
    """cases E 86: one peer too many is closed at once; after one closes, one fits."""
    peers = [serving.connect() for _ in range(3)]

    refused = serving.connect()
    answer_to_refused = serving.read(refused)
    peers[1].close()
    serving.world.settle()
    welcome = serving.connect()
    serving.send(welcome, packet(9))

    assert answer_to_refused == b""
    assert serving.mailboxes.published == [(2, packet(9))]


def test_default_channels(memory: MemoryWorld, serving: Bench) -> None:
    """cases E 86: with 128 channels 127 peers fit, and the 128th does not."""
    serving.service.stop()
    serving.world.settle()
    bench = Bench(serving.world, serving.grants_path.parent, channels=128)
    bench.start()

    peers = [bench.world.system.makeSocket() for _ in range(128)]
    with capturedLogs() as logs:
        for peer in peers:
            assert peer.connect_ex(bench.path) == 0
        bench.world.settle()

    assert [formatEvent(event) for event in logs] == [
        "a peer was closed: every channel is taken"
    ]
    closed = [peer for peer in peers if bench.read(peer) == b""]
    assert closed == [peers[127]]
    closed[0].close()
    peers[0].close()
    bench.world.settle()
    last = bench.connect()
    bench.send(last, packet(1))
    assert len(bench.mailboxes.published) == 1


def test_peer_lost_in_flight(serving: Bench) -> None:
    """The request runs on; its mailbox is nobody's until the reply, then dropped."""
    gone = serving.connect()
    serving.send(gone, packet(1))
    gone.close()
    serving.world.settle()

    others = [serving.connect() for _ in range(3)]
    for peer in others:
        if serving.read(peer) is None:
            serving.send(peer, packet(2))
    while_draining = list(serving.mailboxes.published)
    serving.answer(1, answer_to(packet(1)))
    serving.world.settle()
    late = serving.connect()
    serving.send(late, packet(3))

    assert while_draining == [(1, packet(1)), (2, packet(2)), (3, packet(2))]
    assert serving.read(others[2]) == b""
    assert serving.read(others[0]) is None
    assert serving.mailboxes.published[-1] == (1, packet(3))
    assert serving.read(late) is None


def test_peer_lost_with_packets_ahead(serving: Bench) -> None:
    """What a peer sent ahead is not done for it once its reply could not be sent."""
    gone = serving.connect()
    serving.send(gone, packet(1), packet(2))
    gone.close()
    serving.world.settle()

    serving.answer_next()

    assert serving.mailboxes.published == []
    assert serving.mailboxes.is_free(1)
    serving.send(serving.connect(), packet(3))
    assert serving.mailboxes.published == [(1, packet(3))]


def test_peer_that_ends_after_its_request(serving: Bench) -> None:
    """A peer that shuts its sending side still gets the reply, then the end."""
    peer = serving.connect()
    serving.send(peer, packet(1))
    peer.shutdown(1)
    serving.world.settle()

    serving.answer_next()

    assert serving.read(peer) == answer_to(packet(1))
    assert serving.read(peer) == b""
    assert serving.mailboxes.is_free(1)


@pytest.mark.parametrize("fault", [errno.EPIPE, errno.EIO, -1])
@pytest.mark.parametrize("waits", [False, True])
def test_failed_or_short_reply_closes(
    memory: MemoryWorld, timed: Bench, fault: int, *, waits: bool
) -> None:
    """A reply that is not sent whole closes the peer; its channel is free."""
    peer = timed.connect()
    timed.send(peer, packet(1), packet(2))
    memory.system.faults.sends.extend([errno.EAGAIN, fault] if waits else [fault])

    timed.answer_next()

    assert timed.mailboxes.published == []
    assert timed.mailboxes.is_free(1)
    replies = [timed.read(peer), timed.read(peer)]
    assert answer_to(packet(1)) not in replies
    assert b"" in replies


def test_reply_is_retried(memory: MemoryWorld, timed: Bench) -> None:
    """EAGAIN is not a failure."""
    peer = timed.connect()
    timed.send(peer, packet(1))
    memory.system.faults.sends.extend([errno.EAGAIN] * 3)

    timed.answer_next()

    assert timed.read(peer) == answer_to(packet(1))
    timed.send(peer, packet(2))
    assert timed.mailboxes.published == [(1, packet(2))]


def test_idle_peer_is_closed(memory: MemoryWorld, timed: Bench) -> None:
    """cases E 88: closed 30 s after the last activity, not before."""
    peer = timed.connect()
    memory.reactor.advance(20)
    timed.send(peer, packet(1))
    memory.reactor.advance(20)
    timed.answer_next()
    assert timed.read(peer) == answer_to(packet(1))

    memory.reactor.advance(29.9)
    before = timed.read(peer)
    memory.reactor.advance(0.1)

    assert before is None
    assert timed.read(peer) == b""
    with pytest.raises(BrokenPipeError):
        peer.send(packet(2), 0)


def test_silent_device(memory: MemoryWorld, timed: Bench) -> None:
    """A peer whose reply does not come is closed; its mailbox stays taken till then."""
    peer = timed.connect()
    timed.send(peer, packet(1))

    memory.reactor.advance(30)
    closed = timed.read(peer)
    for _ in range(2):
        timed.connect()
    refused = timed.read(timed.connect())
    timed.answer_next()

    assert closed == b""
    assert refused == b""
    assert timed.read(timed.connect()) is None


def test_peer_that_does_not_take_its_reply(memory: MemoryWorld, timed: Bench) -> None:
    """A stuck peer is closed after 30 s, and its channel is free."""
    peer = timed.connect()
    timed.send(peer, *[packet(mark) for mark in range(5)])
    for _ in range(5):
        timed.answer_next(bytes(PACKET_BYTES_MAX - 128))
    memory.reactor.advance(29.9)
    peers_before = memory.system.open_sockets()

    memory.reactor.advance(0.1)

    assert memory.system.open_sockets() == peers_before - 1
    peers = [timed.connect() for _ in range(3)]
    assert [timed.read(one) for one in peers] == [None] * 3


def test_other_user(memory: MemoryWorld, timed: Bench) -> None:
    """cases E 89: a peer with another uid is closed at accept, without a byte."""
    memory.system.uid = 1001

    peer = timed.connect()

    assert timed.read(peer) == b""
    memory.system.uid = 1000
    assert timed.read(timed.connect()) is None


def test_reply_while_closing(memory: MemoryWorld, timed: Bench) -> None:
    """A reply that comes in the turn in which its peer is closed is dropped."""
    peer = timed.connect()
    timed.send(peer, packet(1))
    channel, request = timed.mailboxes.published.pop()

    timed.service.stop()
    timed.answer(channel, answer_to(request))
    memory.settle()

    assert timed.read(peer) == b""
    assert timed.mailboxes.is_free(channel)


def test_many_peers_come_and_go(memory: MemoryWorld, timed: Bench) -> None:
    """A thousand peers, half of them leaving in flight, lose no channel."""
    for mark in range(1000):
        peer = timed.connect()
        timed.send(peer, packet(mark % 256))
        if mark % 2:
            peer.close()
            timed.answer_next()
        else:
            timed.answer_next()
            assert timed.read(peer) == answer_to(packet(mark % 256))
            peer.close()
        memory.settle()

    assert all(timed.mailboxes.is_free(channel) for channel in range(4))
    assert isinstance(timed.mailboxes, MemoryMailboxes)
    assert memory.system.open_sockets() == 1
