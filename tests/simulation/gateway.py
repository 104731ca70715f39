"""
A gateway process: what `wiring_gateway.GatewayPart` puts together, from the same parts,
over Twisted's own TCP transports on sockets in memory.
"""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.tcp import Server

from tests.simulation.runtime import SOCKET_PATH
from tests.simulation.streams import StreamSocket
from tests.simulation.world import World
from twisted_aotx.gateway.closing import close_down
from twisted_aotx.gateway.measured import MeasuredClient
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.settings import GatewaySettings
from twisted_aotx.gateway.site import make_site
from twisted_aotx.wire.watch import watch_path

_WALL_SECONDS = 1_780_000_000.0


class SimulatedGateway:
    """
    One gateway, from start to kill or stop.
    """

    def __init__(self, world: World, port: int, settings: GatewaySettings) -> None:
        self.world = world
        self.port = port
        self.process = world.process(f"gateway {port}")
        self.is_over = False
        metrics = Metrics()
        client = MeasuredClient(
            metrics,
            cast(Any, self.process),
            SOCKET_PATH,
            connections_max=settings.limits.wire_connections,
            waiters_max=settings.limits.connections,
            watch_path=watch_path(SOCKET_PATH),
            system=self.process.system,
        )
        self.gateway = Gateway(
            settings,
            client,
            cast(Any, self.process),
            wall_seconds=lambda: _WALL_SECONDS + world.now,
            random_bytes=world.random.randbytes,
            metrics=metrics,
        )
        self.site = make_site(self.gateway)
        self._sessions = 0
        world.streams.listen(port, self._arrived)

    def _arrived(self, stream: StreamSocket) -> None:
        """The kernel has a connection for us."""
        self.process.system.adopt(stream)
        self.process.callFromThread(self._accept, stream)

    def _accept(self, stream: StreamSocket) -> None:
        """As `twisted.internet.tcp.Port.doRead` does."""
        address = "127.0.0.1", 40000
        protocol = cast(Any, self.site).buildProtocol(IPv4Address("TCP", *address))
        if protocol is None:
            stream.close()
            return
        self._sessions += 1
        transport = Server(
            cast(Any, stream),
            protocol,
            address,
            cast(Any, None),
            self._sessions,
            self.process,
        )
        protocol.makeConnection(transport)

    def held(self) -> dict[str, int]:
        """What is in use of every budget, the connections included."""
        return {
            "connections": len(self.site.connections),
            "wire": self.gateway.client.connections_in_use,
            **self.gateway.budgets.held(),
        }

    def kill(self) -> None:
        """SIGKILL."""
        self.is_over = True
        self.world.streams.close(self.port)
        self.process.kill()

    def stop(self) -> Deferred[None]:
        """SIGTERM; fires when all is closed."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self.world.record("gateway_stopping", port=self.port)
        await close_down(self.site)
        self.world.streams.close(self.port)
        self.is_over = True
