"""
Back-pressure of connections: producers, queues, readers that pause.
"""

from __future__ import annotations

import pytest
from twisted.internet import error
from twisted.internet.interfaces import (
    IPullProducer,
    IPushProducer,
)
from zope.interface import implementer

from tests.seqpacket.stage import HalfCloser, Recorder, Stage
from twisted_aotx.seqpacket import (
    PACKET_BYTES_MAX,
    QUEUE_BYTES_MAX,
    PacketTooLong,
    SendQueueFull,
)
from twisted_aotx.testing import World


@implementer(IPushProducer)
class Faucet:
    """
    Sends numbered packets of the largest size until paused, at most *count*.
    """

    def __init__(self, client: Recorder, count: int) -> None:
        self._client = client
        self._left = count
        self.sent = 0
        self.paused = 0
        self.resumed = 0
        self.is_paused = False

    def resumeProducing(self) -> None:
        self.resumed += 1
        self.is_paused = False
        self.pour()

    def pauseProducing(self) -> None:
        self.paused += 1
        self.is_paused = True

    def stopProducing(self) -> None:
        self._left = 0

    def pour(self) -> None:
        while self._left and not self.is_paused:
            self._left -= 1
            self._client.sendPacket(bytes([self.sent % 256]) * PACKET_BYTES_MAX)
            self.sent += 1


@implementer(IPullProducer)
class Pump:
    """
    Sends one packet whenever asked, then closes.
    """

    def __init__(self, client: Recorder, count: int) -> None:
        self._client = client
        self._left = count

    def resumeProducing(self) -> None:
        if self._left:
            self._left -= 1
            self._client.sendPacket(b"%d" % self._left)
        else:
            self._client.socket.unregisterProducer()
            self._client.socket.loseConnection()

    def stopProducing(self) -> None:
        self._left = 0


def test_push_producer_is_paused_and_resumed(stage: Stage) -> None:
    """A fast producer waits for a slow reader, and nothing is lost."""
    stage.listen()
    client = stage.client()
    server = stage.servers.made[0]
    server.socket.pauseProducing()
    faucet = Faucet(client, count=40)

    client.socket.registerProducer(faucet, True)
    faucet.pour()
    stage.world.settle()
    sent_while_blocked = faucet.sent
    server.socket.resumeProducing()
    stage.world.until(lambda: len(server.got) == 40)

    assert sent_while_blocked < 20
    assert faucet.paused >= 1
    assert faucet.resumed == faucet.paused
    assert [packet[0] for packet in server.got] == list(range(40))


def test_pull_producer_is_asked_until_done(stage: Stage) -> None:
    """A pull producer gets its turns although packets go straight to the kernel."""
    stage.listen()
    client = stage.client()

    client.socket.registerProducer(Pump(client, count=5), False)
    stage.world.until(lambda: stage.servers.made[0].lost)

    assert stage.servers.made[0].got == [b"4", b"3", b"2", b"1", b"0"]


def test_queue_is_bounded(stage: Stage) -> None:
    """A peer that never reads costs at most QUEUE_BYTES_MAX; the next packet raises."""
    stage.listen()
    client = stage.client()
    stage.servers.made[0].socket.pauseProducing()
    packet = bytes(PACKET_BYTES_MAX)
    in_queue = QUEUE_BYTES_MAX // PACKET_BYTES_MAX

    for _ in range(4 + in_queue):  # the kernel takes four
        client.sendPacket(packet)
    with pytest.raises(SendQueueFull):
        client.sendPacket(b"x")
    stage.servers.made[0].socket.resumeProducing()
    stage.world.until(lambda: len(stage.servers.made[0].got) == 4 + in_queue)
    client.sendPacket(b"x")
    stage.world.until(lambda: stage.servers.made[0].got[-1] == b"x")


def test_paused_reader_gets_nothing_until_resumed(stage: Stage) -> None:
    """A pause from inside packetReceived holds the next packet back at once."""
    stage.listen()
    client = stage.client()
    server = stage.servers.made[0]
    server.then = server.socket.pauseProducing

    for packet in (b"1", b"2", b"3"):
        client.sendPacket(packet)
    stage.world.settle()
    got_first = list(server.got)
    server.socket.resumeProducing()
    stage.world.settle()

    assert got_first == [b"1"]
    assert server.got == [b"1", b"2"]


def test_resumed_reader_gets_at_once_what_waits(stage: Stage) -> None:
    """
    A packet that came during the pause needs no turn of the reactor, nor does the one
    behind it; and with none left the reactor watches again.
    """
    stage.listen()
    client = stage.client()
    server = stage.servers.made[0]
    server.then = server.socket.pauseProducing
    for packet in (b"1", b"2", b"3"):
        client.sendPacket(packet)
    stage.world.settle()

    server.socket.resumeProducing()
    got_second = list(server.got)
    server.socket.resumeProducing()
    got_third = list(server.got)
    server.socket.resumeProducing()
    client.sendPacket(b"4")
    stage.world.until(lambda: len(server.got) == 4)

    assert got_second == [b"1", b"2"]
    assert got_third == [b"1", b"2", b"3"]
    assert server.got == [b"1", b"2", b"3", b"4"]


def test_end_that_comes_while_paused(stage: Stage) -> None:
    """It is told after what was sent before it, and not from within the resumption."""
    raw, server = stage.raw_pair()
    server.then = server.socket.pauseProducing
    for packet in (b"1", b"2"):
        raw.send(packet, 0)
    raw.close()
    stage.world.settle()

    server.socket.resumeProducing()
    server.socket.resumeProducing()
    lost_from_within = server.lost
    stage.world.until(lambda: server.lost)

    assert server.got == [b"1", b"2"]
    assert lost_from_within is None
    assert server.lost is not None
    assert server.lost.check(error.ConnectionDone)


def test_half_close_that_comes_while_paused(stage: Stage) -> None:
    """It stays a half close: what the protocol answers arrives."""
    stage.servers = type(stage.servers)(HalfCloser)
    stage.listen()
    client = stage.client(HalfCloser)
    server = stage.servers.made[0]
    server.then = server.socket.pauseProducing
    for packet in (b"1", b"2"):
        client.sendPacket(packet)
    client.socket.loseWriteConnection()
    stage.world.settle()

    server.socket.resumeProducing()
    server.socket.resumeProducing()
    stage.world.until(lambda: client.lost)

    assert server.got == [b"1", b"2"]
    assert client.got == [b"(write closed)", b"after the end"]


def test_cut_packet_that_comes_while_paused(stage: Stage) -> None:
    """It ends the connection as any, though the resumption has taken it already."""
    raw, server = stage.raw_pair()
    server.then = server.socket.pauseProducing
    raw.send(b"1", 0)
    raw.send(bytes(PACKET_BYTES_MAX + 1), 0)
    stage.world.settle()

    server.socket.resumeProducing()
    stage.world.until(lambda: server.lost)

    assert server.got == [b"1"]
    assert server.lost is not None
    assert server.lost.check(PacketTooLong)


def test_abort_from_a_packet_that_a_resumption_delivers(stage: Stage) -> None:
    stage.listen()
    client = stage.client()
    server = stage.servers.made[0]
    server.then = server.socket.pauseProducing
    for packet in (b"1", b"2", b"3"):
        client.sendPacket(packet)
    stage.world.settle()

    server.then = server.socket.abortConnection
    server.socket.resumeProducing()
    stage.world.until(lambda: server.lost and client.lost)

    assert server.got == [b"1", b"2"]


def test_many_packets_do_not_starve_others(stage: Stage, world: World) -> None:
    """A peer with a hundred packets is served a batch at a time."""
    stage.listen()
    raw = stage.raw_client()
    other = stage.raw_client()
    world.until(lambda: len(stage.servers.made) == 2)
    first, second = stage.servers.made
    seen: list[int] = []
    second.then = lambda: seen.append(len(first.got))

    for _ in range(90):
        raw.send(b"x", 0)
    other.send(b"me too", 0)
    world.until(lambda: len(first.got) == 90 and seen)

    assert seen[0] <= 2 * 16
