"""
GET /aotx/v1/requests/{id}/events: a native request as a stream (`http.md` §6). Layer 4.

1. The status line follows a first successful READ; earlier errors are JSON.
2. `status` comes at first sight and at each change of (state, cancel flag, status)
   before the end; the terminal one exactly once, after the last byte; then the end.
3. `emission` carries exact bytes; its id is where a client resumes, as often as it
   wants, with the same bytes.
4. A client that leaves or reads slowly never cancels the request [D20].
5. When the gateway is going to end, so do these streams, at once and without an error
   or a terminal status: whoever reads them resumes.
"""

from __future__ import annotations

import base64
from typing import Any

from twisted_aotx.gateway.problems import ProblemCode, invalid_field
from twisted_aotx.gateway.resource import CURSOR_DIGITS_MAX, CURSOR_MAX, Answer, Call
from twisted_aotx.gateway.sse import EventStream, raw_bytes_max, record
from twisted_aotx.gateway.status import handle_of, status
from twisted_aotx.gateway.waiting import ClientLeft, windows
from twisted_aotx.wire.handles import RequestHandle
from twisted_aotx.wire.numbers import TERMINAL_PHASES
from twisted_aotx.wire.packet import ReplyHeader


async def events(call: Call) -> Answer | None:
    """
    Send the events of a request from the cursor until it has ended.
    """
    gateway = call.gateway
    deadline = gateway.reactor.seconds() + call.settings.limits.operation_seconds
    handle = handle_of(call)
    cursor = resumed_at(call, handle)
    call.hold_work()
    stream = EventStream(call, error_event="error")
    work = _emit(call, stream, handle, cursor)
    try:
        return await stream.carry(
            work,
            deadline=deadline,
            late=ProblemCode.OPERATION_TIMEOUT,
            resumable=True,
        )
    except ClientLeft:
        return None


def resumed_at(call: Call, handle: RequestHandle) -> int:
    """
    Where the stream begins: the query's cursor, or what Last-Event-ID says.

    Raises:
        Problem: 400 param `cursor` or `Last-Event-ID`.
    """
    cursor = call.cursor()
    last = call.txrequest.requestHeaders.getRawHeaders(b"Last-Event-ID", [b""])[0]
    if not last:
        return cursor
    name, _, position = last.decode("latin-1").rpartition(":")
    if "cursor" in call.query or name != str(handle):
        message = "Last-Event-ID is this request's, and excludes cursor."
        raise invalid_field("Last-Event-ID", message)
    if not (
        position.isascii()
        and position.isdigit()
        and len(position) <= CURSOR_DIGITS_MAX
        and int(position) <= CURSOR_MAX
    ):
        raise invalid_field("Last-Event-ID", "Last-Event-ID ends in a cursor.")
    return int(position)


async def _emit(
    call: Call, stream: EventStream, handle: RequestHandle, cursor: int
) -> None:
    told = None
    step = raw_bytes_max(call.settings.limits.event_bytes)
    async for window in windows(call.gateway, call.caller, handle, cursor):
        reply = window.reply
        if not stream.begun:
            stream.begin()
            if call.head:
                return
        seen = (reply.phase, reply.cancel_requested, reply.failure_status)
        if reply.phase not in TERMINAL_PHASES and seen != told:
            told = seen
            await stream.send(record(status(handle, reply), event="status"))
        for at in range(0, len(window.data), step):
            piece = window.data[at : at + step]
            await stream.send(_emission(handle, reply, cursor, piece))
            cursor += len(piece)
    stream.close(record(status(handle, window.reply), event="status"))


def _emission(
    handle: RequestHandle, reply: ReplyHeader, offset: int, piece: bytes
) -> bytes:
    next_cursor = offset + len(piece)
    data: dict[str, Any] = {
        "schema": "aotx.emission.v1",
        "request_id": str(handle),
        "runtime_epoch": str(handle.epoch),
        "source_kind": "model",
        "model_role": reply.role,
        "offset": str(offset),
        "next_cursor": str(next_cursor),
        "encoding": "base64",
        "bytes": base64.b64encode(piece).decode("ascii"),
    }
    return record(data, event="emission", id=f"{handle}:{next_cursor}")
