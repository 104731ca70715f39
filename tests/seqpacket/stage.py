"""
A server and clients in a world, and protocols that remember.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IProtocol
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.seqpacket import (
    PacketProtocol,
    PacketSocket,
    SeqPacketClientEndpoint,
    SeqPacketConnection,
    SeqPacketPort,
)
from twisted_aotx.testing import World


class Recorder(PacketProtocol):
    """
    Keeps what it gets and how it ended; calls *then* after each packet.
    """

    def __init__(self) -> None:
        self.then: Callable[[], object] = lambda: None
        self.got: list[bytes] = []
        self.lost: Failure | None = None

    @property
    def socket(self) -> SeqPacketConnection:
        return cast(SeqPacketConnection, self.transport)

    def packetReceived(self, packet: bytes) -> None:
        self.got.append(packet)
        self.then()

    def connectionLost(self, reason: Failure | None = None) -> None:
        assert self.lost is None, "connectionLost was called twice"
        self.lost = reason


@implementer(IHalfCloseableProtocol)
class HalfCloser(Recorder):
    """
    Answers the peer's half close with one packet, then closes.
    """

    def readConnectionLost(self) -> None:
        self.sendPacket(b"after the end")
        self.socket.loseConnection()

    def writeConnectionLost(self) -> None:
        self.got.append(b"(write closed)")


class Recorders(Factory):
    """
    Makes recorders and keeps them with their addresses.
    """

    noisy = False

    def __init__(self, make: Callable[[], Recorder] = Recorder) -> None:
        self._make = make
        self.made: list[Recorder] = []
        self.addresses: list[IAddress | None] = []
        self.started = 0

    def doStart(self) -> None:
        self.started += 1

    def doStop(self) -> None:
        self.started -= 1

    def buildProtocol(self, addr: IAddress | None) -> Recorder:
        self.addresses.append(addr)
        self.made.append(self._make())
        return self.made[-1]


class Stage:
    """
    One path, the servers and the clients at it.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.path = world.path("sock")
        self.servers = Recorders()

    def port(self, **options: Any) -> SeqPacketPort:
        """A port at the path that does not listen yet."""
        return SeqPacketPort(
            self.world.reactor,
            self.path,
            options.pop("factory", self.servers),
            system=self.world.system,
            **options,
        )

    def listen(self, **options: Any) -> SeqPacketPort:
        port = self.port(**options)
        port.startListening()
        return port

    def start_client(
        self, make: Callable[[], Recorder] = Recorder, **options: Any
    ) -> Deferred[IProtocol]:
        endpoint = SeqPacketClientEndpoint(
            self.world.reactor, self.path, system=self.world.system, **options
        )
        return endpoint.connect(Recorders(make))

    def client(
        self, make: Callable[[], Recorder] = Recorder, **options: Any
    ) -> Recorder:
        """A connected client whose server side is up too."""
        known = len(self.servers.made)
        outcome = result_of(self.world, self.start_client(make, **options))
        assert isinstance(outcome, Recorder)
        self.world.until(lambda: len(self.servers.made) > known)
        return outcome

    def raw_client(self) -> PacketSocket:
        """A socket without a transport, for what no transport would do."""
        raw = self.world.system.makeSocket()
        assert raw.connect_ex(self.path) == 0
        self.world.settle()
        return raw

    def raw_pair(self) -> tuple[PacketSocket, Recorder]:
        """Such a socket, and the server that listens for it from now on."""
        self.listen()
        raw = self.raw_client()
        self.world.until(lambda: self.servers.made)
        return raw, self.servers.made[0]


def result_of(world: World, deferred: Deferred[Any]) -> Any:
    """
    What *deferred* fires with; raises what it fails with.
    """
    outcome: list[Any] = []
    deferred.addBoth(outcome.append)
    world.until(lambda: outcome)
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    return outcome[0]
