"""
What every packet of the device has to be, by `wire.md` and `device.md`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final

from tests.device.capacities import SMALL
from tests.simulation.history import Event
from tests.simulation.people import PEOPLE
from tests.simulation.truth import TERMINAL, Lease, Request, Truth
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.wire.numbers import Operation

_OF_REQUESTS: Final = (Operation.READ, Operation.CANCEL)
_FACTS: Final = (
    *("phase", "total", "prompt", "sampled", "finish", "failure", "cancel"),
)
_PRINCIPALS: Final = frozenset(person.id for person in PEOPLE)


def check_device(truth: Truth) -> Iterator[str]:
    """Everything that is wrong with the device's replies and requests."""
    for frame, reply in truth.pairs:
        yield from _check_reply(truth, frame, reply)
    for request in (*truth.requests.values(), *truth.reclaimed):
        yield from _check_windows(request)
        yield from _check_end(truth, request)
    for key in truth.twice:
        if len(truth.admissions[key[0]]) <= SMALL.requests:
            yield f"{key[2].hex()} was admitted twice"


def _check_reply(truth: Truth, frame: Event, reply: Event) -> Iterator[str]:
    where = f"reply {reply.number} to frame {frame.number}"
    if reply.at_epoch != reply.epoch or frame.epoch != reply.epoch:
        yield f"{where} names epoch {reply.at_epoch} in epoch {reply.epoch}"
    if (reply.principal, reply.id) != (frame.principal, frame.id):
        yield f"{where} is to another's frame"
    if frame.principal not in _PRINCIPALS or reply.status == 400:
        return
    revisions = truth.revisions(reply.epoch, frame.number, reply.number)
    if reply.status == 403 and revisions == {frame.revision}:
        yield f"{where} is 403 under the revision in force"
    if reply.status != 403 and frame.channel and frame.revision not in revisions:
        yield f"{where} is {reply.status} under revision {frame.revision}"
    if frame.operation not in (*_OF_REQUESTS, Operation.SUBMIT):
        return
    is_old = frame.at_epoch != reply.epoch
    if reply.status == 410 and not is_old:
        yield f"{where} is 410 in its own epoch"
    # A held device looks no further; a revoked caller is told so first.
    if is_old and reply.status not in (410, 403, 429):
        yield f"{where} is {reply.status} to epoch {frame.at_epoch}"
    if frame.operation in _OF_REQUESTS:
        yield from _check_found(truth, where, frame, reply)


def _check_found(truth: Truth, where: str, frame: Event, reply: Event) -> Iterator[str]:
    """404 only for what is not there, 200 only for what is."""
    request = truth.requests.get((reply.epoch, frame.principal, frame.id))
    if reply.status == 200:
        if request is None:
            yield f"{where} tells of a request that was not admitted"
        elif request.frame.number > reply.number and request.key not in truth.twice:
            yield f"{where} tells of a request before it was sent"
        elif request.frame.revision != frame.revision:
            yield f"{where} tells of a request of another revision"
    elif reply.status == 404 and request is not None:
        admitted = truth.admissions[reply.epoch]
        before = bisect.bisect_left(admitted, reply.number)
        is_there = (
            request.admitted.number < frame.number
            and request.frame.revision == frame.revision
            and before <= SMALL.requests
        )
        if is_there:
            yield f"{where} does not find {frame.id.hex()}, which was admitted"


def _check_windows(request: Request) -> Iterator[str]:
    """Each window is of what the engine had said, and nothing ever goes back."""
    data, lease = request.data, request.lease
    floor: Event | None = None
    seen: list[tuple[int, Event]] = []
    for frame, reply in sorted(request.windows, key=lambda pair: pair[0].number):
        where = f"window {reply.number} of {request.nonce}"
        cursor = frame.cursor if frame.operation == Operation.READ else 0
        end = min(reply.total, cursor + PAYLOAD_BYTES_MAX)
        if reply.data != data[cursor:end]:
            yield f"{where}: bytes {cursor}..{end} are not what its engine said"
        if reply.total > SMALL.output_bytes:
            yield f"{where}: {reply.total} bytes are over the capacity"
        if lease is not None and not _is_mark(lease, reply):
            yield f"{where}: {reply.total} bytes and {reply.sampled} tokens at once"
        if request.is_fixed and reply.sampled - reply.total not in (0, 1):
            yield f"{where}: {reply.total} bytes and {reply.sampled} tokens at once"
        if lease is None and not request.is_fixed and reply.phase in (3, 4):
            yield f"{where}: phase {reply.phase} without an engine"
        # What was told before this was asked for.
        while seen and seen[0][0] < frame.number:
            earlier = seen.pop(0)[1]
            floor = earlier if floor is None else _later(floor, earlier)
        if floor is not None:
            yield from _check_order(where, floor, reply)
        seen.append((reply.number, reply))
        seen.sort(key=lambda each: each[0])


def _is_mark(lease: Lease, reply: Event) -> bool:
    """Whether bytes and tokens are those after an emission that was made by then."""
    told = reply.total, reply.sampled
    return any(
        told == (size, tokens)
        for number, size, tokens in lease.marks
        if number < reply.number
    )


def _later(one: Event, other: Event) -> Event:
    return other if (other.phase, other.total) > (one.phase, one.total) else one


def _check_order(where: str, before: Event, after: Event) -> Iterator[str]:
    if before.phase in TERMINAL:
        for name in _FACTS:
            if getattr(before, name) != getattr(after, name):
                yield f"{where}: {name} changed after the end"
    elif after.phase < before.phase or after.total < before.total:
        yield f"{where}: phase {after.phase}, {after.total} bytes after {before}"
    elif after.cancel < before.cancel:
        yield f"{where}: the cancel flag was taken back"


def _check_end(truth: Truth, request: Request) -> Iterator[str]:
    last = request.last
    where = f"request {request.nonce}"
    cancels = [
        reply
        for frame, reply in request.windows
        if frame.operation == Operation.CANCEL and reply.phase not in (4, 5)
    ]
    if last is None:
        return
    if cancels and cancels[0].number < last.number and last.phase != 6:
        yield f"{where} was cancelled and ended in phase {last.phase}"
    if last.phase == 4:
        yield from _check_completed(where, request, last)
    elif last.phase == 5:
        yield from _check_failed(where, request, last)
    else:
        yield from _check_cancelled(truth, where, request, last)


def _check_completed(where: str, request: Request, last: Event) -> Iterator[str]:
    if (last.failure, last.cancel) != (0, 0) or last.finish not in (1, 2):
        yield f"{where} completed with {last.failure}, {last.cancel}, {last.finish}"
    lease = request.lease
    if request.is_fixed:
        end = last.finish == 1
        if (last.total, last.sampled) != (len(request.data), last.total + end):
            yield f"{where} completed with {last.total} bytes, {last.sampled} tokens"
    elif lease is None or lease.ended is None or lease.ended.how != "done":
        yield f"{where} completed, which its engine did not say"
    else:
        _, size, tokens = lease.marks[-1]
        told = last.prompt, last.total, last.sampled, last.finish
        if told != (lease.prompt, size, tokens, lease.ended.value):
            yield f"{where} completed with {told}, not as its engine said"


def _check_failed(where: str, request: Request, last: Event) -> Iterator[str]:
    if last.cancel or last.finish or not 400 <= last.failure <= 599:
        yield f"{where} failed with {last.failure}, {last.cancel}, {last.finish}"
    lease = request.lease
    allowed = {503}
    if lease is not None and lease.ended is not None:
        value = lease.ended.value
        allowed.add(value if 400 <= value <= 599 else 503)
    if lease is not None and lease.prompt is not None:
        tokens = lease.prompt + request.frame.limit
        if tokens > SMALL.sequence_tokens:
            allowed.add(400)
    if last.failure not in allowed:
        yield f"{where} failed with {last.failure}, of {sorted(allowed)}"


def _check_cancelled(
    truth: Truth, where: str, request: Request, last: Event
) -> Iterator[str]:
    if not last.cancel or last.finish:
        yield f"{where} cancelled with flag {last.cancel}, finish {last.finish}"
    if last.failure == 409:
        if not truth.asked_to_cancel(request.key, last.number):
            yield f"{where} was cancelled by nobody"
    elif last.failure == 504:
        lived = last.at - request.frame.at
        if lived <= SMALL.request_seconds:
            yield f"{where} missed its deadline after {lived:.3f} s"
    elif last.failure == 413:
        if len(request.data) <= SMALL.output_bytes:
            yield f"{where} overflowed with {len(request.data)} bytes"
    elif last.failure == 403:
        if len(truth.grants.get(request.key[0], [])) < 2:
            yield f"{where} was revoked by nobody"
    elif last.failure != 503:
        yield f"{where} was cancelled with {last.failure}"
