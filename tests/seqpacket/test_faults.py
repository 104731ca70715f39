"""
What real sockets do rarely: only the fake system can be asked for it.
"""

from __future__ import annotations

import errno

import pytest
from twisted.internet import error

from tests.seqpacket.stage import Recorder, Stage
from twisted_aotx.testing import MemoryWorld


@pytest.fixture
def stage(memory: MemoryWorld) -> Stage:
    stage = Stage(memory)
    stage.listen()
    return stage


@pytest.fixture
def client(stage: Stage) -> Recorder:
    return stage.client()


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM])
def test_passing_send_error_is_retried(
    memory: MemoryWorld, stage: Stage, client: Recorder, number: int
) -> None:
    """A send that cannot be done now is done later, in order."""
    memory.system.faults.extend([number, number])

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
    memory.system.faults.extend([errno.EAGAIN, fault] if queued else [fault])

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


def test_failed_send_while_closing(
    memory: MemoryWorld, stage: Stage, client: Recorder
) -> None:
    """loseConnection with a packet queued that then fails still closes."""
    memory.system.faults.extend([errno.EAGAIN, errno.EIO])

    client.sendPacket(b"queued")
    client.socket.loseConnection()
    memory.settle()

    assert client.lost is not None
    assert client.lost.check(error.ConnectionLost)
    assert stage.servers.made[0].got == []


def test_aborted_accept_is_skipped(memory: MemoryWorld, stage: Stage) -> None:
    """A connection that went away before accept does not hold up the next one."""
    memory.system.accept_faults.append(errno.ECONNABORTED)

    stage.raw_client()

    assert len(stage.servers.made) == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_port_rests_without_descriptors(
    memory: MemoryWorld, stage: Stage, number: int
) -> None:
    """
    A process out of descriptors neither spins nor stops: it accepts a second later.
    """
    memory.system.accept_faults.append(number)

    stage.raw_client()  # settles: would not return if it spun
    while_resting = len(stage.servers.made)
    memory.reactor.advance(1.0)

    assert while_resting == 0
    assert len(stage.servers.made) == 1


def test_port_stops_while_it_rests(memory: MemoryWorld) -> None:
    """A port may be stopped while it rests, and leaves no timer."""
    stage = Stage(memory)
    port = stage.listen()
    memory.system.accept_faults.append(errno.EMFILE)
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
