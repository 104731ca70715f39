"""
Connections as bytes: framing, faults of the parser, early answers, ends.
"""

from __future__ import annotations

import json

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from zope.interface import implementer

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import DeviceScript
from tests.gateway.serving import TOKEN, Raw, Response, Serving, parsed, sleep
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import Answer
from twisted_aotx.wire.packet import RequestHeader

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
async def test_a_malformed_header_is_400_json(gateway: Serving) -> None:
    """
    http.md §1, B69: also where lengths contradict each other.
    """
    for fields in (
        b"no colon\r\n",
        b"Bad Name: x\r\n",
        b"X: a\x00b\r\n",
        b"X: a\rb\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length: 0x2\r\n",
        b"Content-Length : 2\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
    ):
        answer = await refused(gateway, b"POST / HTTP/1.1\r\n" + HOST + fields + END)
        assert answer.problem == (400, "invalid_field", "headers"), fields


@asynchronous
async def test_an_oversize_header_is_431(gateway: Serving) -> None:
    """
    D16, B67: a field over 8190 bytes or more than 64 fields.
    """
    get = b"GET /healthz HTTP/1.1\r\n"
    for fields in (
        b"X: " + b"x" * 8188 + b"\r\n",
        b"X: " + b"x" * 200_000,
        b"X: y\r\n" * 65,
        b"X: y\r\n " + b"x" * 8180 + b"\r\n " + b"x" * 10 + b"\r\n",
    ):
        answer = await refused(gateway, get + fields + END)
        assert answer.problem == (431, "header_limit", None)
        assert answer.header("x-should-retry") == "false"
    for fields in (b"X: " + b"x" * 8187 + b"\r\n", b"X: y\r\n" * 63):
        answer = parsed(await gateway.raw(get + fields + CLOSE + END))
        assert answer.status == 200


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

    assert gateway.site.connections == set()


@asynchronous
async def test_an_expected_100_is_sent_when_the_body_is_wanted(
    gateway: Serving,
) -> None:
    """
    http.md §3, D16, B63: not before the length was accepted.
    """
    expect = JSON + b"Expect: 100-continue\r\n"
    raw = await gateway.connect()
    raw.send(CANCEL + expect + b"Content-Length: 2\r\n\r\n")
    await raw.until(b"HTTP/1.1 100 Continue\r\n\r\n")
    raw.send(b"{}")
    await raw.until(b"device_refused")

    for head, length, code in (
        (CANCEL + expect, 99_999_999_999, b"body_limit"),
        (b"POST /nowhere HTTP/1.1\r\n" + expect, 2, b"route_not_found"),
    ):
        answer = await gateway.raw(head + b"Content-Length: %d\r\n\r\n" % length)
        assert b"100 Continue" not in answer
        assert code in answer


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
async def test_targets_of_every_form(gateway: Serving) -> None:
    """
    B67: the absolute form is served; other odd ones get JSON.
    """
    for target, status in (
        (b"http://x:1/healthz", 200),
        (b"HTTPS://x/v1/models?", 200),
        (b"http://x", 404),
        (b"*", 404),
        (b"healthz", 404),
        (b"//healthz", 404),
        (b"/healthz#x", 404),
        (b"x:1", 404),
    ):
        answer = parsed(
            await gateway.raw(b"GET %b HTTP/1.1\r\n" % target + AUTH + CLOSE + END)
        )
        assert answer.status == status, target
        assert json.loads(answer.content)
    answer = parsed(
        await gateway.raw(b"get /healthz HTTP/1.1\r\n" + HOST + CLOSE + END)
    )
    assert answer.problem == (405, "method", None)
    answer = parsed(
        await gateway.raw(
            b"OPTIONS * HTTP/1.1\r\n" + HOST + b"Origin: https://app.example\r\n"
            b"Access-Control-Request-Method: GET\r\n" + CLOSE + END
        )
    )
    assert answer.status == 204


@asynchronous
async def test_an_idle_connection_is_closed_without_bytes(serve: Serve) -> None:
    """
    D14, B71: after `idle_seconds` since the last answer.
    """
    gateway = await serve(idle_seconds=0.4)
    raw = await gateway.connect()
    for _ in range(3):
        raw.send(b"GET /healthz HTTP/1.1\r\n" + HOST + END)
        await sleep(0.25)
    received = raw.received
    assert received.count(b'{"status":"ok"}') == 3

    await sleep(0.3)

    assert raw.closed.called
    assert raw.received == received


@asynchronous
async def test_idle_time_does_not_run_while_an_answer_is_awaited(serve: Serve) -> None:
    """
    B71: the device takes longer than `idle_seconds`, with and without a body.
    """
    device = DeviceScript()
    gateway = await serve(device, idle_seconds=0.3)
    for head in (
        b"GET /v1/models HTTP/1.1\r\n" + AUTH + END,
        CANCEL + JSON + b"Content-Length: 2\r\n\r\n{}",
    ):
        device.before = lambda request: _late(device, request)
        raw = await gateway.connect()
        raw.send(head)
        await raw.until(b"}")
        assert not raw.closed.called
        # The connection is kept, and idle time runs again.
        await sleep(0.5)
        assert raw.closed.called


def _late(device: DeviceScript, request: RequestHeader) -> Deferred[Answer]:
    async def answer() -> Answer:
        await sleep(0.6)
        reply = device(request, b"")
        assert not isinstance(reply, Deferred)
        return reply

    device.before = lambda _: NotImplemented
    return Deferred.fromCoroutine(answer())


@asynchronous
async def test_the_site_speaks_no_http_2(gateway: Serving) -> None:
    assert gateway.site.acceptableProtocols() == [b"http/1.1"]


@asynchronous
async def test_a_client_that_takes_nothing_is_cut_off(serve: Serve) -> None:
    """
    http.md §1: a write not taken in `write_seconds` aborts the socket.
    """
    gateway = await serve(limits=Limits(write_seconds=1))
    raw = await gateway.connect()
    assert raw.transport is not None
    raw.transport.pauseProducing()  # type: ignore[attr-defined]
    ask = b"GET /v1/models HTTP/1.1\r\n" + AUTH + END
    raw.send(ask * 20_000)

    for _ in range(60):
        await sleep(0.1)
        if not gateway.site.connections:
            break

    assert not gateway.site.connections
