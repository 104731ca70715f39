"""
The runtime's own `GET /metrics`, where `metrics` of runtime.json says (D10).

Rules:

1. Who reaches the endpoint may read it: `config` takes none that others can reach.
2. One request per connection, `SECONDS_MAX` for all of it; a body is refused.
3. At most `CONNECTIONS_MAX` at once; one more is closed without a byte.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any, Final, cast

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from twisted.internet.interfaces import IAddress, IDelayedCall, ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web import http, resource, server

#: Connections at once.
CONNECTIONS_MAX: Final = 16
#: Seconds of a connection's life.
SECONDS_MAX: Final = 10.0

_METHODS: Final = (b"GET", b"HEAD")


class ScrapeSite(server.Site):
    """
    The factory of the endpoint's connections.
    """

    noisy = False

    def __init__(self, reactor: Any, collector: Collector) -> None:
        super().__init__(
            _Answers(collector),
            requestFactory=_Request,
            parsePOSTFormSubmission=False,
            # The connections keep the time.
            timeout=None,
            reactor=reactor,
        )
        # Twisted's own is a proxy that may turn to HTTP/2.
        self.protocol = _Connection  # type: ignore[assignment, method-assign]
        self.clock = reactor
        self.connections: set[_Connection] = set()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection; None, which closes it, when there are enough."""
        if len(self.connections) >= CONNECTIONS_MAX:
            return None
        return super().buildProtocol(addr)

    def startFactory(self) -> None:
        """Twisted would open its access log here."""

    def stopFactory(self) -> None:
        """Twisted would close its access log here."""

    def log(self, request: http.Request) -> None:
        """Scrapes are in no log."""

    def close(self) -> None:
        """Drop every connection."""
        for connection in list(self.connections):
            connection.abort()


class _Connection(http.HTTPChannel):
    site: ScrapeSite
    _deadline: IDelayedCall

    def connectionMade(self) -> None:
        """A client connected."""
        super().connectionMade()
        self.site.connections.add(self)
        self._deadline = self.site.clock.callLater(SECONDS_MAX, self.abort)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The client is gone."""
        self.site.connections.discard(self)
        if self._deadline.active():
            self._deadline.cancel()
        super().connectionLost(reason)

    def checkPersistence(self, request: http.Request, version: bytes) -> bool:
        """No second request (rule 2)."""
        request.setHeader(b"Connection", b"close")
        return False

    def refuse_body(self) -> None:
        """Answer at once, and read no more."""
        assert self.transport is not None
        self.transport.write(
            b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n"
            b"Connection: close\r\n\r\n"
        )
        self.loseConnection()

    def abort(self) -> None:
        """Drop it, whatever it was about."""
        cast(ITCPTransport, self.transport).abortConnection()


class _Request(server.Request):
    channel: _Connection
    _is_refused = False

    def gotLength(self, length: int | None) -> None:
        """The header is complete; *length* is None for a chunked body."""
        super().gotLength(0)
        if length != 0:
            self._is_refused = True
            self.channel.refuse_body()

    def process(self) -> None:
        """All of it is here, also what came with a header that was refused."""
        if not self._is_refused:
            super().process()


class _Answers(resource.Resource):
    isLeaf = True

    def __init__(self, collector: Collector) -> None:
        super().__init__()
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def render(self, request: http.Request) -> bytes:
        """Answer anything."""
        request.setHeader(b"Content-Type", CONTENT_TYPE_PLAIN_0_0_4.encode())
        request.responseHeaders.removeHeader(b"Server")
        if request.path != b"/metrics":
            request.setResponseCode(http.NOT_FOUND)
            return b"only /metrics is served here\n"
        if request.method not in _METHODS:
            request.setResponseCode(http.NOT_ALLOWED)
            request.setHeader(b"Allow", b"GET, HEAD")
            return b"only GET and HEAD are served here\n"
        return generate_latest(self._registry)
