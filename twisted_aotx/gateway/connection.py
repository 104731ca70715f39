"""
HTTP/1.1 connections: what differs from Twisted's channel, and why.

Rules:

1. A request is served when its header is complete, not its body (`txrequest`).
2. An answer before the end of the body says `Connection: close`; the rest of the body
   is then thrown away for `LINGER_SECONDS` at most, so that the answer is not lost to a
   reset.
3. Parser faults are answered with our JSON and end the connection. Nothing here answers
   HTML or a traceback, and nothing is logged about a request [D15].
4. A write that the client does not take in `write_seconds` aborts the socket.

The header deadline, the cap on connections, and the guards that Twisted's parser lacks
(Host, obs-fold, chunked HTTP/1.0) are not here yet.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, cast

from twisted.internet.interfaces import (
    IConsumer,
    IDelayedCall,
    IHalfCloseableProtocol,
    ITCPTransport,
)
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web import http
from zope.interface import implementer

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.answers import fault_packet
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal

if TYPE_CHECKING:
    from twisted_aotx.gateway.site import GatewaySite
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Bytes of the request line, and of one header field (`http.md` §1).
LINE_BYTES_MAX: Final = 8190
#: Header fields of one request.
FIELDS_MAX: Final = 64
#: Bytes that the kernel keeps for a client that reads slowly. Without a bound it takes
#: megabytes before back-pressure is felt.
SEND_BUFFER_BYTES: Final = 128 << 10
#: Seconds that the rest of a body may take after an early answer.
LINGER_SECONDS: Final = 2.0


@implementer(IHalfCloseableProtocol)
class Connection(http.HTTPChannel):
    """
    One connection of a client.
    """

    MAX_LENGTH = LINE_BYTES_MAX
    maxHeaders = FIELDS_MAX
    #: The fields are counted and measured one by one.
    totalHeadersSize = LINE_BYTES_MAX * (FIELDS_MAX + 1)
    site: GatewaySite

    #: Whether an answer was given before its request was read to the end.
    input_left = False

    _body_idle: float | None = None
    _dropping = False
    _lingering: IDelayedCall | None = None
    _write_deadline: IDelayedCall | None = None

    # --- parsing ---

    def dataReceived(self, data: bytes) -> None:
        """
        Bytes arrived. After a last answer they are thrown away.
        """
        if not self._dropping:
            super().dataReceived(data)

    def rawDataReceived(self, data: bytes) -> None:
        """
        Bytes of a body arrived, or of requests that have to wait.
        """
        if not self._dropping:
            super().rawDataReceived(data)

    def lineLengthExceeded(self, line: bytes) -> None:
        """
        A line of the header is too long.
        """
        if self._has_request_line():
            self._refuse(refusal(ProblemCode.HEADER_LIMIT))
        else:
            self._refuse(invalid_field("request_line", "The request line is too long."))

    def headerReceived(self, line: bytes) -> bool:
        """
        A header field is complete; False when it was refused.
        """
        if len(line) > LINE_BYTES_MAX or self._receivedHeaderCount >= FIELDS_MAX:
            self._refuse(refusal(ProblemCode.HEADER_LIMIT))
            return False
        return bool(super().headerReceived(line))

    def lineReceived(self, line: bytes) -> None:
        """
        A line of a header arrived.
        """
        if not self._dropping:
            super().lineReceived(line)

    def allHeadersReceived(self) -> None:
        """
        The header is complete. A request with a body is served from here, one without
        from `allContentReceived`.
        """
        txrequest: GatewayRequest = self.requests[-1]
        self.persistent = self.checkPersistence(txrequest, self._version)
        if self.length != 0:
            # The body has a deadline of its own, from the moment that it is read.
            self._body_idle = self.setTimeout(None)
            txrequest.head_received(
                self._command, self._path, self._version, self.length
            )

    def allContentReceived(self) -> None:
        """
        The body, which may be none, is complete.
        """
        if self._dropping:
            return
        txrequest: GatewayRequest = self.requests[-1]
        has_body = txrequest.body_length != 0
        command, path, version = self._command, self._path, self._version
        if has_body:
            self.setTimeout(self._body_idle)
        super().allContentReceived()
        if not has_body:
            txrequest.head_received(command, path, version, 0)

    def checkPersistence(self, request: http.Request, version: bytes) -> bool:
        """
        Whether the connection may be kept: one `close` in Connection ends it.
        """
        lines = request.requestHeaders.getRawHeaders(b"Connection", [])
        tokens = b",".join(lines).lower().split(b",")
        if version == b"HTTP/1.1" and b"close" not in [t.strip() for t in tokens]:
            return True
        request.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        return False

    def _has_request_line(self) -> bool:
        return getattr(self, "_command", None) is not None

    def _respondToBadRequestAndDisconnect(self) -> None:
        """
        Twisted's answer to every parser fault: ours says what and why in JSON.
        """
        if self.requests and self.requests[-1].body_length != 0:
            # Chunks that are none: the handler that reads the body gets to know.
            self._dropping = True
            self.requests[-1].fail_body(invalid_field("body", "The body is no chunks."))
        elif self._has_request_line():
            self._refuse(invalid_field("headers", "The header is malformed."))
        else:
            self._refuse(
                invalid_field("request_line", "The request line is malformed.")
            )

    def _refuse(self, problem: Problem) -> None:
        """
        Answer a fault that no request stands for, and end the connection.
        """
        if not self._dropping:
            self.wire.write(fault_packet(problem))
            self.input_left = True
            self.loseConnection()

    # --- flow ---

    def pause_input(self) -> None:
        """
        Take no more bytes from the client for now.
        """
        self._networkProducer.pauseProducing()

    def resume_input(self) -> None:
        """
        Take bytes from the client again.
        """
        self._networkProducer.resumeProducing()

    def pauseProducing(self) -> None:
        """
        The client does not take what is written (called by the transport).
        """
        super().pauseProducing()
        if self._write_deadline is None:
            self._write_deadline = self.callLater(self._write_seconds, self.abort)

    def resumeProducing(self) -> None:
        """
        The client takes bytes again (called by the transport).
        """
        _stop(self._write_deadline)
        self._write_deadline = None
        super().resumeProducing()

    @property
    def _write_seconds(self) -> int:
        return self.site.gateway.settings.limits.write_seconds

    # --- begin and end ---

    def connectionMade(self) -> None:
        """
        A client connected.
        """
        super().connectionMade()
        self.site.connections.add(self)
        if not self.isSecure() and ITCPTransport.providedBy(self.transport):
            handle = cast(socket.socket, self.wire.getHandle())  # type: ignore[attr-defined]
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    @property
    def wire(self) -> ITCPTransport:
        """
        The transport, once there is one.
        """
        return cast(ITCPTransport, self.transport)

    @property
    def idle(self) -> bool:
        """
        Whether no request is being received or served.
        """
        return not self.requests

    def loseConnection(self) -> None:
        """
        End the connection when everything written is out.
        """
        self._dropping = True
        self.setTimeout(None)
        if self._lingering is not None:
            return
        self._lingering = self.callLater(
            LINGER_SECONDS if self.input_left else self._write_seconds, self.abort
        )
        cast(IConsumer, self._networkProducer).unregisterProducer()
        if self.input_left and not self.isSecure():
            self.wire.loseWriteConnection()
            self._networkProducer.resumeProducing()
        else:
            self.wire.loseConnection()

    def timeoutConnection(self) -> None:
        """
        The connection was idle for too long.
        """
        self.loseConnection()

    def abort(self) -> None:
        """
        End the connection now, whatever waits to be written.
        """
        self.wire.abortConnection()

    def readConnectionLost(self) -> None:
        """
        The client sends no more: its body is cut short, or it is gone.
        """
        txrequest: GatewayRequest | None = self.requests[-1] if self.requests else None
        if txrequest is None or self._dropping:
            self.wire.loseConnection()
        elif txrequest.body_complete or txrequest.body_length == 0:
            self.abort()
        else:
            self._dropping = True
            txrequest.fail_body(refusal(ProblemCode.BODY_LENGTH))

    def writeConnectionLost(self) -> None:
        """
        Our side is closed; the client's follows, or `LINGER_SECONDS` do.
        """

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """
        The connection is gone.
        """
        self.site.connections.discard(self)
        _stop(self._write_deadline)
        _stop(self._lingering)
        super().connectionLost(reason)


def _stop(call: IDelayedCall | None) -> None:
    if call is not None and call.active():
        call.cancel()
