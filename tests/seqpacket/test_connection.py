"""
Connections, in memory and on real sockets.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from twisted.internet import error
from twisted.internet.interfaces import (
    IHalfCloseableDescriptor,
    IPushProducer,
    ITransport,
)
from zope.interface.verify import verifyObject

from tests.seqpacket.stage import HalfCloser, Stage
from twisted_aotx.seqpacket import (
    PACKET_BYTES_MAX,
    PacketTooLong,
    System,
)
from twisted_aotx.testing import read_packet


def test_packets_keep_their_bounds(stage: Stage) -> None:
    """What is sent in one turn arrives as the same packets in the same order."""
    stage.listen()
    client = stage.client()
    sizes = [1, 128, 1152, PACKET_BYTES_MAX, 1] * 20
    sent = [bytes([index]) * size for index, size in enumerate(sizes)]

    client.socket.writeSequence(sent)
    stage.world.until(lambda: len(stage.servers.made[0].got) == len(sent))

    assert stage.servers.made[0].got == sent


def test_both_directions(stage: Stage) -> None:
    """A server answers on the same connection."""
    stage.listen()
    client = stage.client()

    stage.servers.made[0].sendPacket(b"hello")
    stage.world.until(lambda: client.got)

    assert client.got == [b"hello"]


@pytest.mark.parametrize("size", [0, PACKET_BYTES_MAX + 1])
def test_no_such_packet_is_sent(stage: Stage, size: int) -> None:
    """Empty and oversize packets are refused, and the connection goes on."""
    stage.listen()
    client = stage.client()

    with pytest.raises(error.MessageLengthError):
        client.sendPacket(bytes(size))
    client.sendPacket(b"next")
    stage.world.until(lambda: stage.servers.made[0].got)

    assert stage.servers.made[0].got == [b"next"]


def test_cut_packet_closes(stage: Stage) -> None:
    """A packet over the limit is seen as one, not taken for its first 65,536 bytes."""
    raw, server = stage.raw_pair()

    raw.send(bytes(PACKET_BYTES_MAX + 1), 0)
    stage.world.until(lambda: server.lost)

    assert server.got == []
    assert server.lost is not None
    assert isinstance(server.lost.value, PacketTooLong)
    assert server.lost.value.packet_bytes == PACKET_BYTES_MAX + 1
    assert read_packet(raw) == b""


def test_close_sends_what_is_queued(stage: Stage) -> None:
    """loseConnection waits for a slow reader."""
    stage.listen()
    client = stage.client()
    server = stage.servers.made[0]
    server.socket.pauseProducing()

    for index in range(10):
        client.sendPacket(bytes([index]) * PACKET_BYTES_MAX)
    client.socket.loseConnection()
    stage.world.settle()
    open_while_blocked = client.lost is None
    server.socket.resumeProducing()
    stage.world.until(lambda: server.lost and client.lost)

    assert open_while_blocked
    assert len(server.got) == 10
    assert server.lost is not None
    assert server.lost.check(error.ConnectionDone)
    assert client.lost is not None
    assert client.lost.check(error.ConnectionDone)


def test_half_close(stage: Stage) -> None:
    """Each side may say that it sends nothing more, and be answered."""
    stage.servers = type(stage.servers)(HalfCloser)
    stage.listen()
    client = stage.client(HalfCloser)

    client.sendPacket(b"request")
    client.socket.loseWriteConnection()
    stage.world.until(lambda: client.lost)

    assert stage.servers.made[0].got == [b"request"]
    assert client.got == [b"(write closed)", b"after the end"]


def test_half_close_is_told_once(stage: Stage) -> None:
    """Whoever pauses and resumes after it hears nothing more."""

    class Lingering(HalfCloser):
        def readConnectionLost(self) -> None:
            self.got.append(b"(read closed)")

    stage.servers = type(stage.servers)(Lingering)
    stage.listen()
    client = stage.client(HalfCloser)
    client.sendPacket(b"request")
    client.socket.loseWriteConnection()
    server = stage.servers.made[0]
    stage.world.until(lambda: len(server.got) == 2)

    server.socket.pauseProducing()
    server.socket.resumeProducing()
    stage.world.settle()

    assert server.got == [b"request", b"(read closed)"]
    assert server.lost is None


def test_last_packet_of_a_peer_that_left_unread_ones(stage: Stage) -> None:
    """
    A peer sends its reply and closes without reading ours: the kernel reports a reset
    before the reply, and the reply is delivered all the same.
    """
    raw, server = stage.raw_pair()

    server.sendPacket(b"never read")
    raw.send(b"reply", 0)
    raw.close()
    stage.world.until(lambda: server.lost)

    assert server.got == [b"reply"]
    assert server.lost is not None
    assert type(server.lost.value) is error.ConnectionLost


def test_failed_send_delivers_what_the_peer_sent_before(stage: Stage) -> None:
    """EPIPE ends the connection only after the peer's packets were read."""
    raw, server = stage.raw_pair()
    server.socket.pauseProducing()
    for index in range(40):
        raw.send(b"%d" % index, 0)
    raw.close()

    server.sendPacket(b"too late")
    stage.world.settle()
    lost_while_paused = server.lost
    server.socket.resumeProducing()
    stage.world.until(lambda: server.lost)

    assert lost_while_paused is None
    assert server.got == [b"%d" % index for index in range(40)]
    assert server.lost is not None
    assert type(server.lost.value) is error.ConnectionLost


def test_abort_is_final(stage: Stage) -> None:
    """After abortConnection nothing is sent or delivered, and it is told once."""
    stage.listen()
    client = stage.client()
    server = stage.servers.made[0]
    server.sendPacket(b"not for a dead one")

    client.socket.abortConnection()
    client.socket.abortConnection()
    client.sendPacket(b"x")
    client.socket.loseConnection()
    stage.world.until(lambda: client.lost and server.lost)

    assert client.got == []
    assert server.got == []
    assert client.lost is not None
    assert client.lost.check(error.ConnectionAborted)


def test_abort_while_packets_wait(stage: Stage) -> None:
    """A protocol that aborts gets none of the packets that arrived with this one."""
    raw, server = stage.raw_pair()
    server.then = server.socket.abortConnection

    for packet in (b"1", b"2", b"3"):
        raw.send(packet, 0)
    stage.world.until(lambda: server.lost)

    assert server.got == [b"1"]


def test_calls_after_the_end_do_nothing(stage: Stage) -> None:
    """A protocol may still call its transport when the connection is gone."""
    stage.listen()
    client = stage.client()
    client.socket.abortConnection()
    stage.world.until(lambda: client.lost)

    client.sendPacket(b"x")
    client.socket.pauseProducing()
    client.socket.resumeProducing()
    client.socket.loseWriteConnection()
    client.socket.loseConnection()
    client.socket.abortConnection()
    stage.world.settle()

    assert client.socket.fileno() == -1


def test_interfaces(stage: Stage) -> None:
    """The transport provides what it claims."""
    stage.listen()
    client = stage.client()

    assert verifyObject(ITransport, client.socket)
    assert verifyObject(IPushProducer, client.socket)
    assert verifyObject(IHalfCloseableDescriptor, client.socket)
    assert client.socket.logPrefix() == "Recorder"


class Narrow(socket.socket):
    """A listener where the system gives connections small buffers."""

    def accept(self) -> tuple[socket.socket, str]:
        accepted, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        other.close()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return accepted, ""


def test_a_send_buffer_is_made_larger_only_where_it_is_small() -> None:
    """Two of the largest packets fit; what the system gives beyond that stays."""
    default = int(Path("/proc/sys/net/core/wmem_default").read_text())
    with System().makeSocket() as made:
        held = made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    with Narrow() as listener, System().accept(listener) as narrow:
        widened = narrow.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    assert min(held, widened) >= 2 * PACKET_BYTES_MAX
    if default >= 2 * PACKET_BYTES_MAX:
        assert held == default
