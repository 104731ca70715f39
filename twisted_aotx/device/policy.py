"""
Operation 12: reading and changing the policy's controls (`device.md` §14, `wire.md`
§11).

| # | check | status |
|---|---|---|
| 1 | permission | 403 |
| 2 | id and cursor zero; a read: epoch zero; a write: 16 bytes | 400 |
| 3 | a write: schema and action | 400 |
| 4 | a write: epoch | 410 |
| 5 | a write: hold | 429 |
| 6 | a write: none before it is on its way to the store | waits |
| 7 | a write: expected revision, counters, state error | 409 |

Rules:
1. What passes is a record for the store; its reply waits for the result, and only then
   the controls change (D12). A batch in work is dropped with that.
2. Writes that wait are examined again from the principal on, in order of arrival, in
   the tick of the result (`saves`).
3. The review itself is `review`'s.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import read32, read64, write32, write64
from twisted_aotx.device.frames import (
    AT_CURSOR,
    AT_EPOCH,
    AT_ID,
    AT_ROLE,
    answer,
    is_zero,
)
from twisted_aotx.device.numbers import (
    ACT_POLICY,
    ACT_TELEMETRY,
    BAD,
    CONFLICT,
    FORBIDDEN,
    GONE,
    HEADER,
    OK,
    POLICY_ABI,
    POLICY_MODE,
    POLICY_PAUSE,
    POLICY_RESUME,
    POLICY_REVIEW_OFF,
    POLICY_REVIEW_ON,
    POLICY_STOP,
    RECORD_CONTROL,
    TOO_MANY,
)
from twisted_aotx.device.review import policy_reason, policy_state, rows_in_work
from twisted_aotx.device.store_mail import next_record, publish_record
from twisted_aotx.device.usage import usage_pending
from twisted_aotx.limits import Capacities

STATUS_BYTES = 160
_WRITE_BYTES = 16
_COUNTER_MAX = u64(0xFFFFFFFFFFFFFFFF)


def policy_fields(capacities: Capacities) -> list[Any]:
    """The controls, the write on its way, and the channels that wait behind it."""
    return [
        ("policy_revision", "<u8"),
        ("policy_review", "<i8"),
        ("policy_paused", "<i8"),
        ("policy_stopped", "<i8"),
        # the saved state is unusable
        ("policy_broken", "<i8"),
        # a control record is at the store, and what it says
        ("policy_writing", "<i8"),
        ("policy_next", "<i8", (3,)),
        # a ring of channels in order of arrival
        ("policy_waiting", "<i8", (capacities.channels,)),
        ("policy_wait_head", "<i8"),
        ("policy_waits", "<i8"),
    ]


@dev
def reset_policy(D: Any) -> None:
    """The first activation. Start only."""
    D.policy_revision = u64(1)


@dev
def restore_control(D: Any, numbers: Any) -> None:
    """
    Start only: take over control state and frontier of the last activation.

    Args:
        numbers: (6,) u64: control revision, review, paused, stopped, frontier, saved
            generation; the last two below 2^63.
    """
    D.policy_revision = numbers[0]
    D.policy_review = i64(numbers[1])
    D.policy_paused = i64(numbers[2])
    D.policy_stopped = i64(numbers[3])
    D.frontier = i64(numbers[4])
    D.completions = i64(numbers[4])
    D.policy_generation = i64(numbers[5])


@dev
def break_policy(D: Any) -> None:
    """Start only: the saved state is unusable."""
    D.policy_broken = 1


@dev
def _write_status(D: Any, frame: Any) -> None:
    """The reply payload; only the state "active" shows what is in work."""
    at = HEADER
    for k in range(at, at + STATUS_BYTES):
        frame[k] = 0
    write32(frame, at, i64(1))
    write32(frame, at + 4, i64(POLICY_ABI))
    write32(frame, at + 8, i64(POLICY_MODE))
    write32(frame, at + 12, policy_state(D))
    write32(frame, at + 16, D.policy_review)
    write32(frame, at + 20, usage_pending(D))
    write32(frame, at + 24, rows_in_work(D))
    write32(frame, at + 28, D.policy_result)
    write64(frame, at + 32, D.policy_revision)
    write64(frame, at + 40, u64(D.frontier))
    write64(frame, at + 48, u64(D.policy_completed))
    write64(frame, at + 56, u64(D.policy_interrupted))
    write64(frame, at + 64, u64(D.policy_refused))
    write64(frame, at + 72, u64(D.policy_decision))
    write64(frame, at + 80, u64(D.policy_generation))
    write64(frame, at + 88, u64(D.policy_maximum_ns))
    write64(frame, at + 96, u64(D.policy_last_ns))
    # Written and result bytes stay 0: a batch in work is summed up and written when it
    # is committed, and then it is no longer in work.
    write32(frame, at + 120, policy_reason(D))


@dev
def _answer_status(D: Any, channel: Any) -> None:
    _write_status(D, D.frame[channel])
    answer(D, channel, OK, policy_state(D), STATUS_BYTES)


@dev
def _judge(D: Any, frame: Any, length: Any, actions: Any) -> Any:
    """Rows 1 to 5: 0, or the status of the first that fails."""
    writes = length != HEADER
    needed = i64(ACT_TELEMETRY | ACT_POLICY)
    if writes:
        needed = i64(ACT_POLICY)
    if (actions & needed) == 0:
        return i64(FORBIDDEN)
    if is_zero(frame, AT_ID, AT_ROLE) == 0:
        return i64(BAD)
    if not writes:
        if is_zero(frame, AT_EPOCH, AT_ID) == 0:
            return i64(BAD)
        return i64(0)
    if length != HEADER + _WRITE_BYTES or read32(frame, HEADER) != 1:
        return i64(BAD)
    action = read32(frame, HEADER + 4)
    if action < POLICY_PAUSE or action > POLICY_REVIEW_OFF:
        return i64(BAD)
    if read64(frame, AT_EPOCH) != D.epoch:
        return i64(GONE)
    if D.held == 1:
        return i64(TOO_MANY)
    return i64(0)


@dev
def _may_control(D: Any, frame: Any) -> Any:
    """Row 7."""
    if (
        read64(frame, HEADER + 8) != D.policy_revision
        or D.policy_revision == _COUNTER_MAX
    ):
        return i64(0)
    action = read32(frame, HEADER + 4)
    if D.policy_broken == 1 and action != POLICY_PAUSE and action != POLICY_STOP:
        return i64(0)
    return i64(1)


@dev
def _record_control(H: Any, D: Any, channel: Any, action: Any) -> None:
    """Hand the store what *action* makes of the controls."""
    review = D.policy_review + i64(0)
    paused = D.policy_paused + i64(0)
    stopped = D.policy_stopped + i64(0)
    if action == POLICY_RESUME:
        paused = i64(0)
        stopped = i64(0)
    elif action == POLICY_REVIEW_ON:
        review = i64(1)
    elif action == POLICY_REVIEW_OFF:
        review = i64(0)
    else:
        paused = i64(1)
        if action == POLICY_STOP:
            stopped = i64(1)
    D.policy_writing = 1
    D.policy_next[0] = review
    D.policy_next[1] = paused
    D.policy_next[2] = stopped
    at = next_record(H, D, i64(RECORD_CONTROL), channel)
    row = H.record_ring[at]
    row[1] = D.policy_revision + u64(1)
    row[2] = u64(review)
    row[3] = u64(paused)
    row[4] = u64(stopped)
    publish_record(H, D)


@dev
def handle_policy(H: Any, D: Any, channel: Any, length: Any, actions: Any) -> None:
    """Answer a policy frame of a caller with *actions*, or let its reply wait."""
    frame = D.frame[channel]
    status = _judge(D, frame, length, actions)
    if status != 0:
        answer(D, channel, status, 0, 0)
    elif length == HEADER:
        _answer_status(D, channel)
    elif D.policy_writing == 1:
        D.waits = 1
        at = (D.policy_wait_head + D.policy_waits) % D.channels
        D.policy_waiting[at] = channel
        D.policy_waits += 1
    elif _may_control(D, frame) == 0:
        answer(D, channel, CONFLICT, 0, 0)
    else:
        D.waits = 1
        _record_control(H, D, channel, read32(frame, HEADER + 4))


@dev
def next_waiting(D: Any) -> Any:
    """Take the first channel whose write may be examined now, or -1."""
    if D.policy_writing == 1 or D.policy_waits == 0:
        return i64(-1)
    channel = D.policy_waiting[D.policy_wait_head] + i64(0)
    D.policy_wait_head = (D.policy_wait_head + 1) % D.channels
    D.policy_waits -= 1
    return channel


@dev
def control_saved(D: Any, at: Any, saved: Any) -> None:
    """What became of the control record in ring entry *at*: the reply to it."""
    channel = D.record_channel[at] + i64(0)
    D.policy_writing = 0
    if saved == 1:
        D.policy_revision = D.policy_revision + u64(1)
        D.policy_review = D.policy_next[0]
        D.policy_paused = D.policy_next[1]
        D.policy_stopped = D.policy_next[2]
        D.policy_batch = 0
        _answer_status(D, channel)
    else:
        answer(D, channel, TOO_MANY, 0, 0)


#: The id ends where the cursor begins, so one range covers both.
assert AT_ID < AT_CURSOR < AT_ROLE
