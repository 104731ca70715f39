"""
Ports, in memory and on real sockets.
"""

from __future__ import annotations

import os
import stat
from typing import cast

import pytest
from twisted.internet import error
from twisted.internet.interfaces import IListeningPort
from zope.interface.verify import verifyObject

from tests.seqpacket.stage import Recorder, Recorders, Stage, result_of
from twisted_aotx.seqpacket import PATH_BYTES_MAX, SeqPacketAddress, SeqPacketPort
from twisted_aotx.testing import World, read_packet


class Refusing(Recorders):
    """
    Wants no connection.
    """

    def buildProtocol(self, addr: object) -> None:  # type: ignore[override]
        return None


class Failing(Recorder):
    """
    Fails as soon as it is connected.
    """

    def connectionMade(self) -> None:
        raise RuntimeError("not today")


def _exists(world: World, path: bytes) -> bool:
    try:
        world.system.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _make_stale(stage: Stage) -> None:
    """Leave a socket that nobody listens on, as a killed process does."""
    dead = stage.world.system.makeSocket()
    stage.world.system.bind(dead, stage.path, 0o600)
    dead.listen(1)
    dead.close()


def test_life(stage: Stage) -> None:
    """The path exists while the port listens; the factory is told of both ends."""
    port = stage.listen()
    listening = stage.world.system.lstat(stage.path)
    started = stage.servers.started

    result_of(stage.world, port.stopListening())

    assert verifyObject(IListeningPort, port)
    assert stat.S_ISSOCK(listening.st_mode)
    assert listening.st_mode & 0o777 == 0o600
    assert port.getHost() == SeqPacketAddress(stage.path)
    assert started == 1
    assert stage.servers.started == 0
    assert not _exists(stage.world, stage.path)


def test_stop_twice(stage: Stage) -> None:
    """Stopping is idempotent, also for a port that never listened."""
    assert stage.port().stopListening().called
    port = stage.listen()

    first, second = port.stopListening(), port.stopListening()
    result_of(stage.world, first)
    result_of(stage.world, second)


def test_connections_survive_the_port(stage: Stage) -> None:
    """What was accepted stays connected when the port stops."""
    port = stage.listen()
    client = stage.client()
    result_of(stage.world, port.stopListening())

    client.sendPacket(b"still here")
    stage.world.until(lambda: stage.servers.made[0].got)

    assert stage.servers.made[0].got == [b"still here"]


def test_peer_is_told_to_the_factory(stage: Stage) -> None:
    """buildProtocol and the transport know who connects."""
    stage.listen()
    client = stage.client()
    address = cast(SeqPacketAddress, stage.servers.addresses[0])

    assert address.credentials is not None
    assert address.credentials.uid == stage.world.system.euid()
    assert stage.servers.made[0].socket.getPeer() is address
    assert client.socket.getPeer().path == stage.path
    assert client.socket.getPeer().credentials == address.credentials


def test_refused_connection_gets_no_byte(stage: Stage) -> None:
    """A factory that builds no protocol closes the connection."""
    stage.listen(factory=Refusing())

    raw = stage.raw_client()

    assert read_packet(raw) == b""


def test_failing_protocol_harms_no_other(stage: Stage) -> None:
    """A protocol that fails in connectionMade is closed; the port goes on."""
    kinds = [Failing, Recorder]
    stage.servers = Recorders(lambda: kinds.pop(0)())
    stage.listen()

    raw = stage.raw_client()
    stage.world.settle()
    client = stage.client()
    client.sendPacket(b"fine")
    stage.world.until(lambda: stage.servers.made[1].got)

    assert read_packet(raw) == b""


def test_stale_socket_is_replaced(stage: Stage) -> None:
    """A socket left by a dead process does not refuse the start."""
    _make_stale(stage)

    stage.listen()

    stage.client()


@pytest.mark.parametrize("lock", [True, False])
def test_second_port_is_refused(stage: Stage, *, lock: bool) -> None:
    """With or without the lock a live socket is never taken over."""
    stage.listen(lock=lock)

    with pytest.raises(error.CannotListenError):
        stage.port(lock=lock).startListening()

    stage.client()


def test_lock_is_free_after_the_end(stage: Stage) -> None:
    """A port that stopped, and one that failed to start, leave no lock behind."""
    result_of(stage.world, stage.listen().stopListening())
    stage.world.put_file(stage.path)
    with pytest.raises(error.CannotListenError, match="not a socket"):
        stage.port().startListening()
    stage.world.system.unlink(stage.path)

    stage.listen()


def test_file_at_the_path_is_not_touched(stage: Stage) -> None:
    """Anything but a socket refuses the start and stays."""
    stage.world.put_file(stage.path)

    with pytest.raises(error.CannotListenError, match="not a socket"):
        stage.port().startListening()

    assert stat.S_ISREG(stage.world.system.lstat(stage.path).st_mode)


def test_only_our_own_socket_is_unlinked(stage: Stage) -> None:
    """What somebody else put at the path meanwhile stays when the port stops."""
    port = stage.listen()
    stage.world.system.unlink(stage.path)
    stage.world.put_file(stage.path)

    result_of(stage.world, port.stopListening())

    assert _exists(stage.world, stage.path)


def test_missing_path_at_the_end(stage: Stage) -> None:
    """A port whose socket file vanished stops all the same."""
    port = stage.listen()
    stage.world.system.unlink(stage.path)

    result_of(stage.world, port.stopListening())


def test_path_length(stage: Stage) -> None:
    """107 bytes are a path, 108 are refused by name; nothing is left behind."""
    longest = stage.path + b"x" * (PATH_BYTES_MAX - len(stage.path))
    stage.path = longest
    stage.listen(lock=False)
    stage.client()

    stage.path = longest + b"x"
    with pytest.raises(error.CannotListenError, match="has 108 bytes"):
        stage.listen()

    with pytest.raises(FileNotFoundError):
        stage.world.system.lstat(stage.path + b".lock")


@pytest.mark.parametrize("path", [b"", b"\0abstract"])
def test_no_path(stage: Stage, path: bytes) -> None:
    """An empty path and one with a NUL (Linux: no file at all) are refused."""
    stage.path = path

    with pytest.raises(error.CannotListenError):
        stage.listen()


def test_accept_burst(stage: Stage) -> None:
    """At most `accept_burst` connections are accepted per readiness event."""
    port = stage.listen(accept_burst=4)
    port.stopReading()
    for _ in range(6):
        stage.raw_client()

    port.doRead()
    accepted_at_once = len(stage.servers.made)
    port.doRead()

    assert accepted_at_once == 4
    assert len(stage.servers.made) == 6


def test_description(stage: Stage) -> None:
    """A port names its factory in logs, and only reads."""
    port: SeqPacketPort = stage.listen()

    assert port.logPrefix() == "Recorders"
    with pytest.raises(RuntimeError):
        port.doWrite()
    assert os.fsdecode(stage.path)
