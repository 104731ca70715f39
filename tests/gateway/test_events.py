"""
The events of a native request (cases J, `http.md` §6).
"""

from __future__ import annotations

import base64
import itertools
import random
from typing import Any

import pytest

from tests.asynchronous import asynchronous
from tests.clocks import standing_clock
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, Running
from tests.gateway.feeds import Record, eventually, feed, stream
from tests.gateway.serving import Serving, sleep
from tests.gateway.test_requests import UNKNOWN, submitted
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation, Phase


def bytes_of(records: list[Record]) -> bytes:
    """
    The joined emissions; fails unless they follow each other without a gap.
    """
    pieces = [r.data for r in records if r.event == "emission"]
    for before, after in itertools.pairwise(pieces):
        assert before["next_cursor"] == after["offset"]
    for record in records:
        if record.event == "emission":
            size = len(base64.b64decode(record.data["bytes"]))
            assert int(record.data["offset"]) + size == int(record.data["next_cursor"])
            assert (
                record.id == f"{record.data['request_id']}:{record.data['next_cursor']}"
            )
        else:
            assert record.id is None
    return b"".join(base64.b64decode(piece["bytes"]) for piece in pieces)


def states(records: list[Record]) -> list[tuple[str, bool, int]]:
    """
    What the status events told.
    """
    return [
        (r.data["state"], r.data["cancel_requested"], r.data["status"])
        for r in records
        if r.event == "status"
    ]


@asynchronous
async def test_events_have_exactly_this_shape(gateway: Serving) -> None:
    path = await submitted(gateway)
    handle = path.rpartition("/")[2]
    read = await feed(gateway, f"{path}/events")
    await read.until(1)
    gateway.device.only.complete(b"\xff\x00\n", finish=2)
    await read.ended

    queued, emission, end = read.records
    shared = {
        "schema": "aotx.request.v1",
        "id": handle,
        "runtime_epoch": str(EPOCH),
        "model_role": 2,
        "cancel_requested": False,
        "status": 0,
        "persistence": "ephemeral",
    }
    none = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert queued == Record(
        "status",
        None,
        shared | {"state": "queued", "usage": none, "finish_reason": None},
    )
    assert emission == Record(
        "emission",
        f"{handle}:3",
        {
            "schema": "aotx.emission.v1",
            "request_id": handle,
            "runtime_epoch": str(EPOCH),
            "source_kind": "model",
            "model_role": 2,
            "offset": "0",
            "next_cursor": "3",
            "encoding": "base64",
            "bytes": "/wAK",
        },
    )
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    assert end == Record(
        "status",
        None,
        shared | {"state": "completed", "usage": usage, "finish_reason": "length"},
    )
    header = read.response.headers.getRawHeaders
    assert header("x-request-id") == [handle]
    assert header("cache-control") == ["no-store, no-transform"]
    assert header("x-accel-buffering") == ["no"]
    assert b"DONE" not in read.raw


@asynchronous
async def test_a_status_for_each_change_and_one_at_the_end(gateway: Serving) -> None:
    path = await submitted(gateway)
    request = gateway.device.only
    read = await feed(gateway, f"{path}/events")
    await read.until(1)
    request.phase = Phase.PREPARING
    await read.until(2)
    request.say(b"a")
    await read.until(4)
    request.say(b"b")
    await read.until(5)
    request.cancel, request.status = 1, 409
    await read.until(6)
    request.phase = Phase.CANCELLED
    request.output += b"c"
    await read.ended

    assert states(read.records) == [
        ("queued", False, 0),
        ("preparing", False, 0),
        ("running", False, 0),
        ("running", True, 409),
        ("cancelled", True, 409),
    ]
    assert bytes_of(read.records) == b"abc"
    assert read.records[-1].event == "status"
    assert read.records[-2].event == "emission"


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (Phase.COMPLETED, "completed"),
        (Phase.FAILED, "failed"),
        (Phase.CANCELLED, "cancelled"),
    ],
)
@asynchronous
async def test_an_ended_request_tells_its_end_once(
    gateway: Serving, phase: int, state: str
) -> None:
    """
    cases J 151: cursor = total on finished gives one status event.
    """
    path = await submitted(gateway)
    gateway.device.only.say(b"x" * 70_000)
    gateway.device.only.phase = phase

    whole = await stream(gateway, f"{path}/events")
    last = await stream(gateway, f"{path}/events?cursor=70000")

    assert [s[0] for s in states(whole)] == [state]
    assert whole[-1].event == "status"
    assert bytes_of(whole) == b"x" * 70_000
    assert [record.event for record in last] == ["status"]
    assert last[0].data == whole[-1].data


@asynchronous
async def test_resumed_anywhere_the_bytes_are_the_same(gateway: Serving) -> None:
    """
    B19, B21, B27: by cursor or Last-Event-ID, as often as wanted.
    """
    output = bytes(range(256))
    path = await submitted(gateway)
    handle = path.rpartition("/")[2]
    gateway.device.only.complete(output)

    for cursor in range(0, 257, 8):
        last = {"Last-Event-ID": f"{handle}:{cursor}"}
        by_query = await stream(gateway, f"{path}/events?cursor={cursor}")
        by_header = await stream(gateway, f"{path}/events", headers=last)
        again = await stream(gateway, f"{path}/events", headers=last)
        assert bytes_of(by_query) == output[cursor:]
        assert by_query == by_header == again


@pytest.mark.parametrize("seed", range(4))
@asynchronous
async def test_resumed_in_the_midst_the_whole_is_exact(
    gateway: Serving, seed: int
) -> None:
    """
    A reader that drops and resumes at the last id it saw, while the output grows.
    """
    chance = random.Random(seed)
    output = chance.randbytes(3000)
    at = 0

    def grow(request: Running) -> None:
        nonlocal at
        size = chance.randint(0, 120)
        request.say(output[at : at + size])
        at += size
        if at >= len(output):
            request.complete(b"")

    path = await submitted(gateway)
    gateway.device.on_read = grow
    seen: list[Record] = []
    while not seen or seen[-1].data.get("state") != "completed":
        emissions = [r for r in seen if r.event == "emission"]
        last = {"Last-Event-ID": emissions[-1].id} if emissions else {}
        read = await feed(gateway, f"{path}/events", headers=last)
        await sleep(chance.random() * 0.05)
        read.leave()
        seen += read.records

    assert bytes_of(seen) == output
    assert gateway.device.count(Operation.CANCEL) == 0


@pytest.mark.parametrize(
    "last",
    [
        f"{UNKNOWN[:-1]}0:1",
        UNKNOWN,
        f"{UNKNOWN}:",
        f"{UNKNOWN}:-1",
        f"{UNKNOWN}:1.5",
        f"{UNKNOWN}:{2**64}",
        f"{UNKNOWN}:{'0' * 21}",
        f"{UNKNOWN}:1:1",
        f"{UNKNOWN.upper()}:1",
        f" {UNKNOWN} :1",
        "5",
        ":5",
        "é:5",
        "*",
    ],
)
@asynchronous
async def test_a_last_event_id_of_another_form(gateway: Serving, last: str) -> None:
    """
    cases J 151, B19: another handle is refused, the device is not asked.
    """
    answer = await gateway.get(
        f"/aotx/v1/requests/{UNKNOWN}/events",
        headers={"Last-Event-ID": last.encode()},
    )

    assert answer.problem == (400, "invalid_field", "Last-Event-ID")
    assert gateway.device.operations == []
    assert gateway.gateway.budgets.work.held == 0


@asynchronous
async def test_one_position_at_a_time(gateway: Serving) -> None:
    """
    cases J 151: cursor and Last-Event-ID exclude each other; an empty header is none.
    """
    path = await submitted(gateway)
    handle = path.rpartition("/")[2]
    gateway.device.only.complete(b"abc")

    both = await gateway.get(
        f"{path}/events?cursor=1", headers={"Last-Event-ID": f"{handle}:1"}
    )
    empty = await stream(
        gateway, f"{path}/events?cursor=1", headers={"Last-Event-ID": ""}
    )
    most = await gateway.get(
        f"{path}/events", headers={"Last-Event-ID": f"{handle}:{2**64 - 1}"}
    )

    assert both.problem == (400, "invalid_field", "Last-Event-ID")
    assert bytes_of(empty) == b"bc"
    assert most.problem == (409, "device_refused", None)


@asynchronous
async def test_beyond_the_end_there_is_no_stream(gateway: Serving) -> None:
    """
    cases J 151: DEV 409 before the stream starts; so also of a running request.
    """
    path = await submitted(gateway)
    gateway.device.only.say(b"abc")

    running = await gateway.get(f"{path}/events?cursor=4")
    gateway.device.only.complete(b"")
    ended = await gateway.get(f"{path}/events?cursor=4")

    assert running.problem == ended.problem == (409, "device_refused", None)
    assert gateway.gateway.budgets.work.held == 0


@asynchronous
async def test_an_error_in_the_midst_is_an_event(gateway: Serving) -> None:
    path = await submitted(gateway)
    read = await feed(gateway, f"{path}/events")
    await read.until(1)

    gateway.device.before = lambda request: reply_to(request, 404, epoch=EPOCH)
    await read.ended

    error = read.records[-1]
    assert (error.event, error.id) == ("error", None)
    assert error.data["error"]["code"] == "device_refused"
    assert states(read.records) == [("queued", False, 0)]


@asynchronous
async def test_a_stream_has_its_time(serve: Serve) -> None:
    """
    http.md §6: over operation_seconds 504 `operation_timeout`, as an event.
    """
    gateway = await serve(limits=Limits(operation_seconds=7))
    path = await submitted(gateway)
    clock = standing_clock()
    gateway.gateway.reactor = clock
    read = await feed(gateway, f"{path}/events")
    await read.until(1)

    clock.advance(6.99)
    await sleep(0.05)
    assert not read.ended.called
    clock.advance(0.02)
    await read.ended

    assert read.records[-1].event == "error"
    assert read.records[-1].data["error"]["code"] == "operation_timeout"
    assert clock.getDelayedCalls() == []
    assert gateway.device.count(Operation.CANCEL) == 0
    after = await gateway.get(path)
    assert after.json["state"] == "queued"


@asynchronous
async def test_the_end_meets_the_deadline(serve: Serve) -> None:
    """
    Both in one turn: one last record, either of the two.
    """
    gateway = await serve(limits=Limits(operation_seconds=7))
    path = await submitted(gateway)
    clock = standing_clock()
    gateway.gateway.reactor = clock
    read = await feed(gateway, f"{path}/events")
    await read.until(1)

    gateway.device.only.complete(b"x")
    clock.advance(7)
    await read.ended

    events = [record.event for record in read.records]
    assert events in (["status", "error"], ["status", "emission", "status"])


@asynchronous
async def test_silence_is_kept_alive(serve: Serve) -> None:
    gateway = await serve(ping_seconds=4)
    path = await submitted(gateway)
    clock = standing_clock()
    gateway.gateway.reactor = clock
    read = await feed(gateway, f"{path}/events")
    await read.until(1)

    for _ in range(3):
        clock.advance(4)
    await eventually(lambda: read.raw.endswith(b"\n\n" + b": ping\n" * 3))


@asynchronous
async def test_head_gives_the_headers_and_no_subscription(gateway: Serving) -> None:
    """
    D15, B65: the same checks, status and headers; no body, no slot, one READ.
    """
    path = await submitted(gateway)
    gateway.device.only.say(b"x")

    head = await gateway.request("HEAD", f"{path}/events")
    beyond = await gateway.request("HEAD", f"{path}/events?cursor=9")
    read = await feed(gateway, f"{path}/events")
    await read.until(1)

    assert (head.status, head.content) == (200, b"")
    assert head.header("content-type") == "text/event-stream"
    assert head.header("cache-control") == "no-store, no-transform"
    assert (beyond.status, beyond.content) == (409, b"")
    await sleep(0.1)
    read.leave()
    await eventually(lambda: gateway.gateway.budgets.work.held == 0)
    reads = [h for h, _ in gateway.peer.requests if h.operation == Operation.READ]
    assert reads[1].cursor == 9


@asynchronous
async def test_heads_leave_nothing_behind(gateway: Serving) -> None:
    path = await submitted(gateway)
    for _ in range(50):
        await gateway.request("HEAD", f"{path}/events")
    reads = gateway.device.count(Operation.READ)
    await sleep(0.2)

    assert reads == gateway.device.count(Operation.READ) == 50
    assert gateway.gateway.budgets.work.held == 0


@asynchronous
async def test_many_readers_of_one_request(gateway: Serving) -> None:
    path = await submitted(gateway)
    feeds = [await feed(gateway, f"{path}/events?cursor=0") for _ in range(5)]
    gateway.device.only.say(b"for all ")
    feeds[0].leave()
    gateway.device.only.complete(b"of you")
    for read in feeds[1:]:
        await read.ended

    texts: list[Any] = [bytes_of(read.records) for read in feeds[1:]]
    assert texts == [b"for all of you"] * 4
