"""
Requests from bytes: what differs from Twisted's parser, and why.

Rules:

1. A request is served when its header is complete, not its body (`txrequest`).
2. Faults are answered with our JSON and end the connection: nothing here answers HTML
   or a traceback, and nothing is logged about a request [D15].

The header deadline and the guards that Twisted's parser lacks (Host, obs-fold, chunked
HTTP/1.0) are not here yet.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from twisted.internet.interfaces import ITCPTransport
from twisted.web import http

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.answers import fault_packet
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal

if TYPE_CHECKING:
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Bytes of the request line, and of one header field (`http.md` §1).
LINE_BYTES_MAX: Final = 8190
#: Header fields of one request.
FIELDS_MAX: Final = 64


class Parser(http.HTTPChannel):
    """
    The receiving half of a connection; `connection.Connection` adds its life.
    """

    MAX_LENGTH = LINE_BYTES_MAX
    maxHeaders = FIELDS_MAX
    #: The fields are counted and measured one by one.
    totalHeadersSize = LINE_BYTES_MAX * (FIELDS_MAX + 1)

    #: Whether an answer was given before its request was read to the end.
    input_left = False
    #: Whether whatever arrives is thrown away: an answer was the last.
    dropping = False

    _body_idle: float | None = None

    @property
    def wire(self) -> ITCPTransport:
        """
        The transport, once there is one.
        """
        return cast(ITCPTransport, self.transport)

    def dataReceived(self, data: bytes) -> None:
        """
        Bytes arrived. After a last answer they are thrown away.
        """
        if not self.dropping:
            super().dataReceived(data)

    def rawDataReceived(self, data: bytes) -> None:
        """
        Bytes of a body arrived, or of requests that have to wait.
        """
        if not self.dropping:
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
        if not self.dropping:
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
        if self.dropping:
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
            self.dropping = True
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
        if not self.dropping:
            self.wire.write(fault_packet(problem))
            self.input_left = True
            self.loseConnection()
