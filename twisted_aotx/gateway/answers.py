"""
How an answer is written: headers that every answer has, bodies, errors.

The one place of the gateway that writes an error body over HTTP (`http.md` §1, §2):
`connection` asks it for the answer to a parser fault, `dispatch` for all others, and
event streams take their error object from `problems`. No answer is HTML [D15].
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import attrs

from twisted_aotx import strictjson
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.pieces import PIECE_BYTES, Pieces
from twisted_aotx.gateway.problems import error_headers, error_object

if TYPE_CHECKING:
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: On every answer, whatever its status.
BASE_HEADERS: Final = (
    (b"Cache-Control", b"no-store"),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Vary", b"Origin"),
)
JSON_TYPE: Final = b"application/json"


@attrs.frozen
class Answer:
    """
    What a handler returns: a status with a JSON body, raw bytes, or nothing.
    """

    status: int = 200
    #: What JSON can say; None is no body unless *raw* is given. It may be output.
    body: object | None = attrs.field(default=None, repr=False)
    #: Added to those that every answer has.
    headers: tuple[tuple[bytes, bytes], ...] = ()
    #: A body that is not JSON.
    raw: bytes | None = attrs.field(default=None, repr=False)
    #: Of *raw*.
    content_type: bytes = JSON_TYPE
    #: `error.code`, for the journal.
    code: str = ""

    def content(self) -> bytes | None:
        """
        The bytes of the body; None is no body at all (204).
        """
        if self.raw is not None:
            return self.raw
        return None if self.body is None else strictjson.dumps(self.body)


def error_answer(problem: Problem) -> Answer:
    """
    The answer that tells *problem*.
    """
    headers = tuple((k.encode(), v.encode()) for k, v in error_headers(problem))
    return Answer(problem.status, error_object(problem), headers, code=problem.code)


def reason(status: int) -> bytes:
    """
    The reason phrase of *status*.
    """
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Unknown"


def write_head(
    txrequest: GatewayRequest, status: int, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """
    Set the status and *headers*; nothing is sent yet.

    An answer that comes before the end of the body, or from a gateway that is going to
    end, ends the connection (`http.md` §1).
    """
    txrequest.setResponseCode(status, reason(status))
    for name, value in headers:
        txrequest.responseHeaders.setRawHeaders(name, [value])
    if not txrequest.body_complete or txrequest.is_last:
        txrequest.close_after_answer()


def write_answer(txrequest: GatewayRequest, answer: Answer) -> None:
    """
    Send *answer* whole and end the request. On HEAD the body stays out.
    """
    content = answer.content()
    txrequest.error_code = answer.code
    write_head(txrequest, answer.status, answer.headers)
    headers = txrequest.responseHeaders
    if content is not None:
        headers.setRawHeaders(b"Content-Type", [answer.content_type])
        headers.setRawHeaders(b"Content-Length", [b"%d" % len(content)])
    elif answer.status != HTTPStatus.NO_CONTENT:
        headers.setRawHeaders(b"Content-Length", [b"0"])
    sent = content or b""
    if len(sent) > PIECE_BYTES and txrequest.method != b"HEAD":
        Pieces(txrequest, sent).start()
    else:
        txrequest.write(sent)
        txrequest.finish()


def fault_packet(
    problem: Problem, handle: str | None = None, *, is_head: bool = False
) -> bytes:
    """
    The whole answer to a fault that left no request to answer, as bytes.

    Args:
        handle: of the request that the fault is about, if it is about one.
        is_head: whether the body stays out.
    """
    answer = error_answer(problem)
    content = answer.content() or b""
    lines = [b"HTTP/1.1 %d %b" % (answer.status, reason(answer.status))]
    fields = (
        *BASE_HEADERS,
        *answer.headers,
        (b"Content-Type", JSON_TYPE),
        (b"Content-Length", b"%d" % len(content)),
        (b"Connection", b"close"),
    )
    if handle is not None:
        fields = (*fields, (b"X-Request-ID", handle.encode()))
    lines += [b"%b: %b" % field for field in fields]
    return b"\r\n".join([*lines, b"", b"" if is_head else content])
