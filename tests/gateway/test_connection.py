"""
Connections as bytes: framing, faults of the parser, early answers, ends.
"""

from __future__ import annotations

import pytest
from twisted.internet.interfaces import IHalfCloseableProtocol
from zope.interface import implementer

from tests.asynchronous import asynchronous
from tests.gateway.serving import TOKEN, Raw, Response, Serving, parsed, sleep

HOST = b"Host: x\r\n"
AUTH = HOST + b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
JSON = AUTH + b"Content-Type: application/json\r\n"
CANCEL = b"POST /aotx/v1/requests/req-%016x-%032x/cancel HTTP/1.1\r\n" % (7, 9)
CLOSE = b"Connection: close\r\n"
END = b"\r\n"


async def refused(gateway: Serving, data: bytes) -> Response:
    """
    The answer to *data*; the gateway must close after it.
    """
    answer = parsed(await gateway.raw(data))
    assert answer.header("connection") == "close"
    assert len(answer.content) == int(answer.header("content-length") or "-1")
    return answer


@asynchronous
async def test_a_malformed_request_line_is_400_json(gateway: Serving) -> None:
    """
    http.md §1, D15, B67.
    """
    for line in (
        b"GET /\r\n",
        b"GET  / HTTP/1.1\r\n",
        b"G@T / HTTP/1.1\r\n",
        b"GET /\x01 HTTP/1.1\r\n",
        b"GET / HTTP/2.0\r\n",
        b"GET / HTTP/1.1 x\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n",
        b"GET /" + b"x" * 8190 + b" HTTP/1.1\r\n",
        b"GET /" + b"x" * 100_000,
    ):
        answer = await refused(gateway, line + HOST + END)
        assert answer.problem == (400, "invalid_field", "request_line"), line[:40]
        assert answer.header("cache-control") == "no-store"
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("vary") == "Origin"


@asynchronous
async def test_requests_in_one_segment_are_answered_in_order(gateway: Serving) -> None:
    """
    Pipelining, with a body between them.
    """
    answers = await gateway.raw(
        b"GET /v1/models HTTP/1.1\r\n" + AUTH + END
        + CANCEL + JSON + b"Content-Length: 2\r\n\r\n{}"
        + b"GET /healthz HTTP/1.1\r\n" + HOST + END
        + b"GET /nowhere HTTP/1.1\r\n" + AUTH + CLOSE + END
    )  # fmt: skip

    heads = [line for line in answers.split(b"\r\n") if b"HTTP/1.1 " in line]
    codes = [head.partition(b"HTTP/1.1 ")[2][:3] for head in heads]
    assert codes == [b"200", b"404", b"200", b"404"]


@asynchronous
async def test_a_body_in_chunks_is_read(gateway: Serving) -> None:
    """
    B61: single bytes, an extension, a trailer.
    """
    raw = await gateway.connect()
    raw.send(CANCEL + JSON + b"Transfer-Encoding: chunked\r\n\r\n")
    for byte in b"1;x=y\r\n{\r\n1\r\n}\r\n0\r\nT: x\r\n\r\n":
        raw.send(bytes([byte]))
    await raw.until(b"device_refused")

    raw.send(b"GET /healthz HTTP/1.1\r\n" + HOST + CLOSE + END)
    answers = await raw.closed
    assert answers.endswith(b'{"status":"ok"}')


@asynchronous
async def test_chunks_that_are_none_are_400_body(gateway: Serving) -> None:
    for chunks in (b"x\r\n{}\r\n", b"2\r\n{}x\r\n", b"1\r\n{\r\n-1\r\n", b"0" * 2000):
        answer = await refused(
            gateway, CANCEL + JSON + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
        )
        assert answer.problem == (400, "invalid_field", "body"), chunks


@asynchronous
async def test_an_early_answer_closes_and_is_not_lost(gateway: Serving) -> None:
    """
    http.md §1: the answer comes before the body was read, and no reset overtakes it.
    """
    body = b"x" * 3_000_000
    length = b"Content-Length: %d\r\n" % len(body)
    for head, problem in (
        (b"POST /v1/models HTTP/1.1\r\n" + HOST, (401, "invalid_api_key", None)),
        (b"POST /nowhere HTTP/1.1\r\n" + AUTH, (404, "route_not_found", None)),
        (b"POST /v1/models HTTP/1.1\r\n" + AUTH, (405, "method", None)),
        (b"GET /v1/models HTTP/1.1\r\n" + AUTH, (400, "invalid_field", "body")),
        (CANCEL + AUTH, (415, "content_type", None)),
    ):
        answer = await refused(gateway, head + length + END + body)
        assert answer.problem == problem
    assert gateway.device.operations == []


@implementer(IHalfCloseableProtocol)
class Stubborn(Raw):
    """
    A client that goes on although the other side has ended.
    """

    ended = False

    def readConnectionLost(self) -> None:
        self.ended = True

    def writeConnectionLost(self) -> None:
        """Never: it does not end its side."""


@asynchronous
async def test_a_client_that_keeps_sending_is_cut_off(gateway: Serving) -> None:
    """
    After an early answer the rest of a body has two seconds, then the socket goes.
    """
    raw = await gateway.connected(Stubborn())
    raw.send(b"POST /nowhere HTTP/1.1\r\n" + AUTH + b"Content-Length: 9999999\r\n\r\n")
    await raw.until(b"route_not_found")
    await sleep(0.1)
    assert raw.ended

    for _ in range(15):
        raw.send(b"x" * 10_000)
        await sleep(0.1)
    assert len(gateway.site.connections) == 1
    await sleep(1)

    assert len(gateway.site.connections) == 0


@asynchronous
async def test_a_body_cut_short_is_body_length(gateway: Serving) -> None:
    """
    http.md §3: the client says 10 bytes, sends 5 and ends its side.
    """
    raw = await gateway.connect()
    raw.send(CANCEL + JSON + b"Content-Length: 10\r\n\r\n{   }")
    await sleep(0.05)
    assert raw.transport is not None
    raw.transport.loseWriteConnection()  # type: ignore[attr-defined]

    answer = parsed(await raw.closed)
    assert answer.problem == (400, "body_length", None)


@asynchronous
async def test_http_1_0_gets_no_chunks_and_a_closed_connection(
    gateway: Serving,
) -> None:
    """
    http.md §1, B77: also if it asks to be kept.
    """
    for extra in (b"", b"Connection: keep-alive\r\n"):
        answer = parsed(
            await gateway.raw(b"GET /healthz HTTP/1.0\r\n" + extra + b"\r\n")
        )
        assert answer.status == 200
        assert answer.header("transfer-encoding") is None
        assert answer.content == b'{"status":"ok"}'


@asynchronous
@pytest.mark.parametrize(
    "value", [b"close", b"Close", b"keep-alive, close", b"x,close"]
)
async def test_a_client_may_ask_to_close(gateway: Serving, value: bytes) -> None:
    answer = parsed(
        await gateway.raw(
            b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: " + value + b"\r\n\r\n"
        )
    )

    assert answer.header("connection") == "close"


@asynchronous
async def test_the_site_speaks_no_http_2(gateway: Serving) -> None:
    assert gateway.site.acceptableProtocols() == [b"http/1.1"]
