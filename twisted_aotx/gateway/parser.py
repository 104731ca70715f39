"""
Requests from bytes: what differs from Twisted's parser, and why.

Rules:

1. A request is served when its header is complete, not its body (`txrequest`).
2. Faults are answered with our JSON and end the connection: nothing here answers HTML
   or a traceback, and nothing is logged about a request [D15].
3. What Twisted's parser lets pass and should not (`http.md` §1, D16): a missing,
   repeated or malformed Host, folded lines, any transfer coding but `chunked`, chunked
   HTTP/1.0, more or longer fields than we take, a request line that is not visible
   ASCII; trailers that are no fields (`chunks`).
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from twisted.internet.interfaces import ITCPTransport
from twisted.web import http

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.answers import fault_packet
from twisted_aotx.gateway.chunks import Chunks
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal
from twisted_aotx.gateway.routing import decoded_path, handle_in

if TYPE_CHECKING:
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Bytes of the request line, and of one header field (`http.md` §1).
LINE_BYTES_MAX: Final = 8190
#: Header fields of one request.
FIELDS_MAX: Final = 64
#: Digits of a Content-Length that are read. What has more is larger than every limit
#: by far, and may be more than Python turns into a number.
_LENGTH_DIGITS_MAX: Final = 19
#: What no request line has: a target is visible ASCII (RFC 3986), the rest is too.
_INVISIBLE: Final = re.compile(rb"[^ -~]")
#: A host and a port (RFC 3986 §3.2), or nothing.
_HOST: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+;=%:\[\]-]*")
#: How the fields begin that frame a body.
_FRAMING: Final = frozenset({b"C", b"c", b"T", b"t"})
#: Where a line begins that continues the one before it.
_FOLD: Final = (b" ", b"\t")


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

    def header_begun(self) -> None:
        """
        The first byte of a header is there; may be told more than once.
        """

    def header_ended(self) -> None:
        """
        A header is complete.
        """

    def refused(self, problem: Problem) -> None:
        """
        What arrived is answered with *problem*, as the last answer.
        """

    def answered(self) -> None:
        """
        The last answer ended and nothing of a next request is here.
        """

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
        if self.dropping:
            return
        if not self.requests:
            self.header_begun()
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
        if self.dropping:
            return False
        if len(line) > LINE_BYTES_MAX or self._receivedHeaderCount >= FIELDS_MAX:
            self._refuse(refusal(ProblemCode.HEADER_LIMIT))
            return False
        framed = self._framed(line) if line[:1] in _FRAMING else line
        if framed is None:
            self._refuse(invalid_field("headers", "The framing is not acceptable."))
            return False
        taken = bool(super().headerReceived(framed))
        if type(self._transferDecoder) is http._ChunkedTransferDecoder:
            self._transferDecoder = Chunks.instead_of(self._transferDecoder)
        return taken

    def _framed(self, line: bytes) -> bytes | None:
        """
        A field as Twisted can read it; None if it frames the body and does not mean the
        same to everybody.
        """
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name == b"transfer-encoding":
            is_one = self._version == b"HTTP/1.1" and value.lower() == b"chunked"
            return line if is_one else None
        if name == b"content-length" and len(value) > _LENGTH_DIGITS_MAX:
            return b"Content-Length:" + _readable(value)
        return line

    def lineReceived(self, line: bytes) -> None:
        """
        A line of a header arrived.
        """
        if self.dropping:
            return
        if not self._has_request_line() and _INVISIBLE.search(line):
            self._refuse(
                invalid_field("request_line", "The request line is malformed.")
            )
        elif line[:1] in _FOLD and self._has_request_line():
            self._refuse(invalid_field("headers", "Folded header lines are refused."))
        else:
            super().lineReceived(line)

    def allHeadersReceived(self) -> None:
        """
        The header is complete. A request with a body is served from here, one without
        from `allContentReceived`.
        """
        if self.dropping:
            return
        txrequest: GatewayRequest = self.requests[-1]
        if not self._names_host(txrequest):
            self._refuse(invalid_field("headers", "Exactly one Host is needed."))
            return
        self.header_ended()
        self.persistent = self.checkPersistence(txrequest, self._version)
        if self.length != 0:
            txrequest.head_received(
                self._command, self._path, self._version, self.length
            )

    def _names_host(self, txrequest: GatewayRequest) -> bool:
        hosts = txrequest.requestHeaders.getRawHeaders(b"Host", [])
        if len(hosts) != 1:
            return not hosts and self._version == b"HTTP/1.0"
        return _HOST.fullmatch(hosts[0]) is not None

    def allContentReceived(self) -> None:
        """
        The body, which may be none, is complete.
        """
        if self.dropping:
            return
        txrequest: GatewayRequest = self.requests[-1]
        command, path, version = self._command, self._path, self._version
        super().allContentReceived()
        if txrequest.body_length == 0:
            txrequest.head_received(command, path, version, 0)

    def requestDone(self, request: http.Request) -> None:
        """
        An answer ended (called by the request).
        """
        super().requestDone(request)
        if self.requests or self.dropping:
            return
        if self._buffer:
            self.header_begun()
        else:
            self.answered()

    def checkPersistence(self, request: http.Request, version: bytes) -> bool:
        """
        Whether the connection may be kept: one `close` in Connection ends it.
        """
        lines = request.requestHeaders.getRawHeaders(b"Connection", ())
        if version == b"HTTP/1.1":
            tokens = b",".join(lines).lower().split(b",") if lines else ()
            if b"close" not in [token.strip() for token in tokens]:
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
            self.refused(problem)
            is_head = getattr(self, "_command", None) == b"HEAD"
            handle = None
            if self._has_request_line():
                handle = handle_in(decoded_path(self._path))
            self.wire.write(fault_packet(problem, handle, is_head=is_head))
            self.input_left = True
            self.loseConnection()


def _readable(length: bytes) -> bytes:
    """
    A Content-Length that Python can read: one beyond every limit is the largest that is
    read. What is no number stays.
    """
    if not length.isdigit():
        return length
    digits = length.lstrip(b"0") or b"0"
    return digits if len(digits) <= _LENGTH_DIGITS_MAX else b"9" * _LENGTH_DIGITS_MAX
