"""
What real sockets do rarely: only the fake system can be asked for it.
"""

from __future__ import annotations

import errno

import pytest
from twisted.internet import error
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from zope.interface import implementer

from tests.seqpacket.stage import Recorder, Recorders, Stage
from twisted_aotx.testing import MemoryWorld


@implementer(IHalfCloseableProtocol)
class Waiter(Recorder):
    """
    Stays connected when its peer has said everything.
    """

    def readConnectionLost(self) -> None:
        self.got.append(b"(read closed)")

    def writeConnectionLost(self) -> None:
        pass


@pytest.fixture
def stage(memory: MemoryWorld) -> Stage:
    stage = Stage(memory)
    stage.listen()
    return stage


@pytest.fixture
def client(stage: Stage) -> Recorder:
    return stage.client()


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM])
@pytest.mark.parametrize("failures", [1, 2])
def test_passing_send_error_is_retried(
    memory: MemoryWorld, stage: Stage, client: Recorder, number: int, failures: int
) -> None:
    """A send that cannot be done now is done later, in order."""
    memory.system.faults.sends.extend([number] * failures)

    client.sendPacket(b"1")
    client.sendPacket(b"2")
    memory.settle()

    assert stage.servers.made[0].got == [b"1", b"2"]
    assert client.lost is None


@pytest.mark.parametrize("fault", [errno.EPIPE, errno.EIO, errno.EMSGSIZE, -1])
@pytest.mark.parametrize("queued", [False, True])
def test_failed_or_short_send_closes(
    memory: MemoryWorld, stage: Stage, client: Recorder, fault: int, *, queued: bool
) -> None:
    """
    A send that fails, or takes less than the packet, ends the connection, also though
    the peer lives; not from inside write, and what the peer sent is delivered first.
    """
    stage.servers.made[0].sendPacket(b"before")
    memory.system.faults.sends.extend([errno.EAGAIN, fault] if queued else [fault])

    client.sendPacket(b"whole")
    lost_inside_write = client.lost
    client.sendPacket(b"not sent any more")
    memory.settle()

    assert lost_inside_write is None
    assert client.got == [b"before"]
    assert client.lost is not None
    assert type(client.lost.value) is error.ConnectionLost
    assert b"not sent any more" not in stage.servers.made[0].got
    assert b"whole" not in stage.servers.made[0].got


@pytest.mark.parametrize("before", [[], [b"before"]])
def test_failed_send_while_paused(
    memory: MemoryWorld, stage: Stage, client: Recorder, before: list[bytes]
) -> None:
    """A paused protocol is told once it reads on, after what its peer had sent."""
    client.socket.pauseProducing()
    stage.servers.made[0].socket.writeSequence(before)
    memory.system.faults.sends.append(errno.EIO)

    client.sendPacket(b"never sent")
    memory.settle()
    lost_while_paused = client.lost
    client.socket.resumeProducing()
    memory.settle()

    assert lost_while_paused is None
    assert client.got == before
    assert client.lost is not None
    assert type(client.lost.value) is error.ConnectionLost


def test_failed_send_while_closing(
    memory: MemoryWorld, stage: Stage, client: Recorder
) -> None:
    """loseConnection with a packet queued that then fails still closes."""
    memory.system.faults.sends.extend([errno.EAGAIN, errno.EIO])

    client.sendPacket(b"queued")
    client.socket.loseConnection()
    memory.settle()

    assert client.lost is not None
    assert client.lost.check(error.ConnectionLost)
    assert stage.servers.made[0].got == []


def test_aborted_accept_is_skipped(memory: MemoryWorld, stage: Stage) -> None:
    """A connection that went away before accept does not hold up the next one."""
    memory.system.faults.accepts.append(errno.ECONNABORTED)

    stage.raw_client()

    assert len(stage.servers.made) == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_port_rests_without_descriptors(
    memory: MemoryWorld, stage: Stage, number: int
) -> None:
    """
    A process out of descriptors neither spins nor stops: it accepts a second later.
    """
    memory.system.faults.accepts.append(number)

    stage.raw_client()  # settles: would not return if it spun
    while_resting = len(stage.servers.made)
    memory.reactor.advance(1.0)

    assert while_resting == 0
    assert len(stage.servers.made) == 1


def test_port_stops_while_it_rests(memory: MemoryWorld) -> None:
    """A port may be stopped while it rests, and leaves no timer."""
    stage = Stage(memory)
    port = stage.listen()
    memory.system.faults.accepts.append(errno.EMFILE)
    stage.raw_client()

    port.stopListening()
    memory.settle()

    assert memory.reactor.getDelayedCalls() == []
    assert not memory.system.exists(stage.path)


def test_stale_socket_of_another_user_is_not_removed(memory: MemoryWorld) -> None:
    """A dead socket that is not ours refuses the start."""
    stage = Stage(memory)
    dead = memory.system.makeSocket()
    memory.system.bind(dead, stage.path, 0o600)
    dead.close()
    memory.system.chown(stage.path, 7)

    with pytest.raises(error.CannotListenError, match="not a socket of this user"):
        stage.listen()

    assert memory.system.exists(stage.path)


def test_failed_receive_closes(
    memory: MemoryWorld, stage: Stage, client: Recorder
) -> None:
    """An error that is neither EAGAIN nor a reset ends the connection."""
    stage.servers.made[0].sendPacket(b"lost")
    memory.system.faults.receives.append(errno.EIO)

    memory.settle()

    assert client.got == []
    assert client.lost is not None
    assert type(client.lost.value) is error.ConnectionLost


def test_strange_accept_error_is_survived(memory: MemoryWorld, stage: Stage) -> None:
    """A port does not give up for an error that concerns one connection."""
    memory.system.faults.accepts.append(errno.EPERM)

    stage.raw_client()

    assert len(stage.servers.made) == 1


def test_broken_write_stops_the_producer(
    memory: MemoryWorld, stage: Stage, client: Recorder
) -> None:
    """A producer whose packets cannot be sent is told, even if nothing is read."""
    stopped: list[bool] = []

    @implementer(IPushProducer)
    class Source:
        def pauseProducing(self) -> None:
            pass

        def resumeProducing(self) -> None:
            pass

        def stopProducing(self) -> None:
            stopped.append(client.lost is None)

    client.socket.registerProducer(Source(), True)
    client.socket.pauseProducing()
    memory.system.faults.sends.extend([errno.EAGAIN, errno.EIO])

    client.sendPacket(b"never sent")
    memory.settle()

    assert stopped == [True]


def test_unread_half_of_a_broken_connection(memory: MemoryWorld, stage: Stage) -> None:
    """A send that fails after the peer's half close ends the connection."""
    stage.servers = Recorders(Waiter)
    stage.path = b"/run/half"
    stage.listen()
    client = stage.client(Recorder)
    client.socket.loseWriteConnection()
    memory.settle()
    server = stage.servers.made[0]
    memory.system.faults.sends.append(errno.EIO)

    server.sendPacket(b"never sent")
    memory.settle()

    assert server.lost is not None
    assert type(server.lost.value) is error.ConnectionLost


def test_half_close_of_a_lost_peer(memory: MemoryWorld, stage: Stage) -> None:
    """loseWriteConnection to a peer that is gone is told as a lost connection."""
    raw = stage.raw_client()
    server = stage.servers.made[0]
    raw.close()

    server.socket.loseWriteConnection()
    memory.settle()

    assert server.lost is not None


def test_nothing_is_left_of_a_failed_start(memory: MemoryWorld) -> None:
    """A socket that could be bound but not listened on is removed again."""
    stage = Stage(memory)
    memory.system.faults.listens.append(errno.EADDRINUSE)

    with pytest.raises(error.CannotListenError):
        stage.listen()

    assert not memory.system.exists(stage.path)
    assert memory.system.open_sockets() == 0
    stage.listen()


def test_socket_that_cannot_be_removed(memory: MemoryWorld) -> None:
    """A port stops although its socket has to stay."""
    stage = Stage(memory)
    port = stage.listen()
    memory.system.faults.unlinks.append(errno.EACCES)

    stopped = port.stopListening()
    memory.settle()

    assert stopped.called
    assert memory.system.exists(stage.path)
    assert memory.system.open_sockets() == 0
