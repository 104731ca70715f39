"""
The life of a call, with handlers made for it: what it holds, when that is freed, and
what becomes of whatever a handler does.
"""

from __future__ import annotations

from typing import cast

import pytest
from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.gateway.serving import TOKEN, Raw, Serving, parsed, serve_only, sleep
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal
from twisted_aotx.gateway.resource import Answer, Call
from twisted_aotx.gateway.stream import Stream

GET = f"GET /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
POST = (
    f"POST /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    'Content-Type: application/json\r\nContent-Length: 8\r\n\r\n{"a": 1}'
).encode()


class Held:
    """
    A handler that takes everything and waits until it is let go.
    """

    def __init__(self) -> None:
        self.letting_go: Deferred[None] = Deferred()
        self.call: Call | None = None
        self.body: object = None
        self.ended = False

    async def __call__(self, call: Call) -> Answer:
        self.call = call
        call.hold_work()
        self.body = await call.json()
        await self.letting_go
        self.ended = True
        return Answer(body={})


def held(gateway: Serving) -> tuple[int, int, int, int]:
    budgets = gateway.gateway.budgets
    return (
        budgets.work.held,
        budgets.bodies.held,
        budgets.body_credit.held,
        budgets.readers.held,
    )


async def sent(gateway: Serving, data: bytes) -> Raw:
    raw = await gateway.connect()
    raw.send(data)
    await sleep(0.03)
    return raw


def leave(raw: Raw) -> None:
    assert raw.transport is not None
    raw.transport.abortConnection()  # type: ignore[attr-defined]


@asynchronous
async def test_what_is_held_is_freed_with_the_answer(gateway: Serving) -> None:
    """
    http.md §3.
    """
    handler = Held()
    serve_only(gateway, handler)
    raw = await sent(gateway, POST)
    assert held(gateway) == (1, 1, 8, 0)
    assert handler.body == {"a": 1}

    handler.letting_go.callback(None)

    assert parsed(await raw.until(b"{}")).status == 200
    assert held(gateway) == (0, 0, 0, 0)


@asynchronous
async def test_what_is_held_is_freed_when_the_client_goes(gateway: Serving) -> None:
    """
    D20, http.md §6: at once, while the handler runs on to its end.
    """
    handler = Held()
    serve_only(gateway, handler)
    raw = await sent(gateway, POST)

    leave(raw)
    await sleep(0.03)

    assert held(gateway) == (0, 0, 0, 0)
    assert handler.call is not None
    assert handler.call.gone
    assert not handler.ended
    handler.letting_go.callback(None)
    assert handler.ended


@asynchronous
async def test_what_is_held_is_freed_when_a_handler_fails(gateway: Serving) -> None:
    async def fail(call: Call) -> Answer:
        call.hold_work()
        await call.json()
        raise invalid_field("x")

    serve_only(gateway, fail)

    answer = await gateway.post("/x", {"a": 1})

    assert answer.problem == (400, "invalid_field", "x")
    assert held(gateway) == (0, 0, 0, 0)


@asynchronous
async def test_what_is_taken_after_the_client_went_is_not_kept(
    gateway: Serving,
) -> None:
    waiting: Deferred[None] = Deferred()

    async def late(call: Call) -> Answer:
        await waiting
        call.hold_work()
        return Answer(body={})

    serve_only(gateway, late)
    raw = await sent(gateway, GET)
    leave(raw)
    await sleep(0.03)

    waiting.callback(None)

    assert held(gateway) == (0, 0, 0, 0)


@asynchronous
async def test_a_body_may_be_dropped_before_the_end(gateway: Serving) -> None:
    handler = Held()
    serve_only(gateway, handler)
    await sent(gateway, POST)

    assert handler.call is not None
    handler.call.drop_body()

    assert held(gateway) == (1, 0, 0, 0)
    handler.letting_go.callback(None)


@asynchronous
async def test_no_work_slot_left_is_429_at_once(gateway: Serving) -> None:
    """
    D29.
    """
    taken = gateway.gateway.budgets.work.take(gateway.settings.limits.work)

    async def work(call: Call) -> Answer:
        call.hold_work()
        return Answer(body={})

    serve_only(gateway, work)
    answer = await gateway.get("/x")
    assert answer.problem == (429, "transport_limit", None)
    assert answer.header("retry-after") == "1"
    # HEAD takes none (D15).
    assert (await gateway.request("HEAD", "/x")).status == 200

    taken.release()

    assert (await gateway.get("/x")).status == 200


@asynchronous
async def test_a_request_id_is_told_with_errors_too(gateway: Serving) -> None:
    async def named(call: Call) -> Answer:
        call.set_request_id("req-1")
        if call.txrequest.method == b"POST":
            raise refusal(ProblemCode.RESPONSE_TIMEOUT)
        return Answer(202, {})

    serve_only(gateway, named)

    for answer in (await gateway.get("/x"), await gateway.post("/x", {})):
        assert answer.header("x-request-id") == "req-1"


@asynchronous
async def test_answers_of_every_kind(gateway: Serving) -> None:
    """
    http.md §1: 204 has neither body nor content type.
    """
    answers = {
        "{}": Answer(body={}),
        '{"ä":"\u2028\\u0000"}': Answer(201, {"ä": "\u2028\0"}),
        "text": Answer(raw=b"text", content_type=b"text/plain"),
        "": Answer(204, headers=((b"X-Y", b"z"),)),
    }
    for content, answer in answers.items():

        async def give(_call: Call, answer: Answer = answer) -> Answer:
            return answer

        serve_only(gateway, give)
        got = await gateway.get("/x")
        assert (got.status, got.content.decode()) == (answer.status, content)
    assert got.header("content-type") is None
    assert got.header("content-length") is None
    assert got.header("x-y") == "z"


@asynchronous
async def test_an_answer_that_cannot_be_written_ends_the_connection(
    gateway: Serving,
) -> None:
    async def give(call: Call) -> Answer:
        call.hold_work()
        return Answer(body={"no": object()})

    serve_only(gateway, give)

    raw = await sent(gateway, GET)

    assert await raw.closed == b""
    assert held(gateway) == (0, 0, 0, 0)


class Streaming:
    """
    A handler whose stream the test drives.
    """

    def __init__(self) -> None:
        self.stream = cast(Stream, None)
        self.drains = 0
        self.done: Deferred[None] = Deferred()

    async def __call__(self, call: Call) -> None:
        call.hold_work()
        self.stream = call.start_stream()
        await self.done

    async def fill(self) -> None:
        for _ in range(100):
            self.stream.write(b"x" * 65536)
            await self.stream.drained()
            self.drains += 1


@asynchronous
async def test_a_stream_has_its_headers_at_once(gateway: Serving) -> None:
    """
    D23.
    """
    handler = Streaming()
    serve_only(gateway, handler)
    raw = await sent(gateway, GET)

    head = parsed(raw.received)
    assert head.status == 200
    assert head.header("content-type") == "text/event-stream"
    assert head.header("cache-control") == "no-store, no-transform"
    assert head.header("x-accel-buffering") == "no"
    assert head.header("x-content-type-options") == "nosniff"
    assert head.header("vary") == "Origin"
    assert head.header("content-length") is None

    handler.stream.write(b"data: 1\n\n")
    await raw.until(b"9\r\ndata: 1\n\n\r\n")
    handler.stream.finish()
    handler.stream.finish()
    handler.stream.write(b"late")
    handler.done.callback(None)
    received = await raw.until(b"0\r\n\r\n")
    assert b"late" not in received
    assert held(gateway) == (0, 0, 0, 0)
    assert not handler.stream.gone
    raw.send(GET.replace(b"/x", b"/y"))
    await raw.until(b"route_not_found")


@asynchronous
async def test_a_stream_on_head_is_its_headers(gateway: Serving) -> None:
    """
    D15, B65.
    """
    handler = Streaming()
    serve_only(gateway, handler)
    raw = await sent(gateway, GET.replace(b"GET", b"HEAD"))

    assert handler.stream.gone
    assert held(gateway) == (0, 0, 0, 0)
    handler.stream.write(b"data: 1\n\n")
    handler.stream.finish()
    handler.done.callback(None)
    assert parsed(raw.received).header("content-type") == "text/event-stream"
    assert raw.received.endswith(b"\r\n\r\n")
    assert b"data" not in raw.received


@asynchronous
async def test_http_1_0_gets_a_stream_without_chunks(gateway: Serving) -> None:
    """
    B77: the connection's end is the stream's.
    """
    handler = Streaming()
    serve_only(gateway, handler)
    raw = await sent(gateway, GET.replace(b"HTTP/1.1", b"HTTP/1.0"))

    handler.stream.write(b"data: 1\n\n")
    handler.stream.finish()
    handler.done.callback(None)

    answer = parsed(await raw.closed)
    assert answer.content == b"data: 1\n\n"
    assert answer.header("transfer-encoding") is None


@asynchronous
async def test_a_stream_waits_for_a_slow_client(gateway: Serving) -> None:
    """
    Reading ahead stops within a few hundred KiB, and goes on when the client reads.
    """
    handler = Streaming()
    serve_only(gateway, handler)
    raw = await sent(gateway, GET)
    assert raw.transport is not None
    raw.transport.pauseProducing()  # type: ignore[attr-defined]
    filling = Deferred.fromCoroutine(handler.fill())
    await sleep(0.2)
    stopped_at = handler.drains
    assert stopped_at < 100
    await sleep(0.1)
    assert handler.drains == stopped_at

    raw.transport.resumeProducing()  # type: ignore[attr-defined]
    await filling

    assert handler.drains == 100
    handler.stream.finish()
    handler.done.callback(None)
    received = await raw.until(b"0\r\n\r\n")
    assert received.count(b"x") >= 100 * 65536


@asynchronous
@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_stream_knows_when_its_client_went(
    gateway: Serving, is_slow: bool
) -> None:
    """
    Also while it waits for it: nobody waits for ever, and the slot is freed.
    """
    handler = Streaming()
    serve_only(gateway, handler)
    raw = await sent(gateway, GET)
    assert raw.transport is not None
    if is_slow:
        raw.transport.pauseProducing()  # type: ignore[attr-defined]
    filling = Deferred.fromCoroutine(handler.fill())
    await sleep(0.1)
    assert held(gateway) == (1, 0, 0, 0)

    leave(raw)
    await filling
    await sleep(0.03)

    assert handler.stream.gone
    assert held(gateway) == (0, 0, 0, 0)
    handler.stream.write(b"x")
    handler.stream.finish()
    handler.done.callback(None)
