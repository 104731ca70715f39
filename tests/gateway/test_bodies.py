"""
Bodies: their type, length, time and JSON (`http.md` §3).
"""

from __future__ import annotations

import json

import pytest
from twisted.internet.defer import Deferred, gatherResults

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.serving import TOKEN, TOKEN_2, Raw, Serving, parsed, sleep
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.wire.numbers import Operation

PATH = "/aotx/v1/requests/req-0000000000000007-" + "ab" * 16 + "/cancel"
NATIVE = "/aotx/v1/requests"
HEAD = (
    f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    "Content-Type: application/json\r\n"
).encode()
#: What a cancel of an unknown request answers once its body was taken.
TAKEN = (404, "device_refused", None)
BAD = (400, "invalid_field", "body")


def is_free(gateway: Serving) -> bool:
    """
    Whether no budget is held.
    """
    budgets = gateway.gateway.budgets
    counters = (budgets.work, budgets.bodies, budgets.body_credit, budgets.readers)
    return all(counter.held == 0 for counter in counters)


@asynchronous
@pytest.mark.parametrize(
    ("content_type", "accepted"),
    [
        ("application/json", True),
        ("Application/JSON ; charset=latin-1; x=y", True),
        (None, False),
        ("", False),
        ("text/json", False),
        ("application/json, text/plain", False),
        ("application/jsonp", False),
        ("multipart/form-data; boundary=x", False),
        ("application/x-www-form-urlencoded", False),
    ],
)
async def test_the_content_type(
    gateway: Serving, content_type: str | None, accepted: bool
) -> None:
    """
    http.md §3: parameters are ignored.
    """
    field = "" if content_type is None else f"Content-Type: {content_type}\r\n"
    head = HEAD.replace(b"Content-Type: application/json\r\n", field.encode())
    raw = await gateway.connect()
    raw.send(head + b"Content-Length: 2\r\n\r\n{}")

    answer = parsed(await raw.until(b"}}"))

    assert answer.problem == (TAKEN if accepted else (415, "content_type", None))
    assert is_free(gateway)


@asynchronous
async def test_encoded_bodies_are_refused(gateway: Serving) -> None:
    """
    http.md §1, §3: bodies are never decompressed.
    """
    for encoding in ("gzip", "identity, gzip", "br"):
        answer = await gateway.post(PATH, {}, headers={"Content-Encoding": encoding})
        assert answer.problem == (415, "content_encoding", None)
    for encoding in ("identity", "Identity", ""):
        answer = await gateway.post(PATH, {}, headers={"Content-Encoding": encoding})
        assert answer.problem == TAKEN
    assert is_free(gateway)


@asynchronous
async def test_a_declared_length_over_the_limit_is_refused_unread(
    serve: Serve,
) -> None:
    """
    cases H 130: at the limit and one past it.
    """
    gateway = await serve(limits=Limits(json_bytes=100))
    fits = json.dumps({"x": "y" * 90}).encode()
    assert len(fits) == 99

    answer = await _post(gateway, b"%b " % fits)
    assert answer[:2] == (400, "invalid_field")
    answer = parsed(await gateway.raw(HEAD + b"Content-Length: 101\r\n\r\n")).problem
    assert answer == (413, "body_limit", None)
    assert is_free(gateway)


async def _post(gateway: Serving, data: bytes) -> tuple[int, str, str | None]:
    answer = await gateway.request(
        "POST", PATH, data=data, headers={"Content-Type": "application/json"}
    )
    return answer.problem


@asynchronous
async def test_chunks_over_the_limit_are_refused_at_the_first_byte(
    serve: Serve,
) -> None:
    """
    cases H 130, B63: with everything in one segment, and while chunks trickle in.
    """
    gateway = await serve(limits=Limits(json_bytes=100))
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    whole = parsed(await gateway.raw(chunked + b"65\r\n" + b" " * 101))
    assert whole.problem == (413, "body_limit", None)
    raw = await gateway.connect()
    raw.send(chunked)
    for _ in range(101):
        assert raw.received == b""
        raw.send(b"1\r\n \r\n")
        await sleep(0.001)
    answer = parsed(await raw.closed)
    assert answer.problem == (413, "body_limit", None)
    assert answer.header("connection") == "close"

    raw = await gateway.connect()
    raw.send(chunked + b"62\r\n" + b" " * 98 + b"\r\n2\r\n{}\r\n0\r\n\r\n")
    assert parsed(await raw.until(b"}}")).problem == TAKEN
    assert is_free(gateway)


@asynchronous
async def test_a_slow_body_is_408(serve: Serve) -> None:
    """
    cases H 130, D16: one deadline for the whole body, however it trickles.
    """
    gateway = await serve(limits=Limits(body_seconds=1))
    for framing in (b"Content-Length: 50", b"Transfer-Encoding: chunked"):
        raw = await gateway.connect()
        raw.send(HEAD + framing + b"\r\n\r\n")
        for _ in range(8):
            raw.send(b"1\r\n \r\n")
            await sleep(0.1)
        assert raw.received == b""
        assert not is_free(gateway)

        answer = parsed(await raw.closed)

        assert answer.problem == (408, "body_timeout", None)
        assert answer.header("connection") == "close"
        assert answer.header("x-should-retry") is None
        assert is_free(gateway)


@asynchronous
async def test_a_client_that_leaves_frees_what_its_body_held(
    gateway: Serving,
) -> None:
    for framing in (b"Content-Length: 50", b"Transfer-Encoding: chunked"):
        raw = await gateway.connect()
        raw.send(HEAD + framing + b"\r\n\r\n1")
        await sleep(0.05)
        assert not is_free(gateway)
        assert raw.transport is not None
        raw.transport.abortConnection()  # type: ignore[attr-defined]
        await sleep(0.05)
        assert is_free(gateway)
    assert len(gateway.site.connections) == 0
    assert gateway.device.operations == []


@asynchronous
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"x"',
        b"{} {}",
        b"{",
        b"\xef\xbb\xbf{}",
        b'{"x":"\xff"}',
        b'{"x":1,"x":1}',
        b'{"x":{"y":[{"z":1,"z":2}]}}',
        b'{"model":1,"\\u006dodel":1}',
        b'{"x":NaN}',
        b'{"x":Infinity}',
        b'{"x":-Infinity}',
        b'{"x":1e999}',
        b'{"x":"\\ud83d"}',
        b'{"\\udc00":1}',
        b'{"x":[[[[[[[[1]]]]]]]]}',
        b'{"x":[[[[[[[[]]]]]]]]}',
        b'{"x":' + b"[" * 20_000,
        b"{" + b",".join(b'"%d":1' % i for i in range(129)) + b"}",
    ],
)
async def test_json_that_is_refused(gateway: Serving, body: bytes) -> None:
    """
    cases H 131, B45, B47, B49: 400 param body, and nothing was submitted.
    """
    for path in (NATIVE, "/v1/chat/completions", PATH):
        answer = await gateway.request(
            "POST", path, data=body, headers={"Content-Type": "application/json"}
        )
        assert answer.problem == BAD
    assert Operation.SUBMIT not in gateway.device.operations
    assert Operation.CANCEL not in gateway.device.operations
    assert is_free(gateway)


@asynchronous
async def test_the_credit_for_all_bodies(serve: Serve) -> None:
    """
    http.md §3: the declared length, or the whole limit for chunks; 429 at once. What
    was read costs only its real size.
    """
    gateway = await serve(limits=Limits(json_bytes=100, body_credit=150))
    credit = gateway.gateway.budgets.body_credit
    raw = await gateway.connect()
    raw.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await sleep(0.05)
    assert credit.held == 100

    length = 51
    answer = parsed(await gateway.raw(HEAD + b"Content-Length: %d\r\n\r\n" % length))
    assert answer.problem == (429, "transport_limit", None)
    assert answer.header("retry-after") == "1"
    second = await gateway.connect()
    second.send(HEAD + b"Content-Length: 50\r\n\r\n")
    await sleep(0.05)
    assert credit.held == 150

    raw.send(b"2\r\n{}\r\n0\r\n\r\n")
    await raw.until(b"}}")
    assert credit.held == 50
    second.send(b"{}" + b" " * 48)
    await second.until(b"}}")
    assert is_free(gateway)


@asynchronous
async def test_a_principal_has_half_the_readers_and_others_wait(serve: Serve) -> None:
    """
    D29: ceil(body_readers / 2) for one principal; a waiter is served when one is free.
    """
    gateway = await serve(limits=Limits(body_readers=2))
    readers = gateway.gateway.budgets.readers
    first, second = await _begun(gateway), await _begun(gateway)
    other = await _begun(gateway, TOKEN_2)
    assert (readers.held, readers.waiters) == (2, 1)

    other.send(b"{}")
    assert parsed(await other.until(b"}}")).status == 404
    assert (readers.held, readers.waiters) == (1, 1)
    first.send(b"{}")
    await first.until(b"}}")
    assert (readers.held, readers.waiters) == (1, 0)
    second.send(b"{}")
    await second.until(b"}}")
    assert is_free(gateway)


async def _begun(gateway: Serving, token: str = TOKEN) -> Raw:
    raw = await gateway.connect()
    head = HEAD.replace(TOKEN.encode(), token.encode())
    raw.send(head + b"Content-Length: 2\r\n\r\n")
    await sleep(0.03)
    return raw


@asynchronous
async def test_a_waiting_body_is_not_read_into_memory(serve: Serve) -> None:
    """
    While a body waits for its reader the connection is paused.
    """
    gateway = await serve(limits=Limits(body_readers=1))
    holder = await _begun(gateway)
    raw = await gateway.connect()
    size = 6_000_000
    raw.send(HEAD + b"Content-Length: %d\r\n\r\n" % size)
    raw.send(b" " * size)
    await sleep(0.3)

    waiting = [c for c in gateway.site.connections if c.requests]
    held = max(len(connection.requests[0]._body) for connection in waiting)
    assert held <= 2 * 65536

    holder.send(b"{}")
    await holder.until(b"}}")
    assert parsed(await raw.until(b"}}")).problem == BAD
    assert is_free(gateway)


@asynchronous
async def test_a_client_that_leaves_does_not_wait_any_longer(serve: Serve) -> None:
    """
    D29, http.md §3: its place among the waiters and its credit are free at once.
    """
    gateway = await serve(limits=Limits(body_readers=2))
    first, second = await _begun(gateway), await _begun(gateway)
    budgets = gateway.gateway.budgets
    assert (budgets.readers.held, budgets.readers.waiters) == (1, 1)

    assert second.transport is not None
    second.transport.abortConnection()  # type: ignore[attr-defined]
    await sleep(0.05)

    assert (budgets.readers.held, budgets.readers.waiters) == (1, 0)
    assert budgets.bodies.held == 1
    first.send(b"{}")
    await first.until(b"}}")
    assert is_free(gateway)


@asynchronous
async def test_waiters_are_bounded_by_connections(serve: Serve) -> None:
    """
    D29: `connections` is the bound of those that wait, too; one more is 429 at once.
    """
    gateway = await serve(limits=Limits(body_readers=1, connections=3))
    readers = gateway.gateway.budgets.readers
    assert readers.limit == 1
    waiting = [
        Deferred.fromCoroutine(readers.take(principal))
        for principal in (b"a", b"b", b"c", b"d")
    ]
    assert readers.waiters == 3

    with pytest.raises(Problem):
        await readers.take(b"e")

    for each in waiting:
        each.addCallback(lambda hold: hold.release())
    assert await gatherResults(waiting) == [None] * 4
