"""
Endpoints and their strings, in memory and on real sockets.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from twisted.internet import error
from twisted.internet.defer import CancelledError
from twisted.internet.endpoints import clientFromString, serverFromString
from twisted.internet.interfaces import (
    IStreamClientEndpoint,
    IStreamClientEndpointStringParserWithReactor,
    IStreamServerEndpoint,
    IStreamServerEndpointStringParser,
)
from twisted.plugin import IPlugin
from zope.interface.verify import verifyObject

from tests.seqpacket.stage import Recorder, Recorders, Stage, result_of
from twisted_aotx.seqpacket import (
    PATH_BYTES_MAX,
    PeerNotAllowed,
    SeqPacketClientEndpoint,
    SeqPacketClientParser,
    SeqPacketServerEndpoint,
    SeqPacketServerParser,
)
from twisted_aotx.testing import KernelWorld, MemoryWorld


class Refusing(Recorders):
    """
    Wants no connection.
    """

    def buildProtocol(self, addr: object) -> None:  # type: ignore[override]
        return None


class Failing(Recorders):
    """
    Cannot build.
    """

    def buildProtocol(self, addr: object) -> Recorder:
        raise RuntimeError("not today")


def test_endpoints_meet(stage: Stage) -> None:
    """A server endpoint and a client endpoint of one path connect."""
    world = stage.world
    server = SeqPacketServerEndpoint(world.reactor, stage.path, system=world.system)

    port = result_of(world, server.listen(stage.servers))
    client = stage.client()
    client.sendPacket(b"hello")
    world.until(lambda: stage.servers.made[0].got)

    assert verifyObject(IStreamServerEndpoint, server)
    assert port.getHost().path == stage.path
    assert stage.servers.made[0].got == [b"hello"]


def test_listen_failure_is_a_failure(stage: Stage) -> None:
    """listen does not raise, its Deferred fails."""
    stage.listen()
    world = stage.world
    second = SeqPacketServerEndpoint(world.reactor, stage.path, system=world.system)

    outcome = second.listen(Recorders())

    with pytest.raises(error.CannotListenError):
        result_of(world, outcome)


def test_nobody_there(stage: Stage) -> None:
    """A path without a file, with a file that is none, and with a dead socket."""
    with pytest.raises(error.ConnectError):
        result_of(stage.world, stage.start_client())
    dead = stage.world.system.makeSocket()
    stage.world.system.bind(dead, stage.path, 0o600)
    dead.close()
    with pytest.raises(error.ConnectionRefusedError):
        result_of(stage.world, stage.start_client())


@pytest.mark.parametrize("extra", [1, 300])
def test_path_too_long(stage: Stage, extra: int) -> None:
    """A path that no socket can have fails by name."""
    stage.path = b"/" + b"x" * (PATH_BYTES_MAX + extra - 1)

    with pytest.raises(error.ConnectError, match=f"{PATH_BYTES_MAX + extra} bytes"):
        result_of(stage.world, stage.start_client())


def test_full_backlog_is_waited_for(stage: Stage) -> None:
    """Clients that find the backlog full connect once the server accepts."""
    world = stage.world
    listener = world.system.makeSocket()
    world.system.bind(listener, stage.path, 0o600)
    listener.listen(2)

    attempts = [stage.start_client(timeout=5.0) for _ in range(6)]
    waiting = sum(not attempt.called for attempt in attempts)
    accepted = [world.system.accept(listener) for _ in range(3)]
    world.until(lambda: all(attempt.called for attempt in attempts))

    assert waiting == 3
    for attempt in attempts:
        result_of(world, attempt).socket.abortConnection()
    for one in accepted:
        one.close()
    listener.close()


def test_full_backlog_times_out(stage: Stage) -> None:
    """A server that accepts nobody is given up after *timeout* seconds."""
    world = stage.world
    listener = world.system.makeSocket()
    world.system.bind(listener, stage.path, 0o600)
    listener.listen(0)
    first = result_of(world, stage.start_client())
    begun = world.reactor.seconds()

    with pytest.raises(error.TimeoutError):
        result_of(world, stage.start_client(timeout=0.05))

    assert world.reactor.seconds() - begun >= 0.05
    first.socket.abortConnection()
    listener.close()


def test_cancelled_attempt(stage: Stage) -> None:
    """A cancelled connect leaves no timer and no socket behind."""
    world = stage.world
    listener = world.system.makeSocket()
    world.system.bind(listener, stage.path, 0o600)
    listener.listen(0)
    first = result_of(world, stage.start_client())

    attempt = stage.start_client(timeout=5.0)
    attempt.cancel()

    with pytest.raises(CancelledError):
        result_of(world, attempt)
    world.system.accept(listener)
    world.settle()
    with pytest.raises(BlockingIOError):
        world.system.accept(listener)
    first.socket.abortConnection()
    listener.close()


def test_cancelled_attempt_leaves_no_timer(memory: MemoryWorld) -> None:
    """Nothing is tried again for somebody who has given up."""
    stage = Stage(memory)
    listener = memory.system.makeSocket()
    memory.system.bind(listener, stage.path, 0o600)
    listener.listen(0)
    result_of(memory, stage.start_client())

    attempt = stage.start_client()
    attempt.addErrback(lambda _: None)
    attempt.cancel()

    assert memory.reactor.getDelayedCalls() == []


@pytest.mark.parametrize(
    ("factory", "reason"), [(Refusing, error.NoProtocol), (Failing, RuntimeError)]
)
def test_factory_that_builds_nothing(
    stage: Stage, factory: type[Recorders], reason: type[Exception]
) -> None:
    """connect fails, and the server sees the connection close."""
    stage.listen()
    world = stage.world
    endpoint = SeqPacketClientEndpoint(world.reactor, stage.path, system=world.system)

    with pytest.raises(reason):
        result_of(world, endpoint.connect(factory()))

    world.until(lambda: stage.servers.made and stage.servers.made[0].lost)


def test_server_of_another_user(stage: Stage) -> None:
    """With serverUid, a path that belongs to somebody else is not connected to."""
    stage.listen()
    uid = stage.world.system.euid()

    assert result_of(stage.world, stage.start_client(serverUid=uid))
    with pytest.raises(PeerNotAllowed):
        result_of(stage.world, stage.start_client(serverUid=uid + 1))


def test_user_is_checked_behind_the_path_too(memory: MemoryWorld) -> None:
    """Our file, but a process of another user listens behind it."""
    stage = Stage(memory)
    memory.system.uid = 7
    stage.listen()
    memory.system.chown(stage.path, 1000)

    with pytest.raises(PeerNotAllowed, match="server does not run as"):
        result_of(memory, stage.start_client(serverUid=1000))
    assert memory.system.open_sockets() == 1  # the port's


def test_symbolic_link_is_no_socket_of_ours(tmp_path: Path) -> None:
    """With serverUid a link is not followed; without, it is."""
    world = KernelWorld(tmp_path)
    stage = Stage(world)
    stage.listen()
    (tmp_path / "link").symlink_to(tmp_path / "sock")
    stage.path = world.path("link")

    assert result_of(world, stage.start_client())
    with pytest.raises(PeerNotAllowed):
        result_of(world, stage.start_client(serverUid=world.system.euid()))
    world.close()


def test_stream_server_is_refused(tmp_path: Path) -> None:
    """A SOCK_STREAM server at the path is an error, and its socket is not replaced."""
    world = KernelWorld(tmp_path)
    stage = Stage(world)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.bind(stage.path)
    stream.listen(1)

    with pytest.raises(error.ConnectError):
        result_of(world, stage.start_client())
    with pytest.raises(error.CannotListenError):
        stage.listen()
    stream.close()
    world.close()


def test_parsers() -> None:
    """The parsers are what Twisted looks for among its plugins."""
    server, client = SeqPacketServerParser(), SeqPacketClientParser()

    assert verifyObject(IPlugin, server)
    assert verifyObject(IPlugin, client)
    assert verifyObject(IStreamServerEndpointStringParser, server)
    assert verifyObject(IStreamClientEndpointStringParserWithReactor, client)
    assert server.prefix == client.prefix == "seqpacket"


def test_parsed_endpoints_meet(tmp_path: Path) -> None:
    """The arguments of the strings reach the port."""
    world = KernelWorld(tmp_path)
    stage = Stage(world)
    path = str(tmp_path / "sock")

    server = SeqPacketServerParser().parseStreamServer(
        world.reactor, path, mode="660", backlog="7", lock="no"
    )
    client = SeqPacketClientParser().parseStreamClient(
        world.reactor, path, timeout="0.5"
    )
    port = result_of(world, server.listen(stage.servers))
    connected = result_of(world, client.connect(Recorders()))
    connected.sendPacket(b"hello")
    world.until(lambda: stage.servers.made and stage.servers.made[0].got)

    assert (tmp_path / "sock").stat().st_mode & 0o777 == 0o660
    assert not (tmp_path / "sock.lock").exists()
    assert port.logPrefix() == "Recorders"
    world.close()


def test_strings_through_twisted(tmp_path: Path) -> None:
    """`seqpacket:/path` works wherever Twisted takes an endpoint."""
    world = KernelWorld(tmp_path)
    stage = Stage(world)

    server = serverFromString(world.reactor, f"seqpacket:{tmp_path}/sock")
    client = clientFromString(world.reactor, f"seqpacket:{tmp_path}/sock:timeout=2")
    assert verifyObject(IStreamClientEndpoint, client)
    result_of(world, server.listen(stage.servers))
    result_of(world, client.connect(Recorders())).sendPacket(b"hello")
    world.until(lambda: stage.servers.made and stage.servers.made[0].got)

    assert (tmp_path / "sock.lock").exists()
    world.close()


@pytest.mark.parametrize(
    "options",
    [{"lock": "maybe"}, {"mode": "rw"}, {"backlog": "many"}, {"colour": "red"}],
)
def test_bad_strings(options: dict[str, str]) -> None:
    """An argument that makes no sense is refused when it is parsed."""
    with pytest.raises((ValueError, TypeError)):
        SeqPacketServerParser().parseStreamServer(None, "/run/x", **options)
