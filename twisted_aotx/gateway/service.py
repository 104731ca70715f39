"""
The gateway as a service: listens, says when it is ready, ends in order.

Stopping (`http.md` §10): no new connection; the device's client closes, so that what is
under way ends with 503 `service_closed`; idle connections close at once, the others
when their answer is out; what is left after half of `write_seconds` is aborted, so that
the process is gone within `write_seconds`.
"""

# What Twisted leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, ClassVar, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.task import deferLater
from twisted.logger import Logger

from twisted_aotx.errors import ConfigError
from twisted_aotx.gateway.site import make_site

if TYPE_CHECKING:
    from twisted.internet.interfaces import IListeningPort

    from twisted_aotx.gateway.resource import Gateway

#: Connections that may wait to be accepted.
BACKLOG: Final = 1024
#: Bytes that the kernel keeps per connection for a client that reads slowly. Without a
#: bound it takes megabytes before back-pressure is felt (docs/dependencies.md).
SEND_BUFFER_BYTES: Final = 128 << 10
#: The part of `write_seconds` in which answers under way may end.
GRACE: Final = 0.5
#: Seconds between two looks at what is left.
LOOK_SECONDS: Final = 0.02


class GatewayService(Service):
    """
    Serves one gateway over HTTP. It owns the gateway's client and closes it.

    Start it by `start` and stop it by `stop`, or as any Twisted service.
    """

    name = "gateway"
    _log: ClassVar[Logger] = Logger(namespace="aotx.gateway")

    def __init__(self, gateway: Gateway, reactor: Any) -> None:
        self._gateway = gateway
        self._reactor = reactor
        self.site = make_site(gateway)
        self._port: IListeningPort | None = None

    @property
    def port(self) -> int:
        """
        The TCP port that is listened on.
        """
        assert self._port is not None, "not started"
        return int(self._port.getHost().port)  # type: ignore[attr-defined]

    async def start(self) -> None:
        """
        Listen.

        Raises:
            CannotListenError: the address cannot be had.
            ConfigError: the settings ask for TLS, which is not served.
        """
        settings = self._gateway.settings
        if settings.certificate is not None:
            # Better no service than one that speaks in clear where TLS was asked for.
            raise ConfigError("certificate", "TLS is not served by this version")
        endpoint = TCP6ServerEndpoint if ":" in settings.host else TCP4ServerEndpoint
        self._port = await endpoint(
            self._reactor, settings.port, BACKLOG, settings.host
        ).listen(self.site)
        listening = getattr(self._port, "socket", None)
        if listening is not None:
            # Connections inherit it.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._log.info(
            "ready on http://{host}:{port}",
            host=f"[{settings.host}]" if ":" in settings.host else settings.host,
            port=self.port,
        )

    async def stop(self) -> None:
        """
        End in order; returns when no connection is left. Also after a failed start.
        """
        port, self._port = self._port, None
        if port is not None:
            await maybeDeferred(port.stopListening)
        await self._gateway.client.close()
        await self._close_connections()

    async def _close_connections(self) -> None:
        connections = self.site.connections
        seconds = self._gateway.settings.limits.write_seconds * GRACE
        deadline = self._reactor.seconds() + seconds
        while connections and self._reactor.seconds() < deadline:
            for connection in [c for c in connections if c.idle]:
                connection.loseConnection()
            await deferLater(self._reactor, LOOK_SECONDS)
        for connection in list(connections):
            connection.abort()
        while connections:
            await deferLater(self._reactor, LOOK_SECONDS)

    def startService(self) -> None:
        """
        Called by Twisted: listen; a failure is logged.
        """
        super().startService()
        started = Deferred.fromCoroutine(self.start())
        started.addErrback(
            lambda failure: self._log.failure("the gateway cannot start", failure)
        )

    def stopService(self) -> Deferred[None]:
        """
        Called by Twisted, which waits for the result.
        """
        super().stopService()
        return Deferred.fromCoroutine(self.stop())
