"""
Completions as a stream (`http.md` §7, D18, D23).
"""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from twisted.internet.task import Clock

from tests.asynchronous import asynchronous
from tests.clocks import standing_clock
from tests.gateway.conftest import Serve
from tests.gateway.device_script import EPOCH, Running
from tests.gateway.feeds import (
    CHAT,
    REQUESTS,
    body,
    eventually,
    feed,
    stream,
    text_of,
)
from tests.gateway.serving import Serving
from tests.gateway.test_completions import ENDS, end_with
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation

USAGE = {"include_usage": True}


def chunk(**fields: Any) -> dict[str, Any]:
    """
    A chunk with one choice, without what all chunks share.
    """
    choice = {"index": 0, "delta": {}, "finish_reason": None, "logprobs": None}
    return choice | fields


def piecewise(output: bytes, sizes: Any, finish: int = 1) -> Any:
    """
    Each READ finds some bytes more of *output*, and at last the end.
    """
    at = 0

    def read(request: Running) -> None:
        nonlocal at
        size = next(sizes)
        request.say(output[at : at + size])
        at += size
        if at >= len(output):
            request.complete(b"", finish)

    return read


def bytewise() -> Any:
    while True:
        yield 1


@asynchronous
async def test_records_in_their_order(gateway: Serving) -> None:
    """
    cases I 140: role, text, finish, usage, [DONE]; a byte of a character at a time.
    """
    text = "aщ€😀"
    gateway.device.on_read = piecewise(text.encode(), bytewise())
    gateway.gateway.wall_seconds = lambda: 99.5

    read = await feed(gateway, CHAT, json=body(stream=True, stream_options=USAGE))
    await read.ended
    records = read.records

    ((_, request_id),) = gateway.device.requests
    assert all((r.event, r.id) == (None, None) for r in records)
    assert records[-1].data == "[DONE]"
    chunks = [r.data for r in records[:-1]]
    shared = {
        "id": f"chatcmpl-{request_id.hex()}",
        "object": "chat.completion.chunk",
        "created": 99,
        "model": "m",
    }
    role = chunk(delta={"role": "assistant", "content": ""})
    texts = [chunk(delta={"content": character}) for character in text]
    finish = chunk(finish_reason="stop")
    assert chunks == [
        *[
            shared | {"choices": [choice], "usage": None}
            for choice in (role, *texts, finish)
        ],
        shared
        | {
            "choices": [],
            "usage": {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 15},
        },
    ]
    header = read.response.headers.getRawHeaders
    assert header("x-request-id") == [f"req-{EPOCH:016x}-{request_id.hex()}"]
    assert header("cache-control") == ["no-store, no-transform"]
    assert header("x-accel-buffering") == ["no"]
    # Twisted's client leaves "" where there was none.
    assert header("content-encoding") in (None, [""])
    assert b"retry:" not in read.raw


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}])
@asynchronous
async def test_usage_only_when_asked_for(
    gateway: Serving, options: dict[str, Any]
) -> None:
    """
    B43: no usage chunk, and no such key.
    """
    gateway.device.on_submit = lambda request: request.complete(b"x", finish=2)

    records = await stream(gateway, json=body(stream=True, **options))

    assert len(records) == 4
    assert all("usage" not in record.data for record in records[:-1])
    assert records[2].data["choices"] == [chunk(finish_reason="length")]


ILL_FORMED = [
    b"",
    "семья 👩‍👩‍👧‍👦 🇩🇪🇺🇦 é\u0301 €".encode(),
    b"\xff\xfe\x80",
    b"a\xf0\x9f\x98",
    b"\xe2\x82\xe2\x82\xac\xed\xa0\x80\xf4\x90\x80\x80 tail \xc3",
    'control \x00\x1f " \\ \u2028 \x7f'.encode(),
]


@pytest.mark.parametrize("output", ILL_FORMED)
@pytest.mark.parametrize("seed", range(3))
@asynchronous
async def test_however_it_comes_the_text_is_one(
    gateway: Serving, output: bytes, seed: int
) -> None:
    """
    cases I 143, B29, D18: text of the stream = text of the whole, native bytes exact.
    """
    sizes = random.Random(seed)
    splits = iter(lambda: sizes.randint(0, 4), None)
    gateway.device.on_read = piecewise(output, splits)
    records = await stream(gateway, json=body(stream=True))
    gateway.device.on_read = lambda _: None
    gateway.device.on_submit = lambda request: request.complete(output)
    whole = await gateway.post(CHAT, body())

    text = whole.json["choices"][0]["message"]["content"]
    assert text_of(records) == text == output.decode("utf-8", "replace")
    assert records[-1].data == "[DONE]"


@pytest.mark.parametrize("event_bytes", [1024, 65536])
@asynchronous
async def test_every_record_fits_event_bytes(serve: Serve, event_bytes: int) -> None:
    """
    Raw bytes per event: min(4096, floor((event_bytes − 768) / 6)); the worst escapes.
    """
    gateway = await serve(limits=Limits(event_bytes=event_bytes))
    output = b"\x00" * 20_000
    gateway.device.on_submit = lambda request: request.complete(output)

    read = await feed(gateway, CHAT, json=body(stream=True, stream_options=USAGE))
    await read.ended

    sizes = [len(raw) + 2 for raw in read.raw.split(b"\n\n")[:-1]]
    assert max(sizes) <= event_bytes
    assert text_of(read.records) == "\x00" * 20_000
    most = min(4096, (event_bytes - 768) // 6)
    assert len(text_of(read.records[1:2])) == most


@pytest.mark.parametrize(("end", "expected"), ENDS)
@asynchronous
async def test_a_bad_end_is_the_last_record(
    gateway: Serving, end: Any, expected: tuple[int, str]
) -> None:
    """
    cases I 142, B39: after the headers an error is a record; there is no [DONE].
    """
    gateway.device.on_submit = end_with(end, b"part\xf0\x9f")

    records = await stream(gateway, json=body(stream=True, stream_options=USAGE))

    assert text_of(records) == "part"
    error = records[-1].data["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (expected[1], None)
    finishes = [r.data["choices"][0]["finish_reason"] for r in records[:-1]]
    assert set(finishes) == {None}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda request: reply_to(request, 404, epoch=EPOCH), "device_refused"),
        (lambda request: b"", "device_connection"),
        (lambda request: b"x" * 200, "invalid_device_response"),
    ],
)
@asynchronous
async def test_a_device_that_fails_before_and_after_the_first_read(
    gateway: Serving, answer: Any, code: str
) -> None:
    """
    http.md §7: earlier errors are JSON, later ones a record.
    """
    fails_at = 1

    def before(request: Any) -> Any:
        reads = gateway.device.count(Operation.READ)
        failing = request.operation == Operation.READ and reads >= fails_at
        return answer(request) if failing else NotImplemented

    gateway.device.before = before
    early = await gateway.post(CHAT, body(stream=True))
    fails_at = 3
    gateway.device.on_read = piecewise(b"text", bytewise())
    late = await stream(gateway, json=body(stream=True))

    assert early.error["code"] == code
    assert early.header("x-request-id")
    assert late[0].data["choices"] == [
        chunk(delta={"role": "assistant", "content": ""})
    ]
    assert late[-1].data["error"]["code"] == code
    assert gateway.gateway.budgets.work.held == 0


@asynchronous
async def test_a_stream_beyond_the_declared_output(gateway: Serving) -> None:
    """
    413 `output_limit` in the midst of a stream.
    """
    gateway.device.on_submit = lambda request: request.say(b"x" * 200_001)

    records = await stream(gateway, json=body(stream=True))

    assert records[-1].data["error"]["code"] == "output_limit"


@asynchronous
async def test_a_stream_has_its_time(serve: Serve) -> None:
    """
    504 `response_timeout`, as a record; the request runs on.
    """
    gateway = await serve(limits=Limits(operation_seconds=7), disconnect="cancel")
    clock = standing_clock()
    gateway.gateway.reactor = clock
    read = await feed(gateway, CHAT, json=body(stream=True))
    await read.until(1)

    clock.advance(7)
    await read.ended

    error = read.records[-1].data["error"]
    assert (error["code"], error["type"]) == ("response_timeout", "server_error")
    assert gateway.device.count(Operation.CANCEL) == 0
    assert clock.getDelayedCalls() == []


@asynchronous
async def test_text_comes_as_it_is_made(gateway: Serving) -> None:
    """
    The role at once, each piece before the next one is there.
    """
    read = await feed(gateway, CHAT, json=body(stream=True))
    await read.until(1)
    request = gateway.device.only

    for count, piece in enumerate((b"one", b" two", b" three"), start=2):
        request.say(piece)
        records = await read.until(count)
        assert text_of(records)[-len(piece) :] == piece.decode()
    request.complete(b"")
    await read.ended

    assert text_of(read.records) == "one two three"


@asynchronous
async def test_silence_is_kept_alive(serve: Serve) -> None:
    """
    B31, D23: `: ping` and one newline, between records, after 15 s without output.
    """
    gateway = await serve(ping_seconds=15)
    clock = standing_clock()
    gateway.gateway.reactor = clock
    read = await feed(gateway, CHAT, json=body(stream=True))
    await read.until(1)
    quiet = len(read.raw)

    clock.advance(14.9)
    gateway.device.only.say(b"word")
    await eventually(lambda: _turn(clock, 0.05) and len(read.records) == 2)
    clock.advance(14.5)
    assert b"ping" not in read.raw
    clock.advance(0.5)
    await eventually(lambda: read.raw.endswith(b"\n\n: ping\n"))
    for _ in range(2):
        clock.advance(15)
    await eventually(lambda: read.raw.endswith(b"\n\n: ping\n: ping\n: ping\n"))
    gateway.device.only.complete(b"!")
    await eventually(lambda: _turn(clock, 0.05) and read.ended.called)

    assert len(read.raw) > quiet
    assert text_of(read.records) == "word!"
    assert read.raw.count(b": ping\n") == 3
    assert clock.getDelayedCalls() == []


def _turn(clock: Clock, seconds: float) -> bool:
    clock.advance(seconds)
    return True


@asynchronous
async def test_no_keep_alive_when_it_is_off(serve: Serve) -> None:
    gateway = await serve(ping_seconds=0, limits=Limits(operation_seconds=1000))
    clock = standing_clock()
    gateway.gateway.reactor = clock
    read = await feed(gateway, CHAT, json=body(stream=True))
    await read.until(1)

    clock.advance(999)
    clock.advance(1)
    await read.ended

    assert b"ping" not in read.raw


@asynchronous
async def test_native_bytes_are_exact(gateway: Serving) -> None:
    """
    cases I 143: only the text of completions is decoded.
    """
    output = b"\xff\x00\xf0\x9f"
    gateway.device.on_submit = lambda request: request.complete(output)
    admitted = await gateway.post(REQUESTS, body())

    status = await gateway.get(f"{REQUESTS}/{admitted.json['id']}")

    assert base64.b64decode(status.json["output"]["bytes"]) == output


@asynchronous
async def test_streams_hold_a_work_slot_to_their_end(serve: Serve) -> None:
    gateway = await serve(limits=Limits(work=1))
    read = await feed(gateway, CHAT, json=body(stream=True))
    await read.until(1)

    refused = await gateway.post(CHAT, body(stream=True))
    gateway.device.only.complete(b"x")
    await read.ended

    assert refused.problem == (429, "transport_limit", None)
    assert gateway.gateway.budgets.work.held == 0
