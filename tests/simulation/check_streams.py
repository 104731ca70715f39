"""
What every event stream has to be: no byte lost, none twice, wherever it was resumed.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tests.simulation.check_gateway import key_of
from tests.simulation.history import Event
from tests.simulation.truth import Request, Truth


@attrs.define
class _Stream:
    """
    One stream as it was received.
    """

    event: Event
    position: int
    is_over: bool = False
    has_error: bool = False


def check_streams(truth: Truth) -> Iterator[str]:
    """Everything that is wrong with event streams."""
    streams: dict[int, _Stream] = {}
    for event in truth.history.of(
        "stream", "emission", "told", "stream_error", "stream_end"
    ):
        if event.kind == "stream":
            streams[event.number] = _Stream(event, event.cursor)
            continue
        stream = streams[event.stream]
        where = f"stream {event.stream}"
        if stream.is_over and event.kind != "stream_end":
            yield f"{where} goes on after its end, with {event.kind} {event.number}"
        if event.kind == "emission":
            yield from _check_emission(truth, where, stream, event)
        elif event.kind == "told" and event.is_terminal:
            stream.is_over = True
            yield from _check_last(truth, where, stream, event)
        elif event.kind == "stream_error":
            stream.is_over = stream.has_error = True
        elif (
            event.kind == "stream_end"
            and event.is_whole
            and not stream.is_over
            and not _was_closing(truth, stream.event.number, event.number)
        ):
            yield f"{where} ended without an end"


def _check_emission(
    truth: Truth, where: str, stream: _Stream, event: Event
) -> Iterator[str]:
    if event.offset != stream.position or event.next != event.offset + len(event.data):
        yield f"{where} has {event.offset}..{event.next} at {stream.position}"
    stream.position = event.next
    if event.handle != event.of or event.last_id != f"{event.of}:{event.next}":
        yield f"{where} has the id {event.last_id}"
    lives = _lives(truth, stream, event)
    part = slice(event.offset, event.next)
    if not lives:
        yield f"{where} is of a request that is not its principal's"
    elif all(event.data != each.data[part] for each in lives):
        yield f"{where}: bytes {event.offset}..{event.next} are not its output's"


def _check_last(
    truth: Truth, where: str, stream: _Stream, event: Event
) -> Iterator[str]:
    ends = [each.last for each in _lives(truth, stream, event)]
    totals = [last.total for last in ends if last and last.number <= event.number]
    if not totals:
        yield f"{where} ended before its request"
    elif stream.position not in totals:
        yield f"{where} ended at {stream.position}, not {totals}, bytes"


def _lives(truth: Truth, stream: _Stream, event: Event) -> list[Request]:
    """What the stream may have told of, from its begin to *event*."""
    return truth.lives(key_of(stream.event), stream.event.began, event.number)


def _was_closing(truth: Truth, begin: int, end: int) -> bool:
    return any(begin - 2000 < each.number < end for each in truth.closings)
