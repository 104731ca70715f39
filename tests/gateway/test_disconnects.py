"""
Clients that go away in the midst of it (D20, B01), and what may happen at once.
"""

from __future__ import annotations

import base64
import random
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.clocks import standing_clock
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, INFORMATION, DeviceScript
from tests.gateway.feeds import CHAT, REQUESTS, body, eventually, feed, packet
from tests.gateway.serving import Raw, Serving, sleep
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import TERMINAL_PHASES, Operation, Phase

WAYS = pytest.mark.parametrize("stream", [False, True])
RULES = pytest.mark.parametrize("disconnect", ["detach", "cancel"])


def abort(raw: Raw) -> None:
    cast(Any, raw.transport).abortConnection()


def close(raw: Raw) -> None:
    cast(Any, raw.transport).loseConnection()


async def settled(gateway: Serving) -> None:
    """
    Wait until nothing is held, and then until nothing more can come.
    """
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    await sleep(0.15)


async def running(gateway: Serving, *, stream: bool) -> Raw:
    """
    A client whose completion is being read.
    """
    raw = await gateway.connect()
    raw.send(packet(CHAT, body(stream=stream)))
    await eventually(lambda: gateway.device.count(Operation.READ) >= 2)
    return raw


@WAYS
@RULES
@pytest.mark.parametrize("leave", [abort, close])
@asynchronous
async def test_a_client_that_leaves_detaches_or_cancels(
    serve: Serve, stream: bool, disconnect: str, leave: Any
) -> None:
    """
    D20, B01: alike for both forms; CANCEL of exactly that request, once.
    """
    gateway = await serve(disconnect=disconnect)
    other = await gateway.post(REQUESTS, body("another's"))
    raw = await running(gateway, stream=stream)

    leave(raw)
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    await sleep(0.15)
    reads = gateway.device.count(Operation.READ)
    await sleep(0.15)

    first, mine = gateway.device.requests.values()
    cancels = [h.id for h, _ in gateway.peer.requests if h.operation == 5]
    ids = [request_id for _, request_id in gateway.device.requests]
    assert other.json["id"].endswith(ids[0].hex())
    assert first.phase == Phase.QUEUED
    assert gateway.device.count(Operation.READ) == reads
    if disconnect == "cancel":
        assert cancels == [ids[1]]
        assert (mine.phase, mine.cancel, mine.status) == (Phase.CANCELLED, 1, 409)
    else:
        assert cancels == []
        assert mine.phase == Phase.QUEUED
        handle = f"req-{EPOCH:016x}-{ids[1].hex()}"
        mine.complete(b"late")
        status = await gateway.get(f"{REQUESTS}/{handle}")
        assert status.json["state"] == "completed"


@WAYS
@RULES
@asynchronous
async def test_leaving_during_submit(
    serve: Serve, stream: bool, disconnect: str
) -> None:
    """
    SUBMIT is awaited, so that the request it made is the one cancelled.
    """
    gateway = await serve(disconnect=disconnect)
    answering: list[Deferred[bytes]] = []

    def hold(request: Any) -> Any:
        if request.operation != Operation.SUBMIT:
            return NotImplemented
        answering.append(Deferred())
        return answering[0].addCallback(
            lambda _: reply_to(request, 202, epoch=EPOCH, phase=1)
        )

    gateway.device.before = hold
    raw = await gateway.connect()
    raw.send(packet(CHAT, body(stream=stream)))
    await eventually(lambda: answering)

    abort(raw)
    await sleep(0.05)
    assert gateway.device.count(Operation.CANCEL) == 0
    answering[0].callback(b"")
    if disconnect == "cancel":
        await eventually(lambda: gateway.device.count(Operation.CANCEL))
    await settled(gateway)

    assert gateway.device.count(Operation.CANCEL) == (disconnect == "cancel")
    submits = [h.id for h, _ in gateway.peer.requests if h.operation == 3]
    cancels = [h.id for h, _ in gateway.peer.requests if h.operation == 5]
    assert cancels in ([], submits)


@WAYS
@RULES
@asynchronous
async def test_leaving_before_submit(
    serve: Serve, stream: bool, disconnect: str
) -> None:
    """
    Nobody waits, so nothing is submitted.
    """
    gateway = await serve(disconnect=disconnect)
    answering: list[Deferred[bytes]] = []

    def hold(request: Any) -> Any:
        answering.append(Deferred())
        packed = gateway.device.information.pack()
        return answering[0].addCallback(
            lambda _: reply_to(request, 200, packed, epoch=EPOCH)
        )

    gateway.device.before = hold
    raw = await gateway.connect()
    raw.send(packet(CHAT, body(stream=stream)))
    await eventually(lambda: answering)

    abort(raw)
    await sleep(0.05)
    answering[0].callback(b"")
    await settled(gateway)

    assert gateway.device.operations == [Operation.INFO]


@asynchronous
async def test_leaving_and_the_first_read_at_once(serve: Serve) -> None:
    """
    The reply comes after the client went and before the work was stopped for it.
    """
    gateway = await serve(disconnect="cancel")
    answering: list[Deferred[bytes]] = []

    def hold(request: Any) -> Any:
        if request.operation != Operation.READ:
            return NotImplemented
        answering.append(Deferred())
        return answering[0].addCallback(
            lambda _: reply_to(request, 200, b"x", epoch=EPOCH, phase=3, total_bytes=1)
        )

    gateway.device.before = hold
    # On this clock nothing is stopped before it is set forward.
    clock = gateway.gateway.reactor = standing_clock()
    raw = await gateway.connect()
    raw.send(packet(CHAT, body(stream=True)))
    await eventually(lambda: answering)
    abort(raw)
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)

    answering[0].callback(b"")
    await eventually(lambda: gateway.device.count(Operation.CANCEL) == 1)

    assert clock.getDelayedCalls() == []


@WAYS
@asynchronous
async def test_a_failed_cancel_is_the_device_s_to_end(
    serve: Serve, stream: bool
) -> None:
    """
    No operation is tried again; the gateway goes on.
    """
    gateway = await serve(disconnect="cancel")
    gateway.device.before = lambda request: (
        reply_to(request, 429, epoch=EPOCH)
        if request.operation == Operation.CANCEL
        else NotImplemented
    )
    raw = await running(gateway, stream=stream)

    abort(raw)
    await settled(gateway)
    gateway.device.on_submit = lambda request: request.complete(b"next")
    after = await gateway.post(CHAT, body())

    assert gateway.device.count(Operation.CANCEL) == 1
    assert after.status == 200


@WAYS
@asynchronous
async def test_an_answer_that_was_given_is_not_cancelled(
    serve: Serve, stream: bool
) -> None:
    """
    A client that leaves after its answer takes nothing back.
    """
    gateway = await serve(disconnect="cancel")
    gateway.device.on_submit = lambda request: request.complete(b"all of it")
    raw = await gateway.connect()
    raw.send(packet(CHAT, body(stream=stream)))
    await raw.until(b"all of it")
    if stream:
        await raw.until(b"0\r\n\r\n")

    abort(raw)
    await settled(gateway)

    assert gateway.device.count(Operation.CANCEL) == 0


@WAYS
@RULES
@pytest.mark.parametrize("seed", range(6))
@asynchronous
async def test_leaving_at_any_moment_leaves_nothing_behind(
    serve: Serve, stream: bool, disconnect: str, seed: int
) -> None:
    """
    B07 in small: ten clients that leave while their requests end; then all is free.
    """
    gateway = await serve(disconnect=disconnect, limits=Limits(work=10))
    chance = random.Random(seed)

    def progress(request: Any) -> None:
        if chance.random() < 0.3:
            request.complete(b"end")
        else:
            request.say(b"more ")

    gateway.device.on_read = progress
    raws = []
    for _ in range(10):
        raw = await gateway.connect()
        raw.send(packet(CHAT, body(stream=stream)))
        raws.append(raw)
    for raw in raws:
        await sleep(chance.random() * 0.01)
        abort(raw)
    await settled(gateway)

    budgets = gateway.gateway.budgets
    submitted = {h.id for h, _ in gateway.peer.requests if h.operation == 3}
    cancels = [h.id for h, _ in gateway.peer.requests if h.operation == 5]
    assert (budgets.work.held, budgets.body_credit.held, budgets.bodies.held) == (
        0,
    ) * 3
    assert set(cancels) <= submitted
    assert len(cancels) == len(set(cancels))
    if disconnect == "detach":
        assert cancels == []
    else:
        assert all(
            request.phase in TERMINAL_PHASES or request.cancel
            for request in gateway.device.requests.values()
        )
    after = await gateway.post(CHAT, body())
    assert after.status == 200


@asynchronous
async def test_native_requests_never_notice(serve: Serve) -> None:
    """
    D20: neither a submitter nor a reader that leaves cancels native work.
    """
    gateway = await serve(disconnect="cancel")
    admitted = await gateway.post(REQUESTS, body())
    read = await feed(gateway, f"{REQUESTS}/{admitted.json['id']}/events")
    await read.until(1)

    read.leave()
    await settled(gateway)

    assert gateway.device.count(Operation.CANCEL) == 0
    assert gateway.device.only.phase == Phase.QUEUED


@pytest.mark.parametrize("native", [False, True])
@asynchronous
async def test_a_client_that_reads_nothing(serve: Serve, native: bool) -> None:
    """
    Nothing is read ahead for it; it is dropped after write_seconds, its slot is freed,
    and the request stays readable (cases H 136).
    """
    gateway = await serve(limits=Limits(write_seconds=1))
    gateway.device.on_submit = lambda request: request.say(b"z" * 200_000)
    gateway.device.on_read = lambda request: setattr(
        request,
        "output",
        request.output if len(request.output) > 9e6 else request.output + b"z" * 50_000,
    )
    gateway.device.information = _wide(gateway)
    raw = await gateway.connect()
    cast(Any, raw.transport).pauseProducing()
    if native:
        handle = (await gateway.post(REQUESTS, body())).json["id"]
        raw.send(packet(f"{REQUESTS}/{handle}/events", method="GET"))
    else:
        raw.send(packet(CHAT, body(stream=True)))
    await eventually(lambda: gateway.gateway.budgets.work.held == 1)
    await sleep(0.5)
    reads = gateway.device.count(Operation.READ)
    await sleep(0.2)

    assert gateway.device.count(Operation.READ) == reads
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    assert gateway.device.count(Operation.CANCEL) == 0
    ((_, request_id),) = gateway.device.requests
    status = await gateway.get(f"{REQUESTS}/req-{EPOCH:016x}-{request_id.hex()}")
    assert status.json["state"] == "running"
    abort(raw)


def _wide(gateway: Serving) -> Any:
    return attrs.evolve(gateway.device.information, output_bytes=10_000_000)


@pytest.mark.parametrize("native", [False, True])
@asynchronous
async def test_a_client_that_left_has_no_timers(serve: Serve, native: bool) -> None:
    """
    Neither keep-alive nor deadline nor pause outlives the stream.
    """
    gateway = await serve(ping_seconds=15)
    path = f"{REQUESTS}/{(await gateway.post(REQUESTS, body())).json['id']}/events"
    clock = standing_clock()
    gateway.gateway.reactor = clock
    asked = {} if native else {"json": body(stream=True)}
    read = await feed(gateway, path if native else CHAT, **asked)
    await read.until(1)
    await eventually(lambda: len(clock.getDelayedCalls()) == 3)

    read.leave()
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    clock.advance(0)

    assert clock.getDelayedCalls() == []


@asynchronous
async def test_a_client_that_takes_nothing_is_not_kept_alive(serve: Serve) -> None:
    """
    What waits for it stays bounded: keep-alive lines are not added to it.
    """
    output = b"q" * 2_000_000
    device = DeviceScript(attrs.evolve(INFORMATION, output_bytes=len(output)))
    device.on_submit = lambda request: request.complete(output)
    gateway = await serve(device, ping_seconds=15)
    handle = (await gateway.post(REQUESTS, body())).json["id"]
    clock = standing_clock()
    gateway.gateway.reactor = clock
    raw = await gateway.connect()
    cast(Any, raw.transport).pauseProducing()
    raw.send(packet(f"{REQUESTS}/{handle}/events", method="GET"))
    await eventually(lambda: gateway.device.count(Operation.READ) > 0)
    await sleep(0.2)

    for _ in range(10):
        clock.advance(15)
    cast(Any, raw.transport).resumeProducing()
    await raw.until(b'"completed"')

    assert raw.received.count(b"cXFxcXFxcXFx") > 0
    assert b": ping" not in raw.received


@asynchronous
async def test_a_slow_reader_gets_everything(gateway: Serving) -> None:
    """
    A reader that stops and goes on loses nothing.
    """
    output = bytes(range(256)) * 4000
    gateway.device.on_submit = lambda request: request.complete(output)
    gateway.device.information = _wide(gateway)
    handle = (await gateway.post(REQUESTS, body())).json["id"]
    read = await feed(gateway, f"{REQUESTS}/{handle}/events")
    transport = cast(Any, read.transport)
    transport.pauseProducing()
    await sleep(0.3)
    reads = gateway.device.count(Operation.READ)
    assert reads * 65408 < len(output)

    transport.resumeProducing()
    await read.ended

    pieces = [r.data["bytes"] for r in read.records if r.event == "emission"]
    assert b"".join(map(base64.b64decode, pieces)) == output
    assert read.records[-1].data["state"] == "completed"
