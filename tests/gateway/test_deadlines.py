"""
How many connections there may be, and how long each may take (D14, D16).
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import DeviceScript
from tests.gateway.feeds import CHAT, REQUESTS, body, eventually, packet
from tests.gateway.serving import TOKEN, Raw, Serving, parsed, sleep
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import Answer
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader

HOST = b"Host: x\r\n"
AUTH = HOST + b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
JSON = AUTH + b"Content-Type: application/json\r\n"
CANCEL = b"POST /aotx/v1/requests/req-%016x-%032x/cancel HTTP/1.1\r\n" % (7, 9)
END = b"\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST + END
OK = b'{"status":"ok"}'


async def trickle(raw: Raw, data: bytes, pause: float = 0.05) -> float:
    """
    Send *data* byte by byte until the gateway closes; seconds until then.
    """
    for number, byte in enumerate(data):
        if raw.closed.called:
            return number * pause
        raw.send(bytes([byte]))
        await sleep(pause)
    raise AssertionError("the gateway took all of it")


# --- headers -----------------------------------------------------------------


@asynchronous
@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX: y"])
async def test_a_header_that_never_ends_is_closed_without_bytes(
    serve: Serve, sent: bytes
) -> None:
    """
    cases H 133, D16: `header_seconds` from accept.
    """
    gateway = await serve(limits=Limits(header_seconds=1))
    raw = await gateway.connect()
    raw.send(sent)
    await sleep(0.8)
    assert not raw.closed.called

    await sleep(0.4)

    assert await raw.closed == b""
    assert len(gateway.site.connections) == 0


@asynchronous
async def test_a_header_that_trickles_has_one_deadline(serve: Serve) -> None:
    """
    cases H 133, D16: no byte moves it, neither in a line nor in many.
    """
    gateway = await serve(limits=Limits(header_seconds=1))
    for data in (b"GET /" + b"x" * 90, HEALTH[:-2] + b"X: y\r\n" * 20):
        raw = await gateway.connect()
        seconds = await trickle(raw, data)
        assert 0.5 < seconds < 3
        assert await raw.closed == b""


@asynchronous
async def test_a_next_header_has_a_deadline_from_its_first_byte(serve: Serve) -> None:
    """
    D14, D16: silence between requests is not counted, a begun header is.
    """
    gateway = await serve(limits=Limits(header_seconds=1))
    raw = await gateway.connect()
    for _ in range(2):
        raw.send(HEALTH)
        await sleep(1.2)
    assert raw.received.count(OK) == 2
    assert not raw.closed.called

    received = raw.received
    await trickle(raw, HEALTH[:-2] + b"X: y\r\n" * 20)
    assert await raw.closed == received


@asynchronous
async def test_a_header_begun_behind_a_request_has_a_deadline_too(
    serve: Serve,
) -> None:
    """
    D16: pipelined in one segment, behind answers that come at once and that come late.
    """
    device = DeviceScript()
    gateway = await serve(device, limits=Limits(header_seconds=1))
    models = b"GET /v1/models HTTP/1.1\r\n" + AUTH + END
    for first in (HEALTH, models, CANCEL + JSON + b"Content-Length: 2\r\n\r\n{}"):
        raw = await gateway.connect()
        raw.send(first + b"GET / HTT")
        await sleep(0.7)
        assert not raw.closed.called
        await sleep(0.5)
        assert (await raw.closed).count(b"HTTP/1.1 ") == 1


@asynchronous
async def test_a_request_that_takes_long_is_not_a_slow_header(serve: Serve) -> None:
    device = DeviceScript()
    gateway = await serve(device, limits=Limits(header_seconds=1), idle_seconds=1)
    device.before = lambda request: _late(device, request, 1.5)
    raw = await gateway.connect()
    raw.send(b"GET /v1/models HTTP/1.1\r\n" + AUTH + END)

    await raw.until(b"}")

    assert parsed(raw.received).status == 200


# --- how many ----------------------------------------------------------------


@asynchronous
async def test_half_open_connections_take_all_places_until_they_time_out(
    serve: Serve,
) -> None:
    """
    cases H 134: connections = 2, and a third is closed at once, without bytes.
    """
    gateway = await serve(limits=Limits(connections=2, header_seconds=1))
    first, second = await gateway.connect(), await gateway.connect()
    first.send(b"GET / HT")
    await sleep(0.05)
    third = await gateway.connect()
    assert await third.closed == b""
    assert not first.closed.called

    await sleep(1.2)

    assert await first.closed == await second.closed == b""
    assert (await gateway.get("/healthz")).status == 200


@asynchronous
async def test_the_longest_idle_connection_gives_way(serve: Serve) -> None:
    """
    http.md §1: a kept one, not one that is served or never sent a request.
    """
    gateway = await serve(limits=Limits(connections=4))
    silent = await gateway.connect()
    kept = [await gateway.connect() for _ in range(3)]
    for raw in (kept[1], kept[0], kept[2], kept[1]):
        raw.send(HEALTH)
        await raw.until(OK)
        await sleep(0.02)
    # Idle since, in this order: 0, 2, 1.
    gone = []
    for _ in range(3):
        raw = await gateway.connect()
        raw.send(b"GET")
        await sleep(0.05)
        gone.append([each.closed.called for each in kept])
        assert not raw.closed.called
    assert gone == [[True, False, False], [True, False, True], [True, True, True]]

    last = await gateway.connect()
    assert await last.closed == b""
    assert not silent.closed.called
    assert len(gateway.site.connections) == 4


@asynchronous
async def test_a_connection_that_is_served_does_not_give_way(serve: Serve) -> None:
    device = DeviceScript()
    gateway = await serve(device, limits=Limits(connections=1))
    device.before = lambda request: _late(device, request, 0.3)
    raw = await gateway.connect()
    raw.send(b"GET /v1/models HTTP/1.1\r\n" + AUTH + END)
    await sleep(0.05)

    other = await gateway.connect()

    assert await other.closed == b""
    await raw.until(b"}")
    other = await gateway.connect()
    other.send(HEALTH)
    await other.until(OK)
    assert raw.closed.called


@asynchronous
async def test_many_at_once_take_exactly_the_places_there_are(serve: Serve) -> None:
    """
    In one burst: as many kept ones give way as new ones come, and no more.
    """
    gateway = await serve(limits=Limits(connections=8))
    kept = [await gateway.connect() for _ in range(8)]
    for raw in kept:
        raw.send(HEALTH)
        await raw.until(OK)
    burst = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(5)]
    await sleep(0.2)

    assert [raw.closed.called for raw in kept] == [True] * 5 + [False] * 3
    assert len(gateway.site.connections) == 8
    for each in burst:
        each.close()


# --- idle --------------------------------------------------------------------


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
        device.before = lambda request: _late(device, request, 0.6)
        raw = await gateway.connect()
        raw.send(head)
        await raw.until(b"}")
        assert not raw.closed.called
        # The connection is kept, and idle time runs again.
        await sleep(0.5)
        assert raw.closed.called


# --- slow readers ------------------------------------------------------------


async def reader_of_nothing(gateway: Serving, sent: bytes) -> Raw:
    """
    A client that sends *sent* and takes no byte of what comes.
    """
    raw = await gateway.connect()
    assert raw.transport is not None
    raw.transport.pauseProducing()  # type: ignore[attr-defined]
    raw.send(sent)
    return raw


@asynchronous
async def test_a_client_that_takes_no_answers_is_cut_off(serve: Serve) -> None:
    """
    http.md §1: a write not taken in `write_seconds` aborts the socket.
    """
    gateway = await serve(limits=Limits(write_seconds=1))
    ask = b"GET /v1/models HTTP/1.1\r\n" + AUTH + END
    await reader_of_nothing(gateway, ask * 20_000)

    await eventually(lambda: not gateway.site.connections, 6)


@asynchronous
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reader_of_nothing_costs_a_slot_for_write_seconds(
    serve: Serve, stream: bool
) -> None:
    """
    cases H 136, B63: 16 MiB of JSON or of events; no CANCEL, the request is readable.
    """
    device = DeviceScript()
    device.information = _with_output(device, 16 << 20)
    device.on_submit = lambda request: request.complete(b"x" * (16 << 20))
    gateway = await serve(device, limits=Limits(write_seconds=1))
    await reader_of_nothing(gateway, packet(CHAT, body(stream=stream)))
    await eventually(lambda: gateway.gateway.budgets.work.held == 1)

    await eventually(lambda: not gateway.site.connections, 8)

    assert set(gateway.gateway.budgets.held().values()) == {0}
    assert device.count(Operation.CANCEL) == 0
    ((_, request_id),) = device.requests
    answer = await gateway.get(f"{REQUESTS}/req-{device.epoch:016x}-{request_id.hex()}")
    assert answer.json["state"] == "completed"
    assert answer.json["output"]["total_bytes"] == str(16 << 20)


@asynchronous
async def test_a_reader_that_is_only_slow_gets_all_of_a_large_answer(
    serve: Serve,
) -> None:
    """
    http.md §1: every write has `write_seconds`, not the whole answer.
    """
    device = DeviceScript()
    device.information = _with_output(device, 4 << 20)
    device.on_submit = lambda request: request.complete(b"x" * (4 << 20))
    gateway = await serve(device, limits=Limits(write_seconds=1))
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    reader.connect(("127.0.0.1", gateway.port))
    reader.setblocking(False)
    reader.send(packet(CHAT, body()))
    received = bytearray()
    pauses = 0
    while not received.endswith(b"}}"):
        await sleep(0.01)
        for _ in range(2):
            with contextlib.suppress(BlockingIOError):
                received += reader.recv(16 << 10)
        pauses += 1
        assert gateway.site.connections or not received, "it was cut off"
    reader.close()

    assert pauses > 110, "not slower than write_seconds"
    answer = parsed(bytes(received))
    assert answer.json["choices"][0]["message"]["content"] == "x" * (4 << 20)


def _with_output(device: DeviceScript, output_bytes: int) -> Any:
    return attrs.evolve(device.information, output_bytes=output_bytes)


@asynchronous
async def test_no_request_makes_a_timer(gateway: Serving) -> None:
    """
    One sweep for each kind of deadline, however many connections and requests.
    """
    clock = cast(Any, gateway.gateway.reactor)
    raws = [await gateway.connect() for _ in range(10)]
    before = len(clock.getDelayedCalls())
    for raw in raws:
        raw.send(CANCEL + JSON + b"Content-Length: 9\r\n\r\n")
    await eventually(lambda: gateway.gateway.budgets.readers.waiters == 6)
    assert len(clock.getDelayedCalls()) <= before + 3
    for raw in raws:
        raw.send(b"{}       ")
    for raw in raws:
        await raw.until(b"}}")
    assert len(clock.getDelayedCalls()) <= before + 5


def _late(
    device: DeviceScript, request: RequestHeader, seconds: float
) -> Deferred[Answer]:
    async def answer() -> Answer:
        await sleep(seconds)
        reply = device(request, b"")
        assert not isinstance(reply, Deferred)
        return reply

    device.before = lambda _: NotImplemented
    return Deferred.fromCoroutine(answer())
