"""
One GET of a source over a connection that stands (`http.md` §8).

Rules:

1. No proxy, no cookie, no credential, no redirect, no decoding.
2. Bounds: 10 s without a byte, 64 KiB of header, and for the body what the caller says.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web._newclient import (
    HTTP11ClientProtocol,
    Request,
    RequestGenerationFailed,
    RequestNotSent,
    RequestTransmissionFailed,
    ResponseDone,
    ResponseFailed,
)
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import UNKNOWN_LENGTH, IResponse

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.imports_urls import ImportURL
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.problems import ProblemCode, refusal

#: Without a byte, handshake included.
READ_SECONDS: Final = 10.0
#: Bytes of status line and headers, plus one read.
HEADER_BYTES_MAX: Final = 64 << 10

#: What a handshake or an answer may fail with.
_FAULTS: Final = (
    *(ResponseFailed, RequestNotSent),
    *(RequestTransmissionFailed, RequestGenerationFailed),
)
#: What a body ends with that was not cut.
_WHOLE: Final = (ResponseDone, PotentialDataLoss)


class SourceConnection(HTTP11ClientProtocol):
    """
    One connection for one GET, under the bounds of rule 2.
    """

    def __init__(self, clock: Any) -> None:
        super().__init__()
        self._clock = clock
        self._silence: Any = None
        self._header_bytes = 0
        #: Whether the header is complete.
        self.in_body = False
        #: Whether the source was silent for too long.
        self.timed_out = False

    def connectionMade(self) -> None:
        """The connection stands; the handshake begins."""
        super().connectionMade()
        self._silence = self._clock.callLater(READ_SECONDS, self._time_out)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of the answer arrived."""
        if self._silence.active():
            self._silence.reset(READ_SECONDS)
        if not self.in_body:
            if self._header_bytes > HEADER_BYTES_MAX:
                self.drop()
                return
            self._header_bytes += len(data)
        super().dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """No more comes."""
        if self._silence is not None and self._silence.active():
            self._silence.cancel()
        super().connectionLost(reason)

    def drop(self) -> None:
        """
        Close now. Idempotent.
        """
        cast(Any, self.transport).abortConnection()

    def _time_out(self) -> None:
        self.timed_out = True
        self.drop()


class _Body(Protocol):
    """
    Takes the body of an answer into a spool.
    """

    def __init__(
        self, connection: SourceConnection, spool: Spool, bytes_max: int
    ) -> None:
        self._connection = connection
        self._spool = spool
        self._bytes_max = bytes_max
        self._problem: Problem | None = None
        #: Fires with what says why no more comes, or fails with a `Problem`.
        self.ended: Deferred[BaseException] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        """A part of the body arrived."""
        if self._problem is not None:
            return
        if self._spool.size + len(data) > self._bytes_max:
            self._fail(refusal(ProblemCode.SOURCE_LIMIT))
            return
        try:
            self._spool.write(data)
        except Problem as problem:
            self._fail(problem)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The body ended, or was cut."""
        if self.ended.called:
            return
        if self._problem is not None:
            self.ended.errback(self._problem)
        else:
            assert reason.value is not None
            self.ended.callback(reason.value)

    def _fail(self, problem: Problem) -> None:
        self._problem = problem
        self._connection.drop()


async def get(
    connection: SourceConnection, url: ImportURL, spool: Spool, bytes_max: int
) -> bytes:
    """
    The answer to a GET of *url*: its body is appended to *spool*.

    Returns:
        Its content type as it was sent; empty if there is none.

    Raises:
        Problem: 413, 415, 429 or 502, as `http.md` §8 says.
    """
    headers = Headers(
        {b"Host": [url.authority.encode("ascii")], b"Accept-Encoding": [b"identity"]}
    )
    request = Request(b"GET", url.target, headers, None, persistent=False)
    try:
        response: IResponse = await connection.request(request)
    except _FAULTS:
        raise refusal(ProblemCode.SOURCE_TRANSFER) from None
    connection.in_body = True
    if response.code != 200:
        raise refusal(ProblemCode.SOURCE_STATUS)
    codings = response.headers.getRawHeaders(b"Content-Encoding", [])
    if any(coding.strip().lower() not in (b"", b"identity") for coding in codings):
        raise refusal(ProblemCode.SOURCE_ENCODING)
    declared = None if response.length is UNKNOWN_LENGTH else int(response.length)
    if declared is not None and declared > bytes_max:
        raise refusal(ProblemCode.SOURCE_LIMIT)
    body = _Body(connection, spool, bytes_max)
    response.deliverBody(body)
    reason = await body.ended
    if declared is not None and spool.size != declared and not connection.timed_out:
        raise refusal(ProblemCode.SOURCE_LENGTH)
    # Without a declared length the end of the connection is the end of the body.
    if connection.timed_out or not isinstance(reason, _WHOLE):
        raise refusal(ProblemCode.SOURCE_TRANSFER)
    sent: bytes = response.headers.getRawHeaders(b"Content-Type", [b""])[0]
    return sent
