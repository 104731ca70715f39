"""
How a gateway ends: what is refused, what gets out, what is cut off (`http.md` §1, §10).
"""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.feeds import (
    CHAT,
    REQUESTS,
    body,
    eventually,
    feed,
    packet,
    text_of,
)
from tests.gateway.serving import ORIGIN, Serving, parsed, sleep
from twisted_aotx.gateway.closing import Closing, close_down
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def close(gateway: Serving) -> Deferred[None]:
    return Deferred.fromCoroutine(close_down(gateway.site))


@asynchronous
async def test_new_work_is_refused_from_the_first_moment(serve: Serve) -> None:
    """
    503 with Retry-After and close; not ready, but alive; each the connection's last.
    """
    gateway = await serve(limits=Limits(write_seconds=4))
    assert (await gateway.get("/readyz")).status == 200
    running = await gateway.connect()
    running.send(packet(CHAT, body()))
    await eventually(lambda: gateway.device.count(Operation.READ))

    ended = close(gateway)
    submits = gateway.device.count(Operation.SUBMIT)
    for sent, status, code in (
        (packet(CHAT, body()), 503, "service_closed"),
        (packet("/v1/models", method="GET"), 503, "service_closed"),
        (packet("/nowhere", method="GET"), 503, "service_closed"),
        (packet("/readyz", method="GET"), 503, "not_ready"),
    ):
        answer = parsed(await gateway.raw(sent))
        assert answer.problem == (status, code, None)
        assert answer.header("retry-after") == "1"
        assert answer.header("connection") == "close"
    answer = parsed(await gateway.raw(HEALTH))
    assert (answer.status, answer.header("connection")) == (200, "close")
    sent = packet(CHAT, body(), headers=f"Origin: {ORIGIN}\r\n")
    answer = parsed(await gateway.raw(sent))
    assert answer.header("access-control-allow-origin") == ORIGIN
    assert gateway.device.count(Operation.SUBMIT) == submits

    gateway.device.only.complete(b"done")
    answer = parsed(await running.closed)
    assert answer.json["choices"][0]["message"]["content"] == "done"
    assert answer.header("connection") == "close"
    await ended


@asynchronous
async def test_an_idle_gateway_ends_at_once(gateway: Serving) -> None:
    """
    Kept connections, silent ones, and a header that was begun.
    """
    kept, silent, begun = [await gateway.connect() for _ in range(3)]
    kept.send(HEALTH)
    await kept.until(b"ok")
    begun.send(b"GET /he")
    await sleep(0.05)
    began = time.monotonic()

    await close(gateway)

    assert time.monotonic() - began < 1
    assert len(gateway.site.connections) == 0
    assert await silent.closed == await begun.closed == b""
    assert (await kept.closed).endswith(b'{"status":"ok"}')


@asynchronous
async def test_native_streams_end_so_that_they_can_be_resumed(
    gateway: Serving,
) -> None:
    """
    At once, whole, without an error and without a terminal status; nothing is
    cancelled, and the last id goes on at another gateway.
    """
    made = (await gateway.post(REQUESTS, body())).json["id"]
    gateway.device.only.say(b"one")
    reading = await feed(gateway, f"{REQUESTS}/{made}/events")
    await reading.until(2)

    await close(gateway)
    await reading.ended

    assert [record.event for record in reading.records] == ["status", "emission"]
    assert reading.records[0].data["state"] == "running"
    assert reading.records[1].id == f"{made}:3"
    assert gateway.device.count(Operation.CANCEL) == 0


@asynchronous
async def test_a_stream_that_has_not_begun_is_refused(gateway: Serving) -> None:
    made = (await gateway.post(REQUESTS, body())).json["id"]
    held: Deferred[bytes | None] = Deferred()

    def hold(request: RequestHeader) -> Any:
        return held if request.operation == Operation.READ else NotImplemented

    gateway.device.before = hold
    raw = await gateway.connect()
    raw.send(packet(f"{REQUESTS}/{made}/events", method="GET"))
    await eventually(lambda: gateway.device.count(Operation.READ))

    await close(gateway)

    assert parsed(await raw.closed).problem == (503, "service_closed", None)


@asynchronous
async def test_answers_that_are_not_ready_in_time_are_refused(serve: Serve) -> None:
    """
    Before `write_seconds` are over: JSON gets its 503, a stream its error record.
    """
    gateway = await serve(limits=Limits(write_seconds=2))
    whole = await gateway.connect()
    whole.send(packet(CHAT, body()))
    await eventually(lambda: gateway.device.count(Operation.READ))
    gateway.device.only.say(b"some")
    streamed = await feed(gateway, CHAT, json=body(stream=True))
    await streamed.until(1)
    began = time.monotonic()

    await close(gateway)

    assert 1.2 < time.monotonic() - began < 2.2
    answer = parsed(await whole.closed)
    assert answer.problem == (503, "service_closed", None)
    assert answer.header("x-request-id")
    await streamed.ended
    assert streamed.records[-1].data["error"]["code"] == "service_closed"
    assert text_of(streamed.records) == ""
    assert set(gateway.gateway.budgets.held().values()) == {0}


@asynchronous
async def test_a_stream_may_end_in_time(serve: Serve) -> None:
    gateway = await serve(limits=Limits(write_seconds=4))
    streamed = await feed(gateway, CHAT, json=body(stream=True))
    await streamed.until(1)

    ended = close(gateway)
    await sleep(0.1)
    gateway.device.only.complete(b"hello")
    await streamed.ended

    assert text_of(streamed.records) == "hello"
    assert streamed.records[-1].data == "[DONE]"
    await ended


@asynchronous
async def test_what_is_not_taken_is_cut_off(serve: Serve) -> None:
    """
    A client that sends half a body, and one that reads nothing.
    """
    gateway = await serve(limits=Limits(write_seconds=1))
    half = await gateway.connect()
    half.send(packet(CHAT, body())[:-5])
    deaf = await gateway.connect()
    assert deaf.transport is not None
    deaf.transport.pauseProducing()  # type: ignore[attr-defined]
    deaf.send(packet("/openapi.json", method="GET") * 500)
    await sleep(0.2)
    began = time.monotonic()

    await close(gateway)

    assert time.monotonic() - began < 1.5
    assert len(gateway.site.connections) == 0
    assert set(gateway.gateway.budgets.held().values()) == {0}


def test_who_watches_is_told_once_and_may_stop() -> None:
    told: list[str] = []
    closing = Closing()
    closing.watch(lambda: told.append("a"))
    forget = closing.watch(lambda: told.append("b"))
    forget()
    forget()

    closing.begin()
    closing.begin()
    late = closing.watch(lambda: told.append("c"))
    late()

    assert told == ["a", "c"]
