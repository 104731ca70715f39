"""
What twisted.web lets pass and the gateway does not (D16), on sockets of bytes.
"""

from __future__ import annotations

import json

import pytest

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.headers import (
    AUTH,
    BAD_HEADERS,
    CANCEL,
    CLOSE,
    END,
    GET,
    HOST,
    JSON,
    refused,
)
from tests.gateway.serving import ORIGIN, TOKEN, Serving, parsed
from twisted_aotx.gateway.settings import Limits


@asynchronous
async def test_a_malformed_header_is_400_json(gateway: Serving) -> None:
    """
    http.md §1, B69.
    """
    for fields in (
        b"no colon\r\n",
        b"Bad Name: x\r\n",
        b": x\r\n",
        b"X: a\x00b\r\n",
        b"X: a\rb\r\n",
        b"X: a\nb\r\n",
        b"no colon\r\nX: y\r\n",
    ):
        answer = await refused(gateway, GET + HOST + fields + END)
        assert answer.problem == BAD_HEADERS, fields


@asynchronous
@pytest.mark.parametrize("byte", [0, 9, 11, 13, 31, 127, 128, 160, 176, 177, 255])
async def test_a_request_line_is_visible_ascii(gateway: Serving, byte: int) -> None:
    """
    RFC 9112 §3, RFC 3986: what else stands there, others read otherwise or refuse.
    """
    for line in (b"GET /v1/%b HTTP/1.1", b"G%bT / HTTP/1.1", b"GET / HTTP/1.1%b"):
        answer = await refused(gateway, line % bytes([byte]) + END + AUTH + END)
        assert answer.problem == (400, "invalid_field", "request_line"), line


@asynchronous
async def test_head_is_refused_without_a_body(gateway: Serving) -> None:
    """
    http.md §1: the same status and headers as GET, and no body.
    """
    faults = (
        b"\r\n",
        AUTH + b"X: " + b"a" * 8190 + b"\r\n\r\n",
        AUTH + b" folded\r\n\r\n",
        AUTH + b"no colon\r\n\r\n",
        AUTH + b"Content-Length: x\r\n\r\n",
    )
    for fault in faults:
        get = await gateway.raw(b"GET /healthz HTTP/1.1\r\n" + fault)
        head = await gateway.raw(b"HEAD /healthz HTTP/1.1\r\n" + fault)
        fields, _, content = get.partition(b"\r\n\r\n")
        assert json.loads(content)["error"]["code"] in {"invalid_field", "header_limit"}
        assert head == fields + b"\r\n\r\n"


@asynchronous
async def test_a_fault_below_a_handle_names_it(gateway: Serving) -> None:
    """
    http.md §1: X-Request-ID is on every answer there.
    """
    handle = b"req-%016x-%032x" % (7, 9)
    fault = AUTH + b"X: " + b"a" * 8190 + b"\r\n\r\n"
    for below, named in (
        (handle, True),
        (handle + b"/events?cursor=x", True),
        (b"%72" + handle[1:] + b"/nowhere", True),
        (handle[:-1], False),
        (handle + b"0", False),
    ):
        line = b"GET /aotx/v1/requests/" + below + b" HTTP/1.1\r\n"
        for data in (line + b"\r\n", line + fault):
            answer = await refused(gateway, data)
            expected = handle.decode() if named else None
            assert answer.header("x-request-id") == expected, below


@asynchronous
async def test_exactly_one_host_is_needed(gateway: Serving) -> None:
    """
    D16: HTTP/1.0 has none, but not two either.
    """
    for fields in (
        b"",
        b"X-Host: x\r\n",
        b"Host: x\r\nHost: x\r\n",
        b"host: x\r\nHOST: y\r\n",
        b"Host: x y\r\n",
        b"Host: x/y\r\n",
        b"Host: x@y\r\n",
        b"Host: x, y\r\n",
    ):
        answer = await refused(gateway, GET + fields + END)
        assert answer.problem == BAD_HEADERS, fields
    answer = await refused(gateway, b"GET / HTTP/1.0\r\n" + HOST + HOST + END)
    assert answer.problem == BAD_HEADERS
    # The absolute form names a host, and still needs the field.
    answer = await refused(gateway, b"GET http://x/healthz HTTP/1.1\r\n" + END)
    assert answer.problem == BAD_HEADERS
    for host in (b"x:8081", b"", b"127.0.0.1", b"[::1]:80", b"a-b.example"):
        sent = GET + b"Host: " + host + END + CLOSE + END
        assert parsed(await gateway.raw(sent)).status == 200, host


@asynchronous
async def test_folded_lines_are_refused(gateway: Serving) -> None:
    """
    D16: after the request line, after a field, before the end.
    """
    for fields in (
        b" X: y\r\n" + HOST,
        HOST + b"X: y\r\n z\r\n",
        HOST + b"X: y\r\n\tz\r\n",
        HOST + b"X: y\r\n \r\n",
        HOST + b" chunked\r\n",
    ):
        answer = await refused(gateway, GET + fields + END)
        assert answer.problem == BAD_HEADERS, fields


@asynchronous
async def test_an_oversize_header_is_431(gateway: Serving) -> None:
    """
    D16, B17, B67: a field over 8190 bytes or more than 64 fields; nothing comes back.
    """
    get = GET + HOST
    for fields in (
        b"X: " + b"x" * 8188 + b"\r\n",
        b"X: " + b"x" * 17_000,
        b"X: " + b"x" * 200_000,
        b"X: y\r\n" * 64,
        b"X-Request-ID: " + b"x" * 65_536 + b"\r\n",
        b"Authorization: Bearer " + b"x" * 65_536 + b"\r\n",
    ):
        answer = await refused(gateway, get + fields + END)
        assert answer.problem == (431, "header_limit", None)
        assert b"xx" not in answer.content
    for fields in (b"X: " + b"x" * 8187 + b"\r\n", b"X: y\r\n" * 62):
        answer = parsed(await gateway.raw(get + fields + CLOSE + END))
        assert answer.status == 200


@asynchronous
async def test_a_request_line_has_8190_bytes(gateway: Serving) -> None:
    """
    http.md §1, B59: at the limit and one past it.
    """
    for extra, status in ((0, 404), (1, 400)):
        line = b"GET /" + b"x" * (8190 - 14 + extra) + b" HTTP/1.1"
        assert len(line) == 8190 + extra
        answer = parsed(await gateway.raw(line + END + AUTH + CLOSE + END))
        assert answer.status == status
    assert answer.error["param"] == "request_line"


@asynchronous
async def test_guards_stand_behind_an_answer_too(gateway: Serving) -> None:
    """
    A kept connection: the fault ends it, the answers before it came in order.
    """
    good = GET + HOST + END
    answers = await gateway.raw(good + good + GET + END + good)

    assert answers.count(b'{"status":"ok"}') == 2
    assert parsed(answers[answers.index(b"HTTP/1.1 400") :]).problem == BAD_HEADERS


@asynchronous
async def test_an_expected_100_is_sent_when_the_body_is_wanted(
    gateway: Serving,
) -> None:
    """
    http.md §3, D16, B63: not before the length was accepted; once.
    """
    expect = JSON + b"Expect: 100-continue\r\n"
    raw = await gateway.connect()
    raw.send(CANCEL + expect + b"Content-Length: 2\r\n\r\n")
    await raw.until(b"HTTP/1.1 100 Continue\r\n\r\n")
    raw.send(b"{}")
    await raw.until(b"device_refused")
    assert raw.received.count(b"100 Continue") == 1

    for head, length, code in (
        (CANCEL + expect, 99_999_999_999, b"body_limit"),
        (b"POST /nowhere HTTP/1.1\r\n" + expect, 2, b"route_not_found"),
        (CANCEL + expect.replace(TOKEN.encode(), b"x"), 2, b"invalid_api_key"),
        (CANCEL + expect.replace(b"json", b"xml"), 2, b"content_type"),
    ):
        answer = await gateway.raw(head + b"Content-Length: %d\r\n\r\n" % length)
        assert b"100 Continue" not in answer
        assert code in answer


@asynchronous
async def test_a_budget_that_is_full_sends_no_100(serve: Serve) -> None:
    """
    http.md §3: credit before `100 Continue`.
    """
    gateway = await serve(limits=Limits(body_credit=10))
    answer = parsed(
        await gateway.raw(
            CANCEL + JSON + b"Expect: 100-continue\r\nContent-Length: 11\r\n\r\n"
        )
    )

    assert answer.problem == (429, "transport_limit", None)


@asynchronous
async def test_other_expectations_are_417_on_any_route(gateway: Serving) -> None:
    """
    D16, http.md §1: with a body nobody waits for, the connection ends.
    """
    for line in (b"POST /nowhere HTTP/1.1\r\n", CANCEL, b"OPTIONS * HTTP/1.1\r\n"):
        answer = await refused(
            gateway, line + JSON + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n"
        )
        assert answer.problem == (417, "expectation", None)


@asynchronous
async def test_targets_of_every_form(gateway: Serving) -> None:
    """
    D16, B67: the absolute form is served; other odd ones get JSON.
    """
    for target, status in (
        (b"http://x:1/healthz", 200),
        (b"HTTPS://x/v1/models?", 200),
        (b"http://x", 404),
        (b"*", 404),
        (b"healthz", 404),
        (b"//healthz", 404),
        (b"/healthz#x", 404),
        (b"/healthz/", 404),
        (b"/../healthz", 404),
        (b"x:1", 404),
    ):
        answer = parsed(
            await gateway.raw(b"GET %b HTTP/1.1\r\n" % target + AUTH + CLOSE + END)
        )
        assert answer.status == status, target
        assert json.loads(answer.content)


@asynchronous
async def test_methods_nobody_knows_are_405(gateway: Serving) -> None:
    """
    D15, B67: with `Allow`, JSON, and as they are written.
    """
    for method in (b"get", b"BREW", b"CONNECT", b"TRACE", b"PROPFIND", b"X" * 100):
        answer = parsed(
            await gateway.raw(method + GET.removeprefix(b"GET") + HOST + CLOSE + END)
        )
        assert answer.problem == (405, "method", None)
        assert answer.header("allow") == "GET, HEAD"


@asynchronous
async def test_options_of_everything(gateway: Serving) -> None:
    """
    D28, B67: `OPTIONS *` is a preflight like any other.
    """
    options = b"OPTIONS * HTTP/1.1\r\n" + HOST + CLOSE
    asks = b"Access-Control-Request-Method: GET\r\n"
    origin = b"Origin: " + ORIGIN.encode() + END
    answer = parsed(await gateway.raw(options + origin + asks + END))
    assert answer.status == 204
    assert answer.header("access-control-allow-origin") == ORIGIN
    answer = parsed(await gateway.raw(options + asks + END))
    assert answer.problem == (400, "invalid_field", "Origin")
    answer = parsed(await gateway.raw(options + b"Origin: null\r\n" + asks + END))
    assert answer.problem == (403, "origin_forbidden", None)
