"""
READ and CANCEL (`device.md` §6, §7).

| # | check | status |
|---|---|---|
| 1 | epoch | 410 |
| 2 | the caller's entry, of the caller's revision, its role granted now | 404 |
| 3 | READ: cursor within the result; CANCEL: cursor zero | 409 with the phase |
| 4 | window and fields | 200 |
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import read64, write32
from twisted_aotx.device.frames import (
    AT_CANCEL,
    AT_CURSOR,
    AT_EPOCH,
    AT_FAILURE,
    AT_FINISH,
    AT_ID,
    AT_LIMIT,
    AT_PAYLOAD_BYTES,
    AT_ROLE,
    AT_TEMPERATURE,
    AT_TOP_P,
    answer,
    read_id,
)
from twisted_aotx.device.numbers import (
    CANCELLED,
    CONFLICT,
    GONE,
    NOT_FOUND,
    OK,
    PREPARING,
    QUEUED,
    RUNNING,
)
from twisted_aotx.device.requests import end_request, find_request
from twisted_aotx.device.slots import end_lease
from twisted_aotx.limits import PAYLOAD_BYTES_MAX


@dev
def _find(D: Any, channel: Any, row: Any) -> Any:
    """Rows 1 and 2: the entry, or -1 and the refusal is written."""
    frame = D.frame[channel]
    table = D.g_table
    if read64(frame, AT_EPOCH) != D.epoch:
        answer(D, channel, GONE, 0, 0)
        return i64(-1)
    low, high = read_id(frame, AT_ID)
    request = find_request(D, D.g_id[table][row], low, high)
    if request >= 0:
        granted = (D.g_roles[table][row] >> D.r_role[request]) & 1
        if D.r_revision[request] == D.g_revision and granted == 1:
            return request
    answer(D, channel, NOT_FOUND, 0, 0)
    return i64(-1)


@dev
def _answer_window(D: Any, channel: Any, request: Any, cursor: Any) -> None:
    """Row 4; *cursor* (i64) is at most the total."""
    answer(D, channel, OK, D.r_phase[request], 0)
    frame = D.frame[channel]
    size = D.r_total[request] - cursor
    if size > PAYLOAD_BYTES_MAX:
        size = i64(PAYLOAD_BYTES_MAX)
    write32(frame, AT_ROLE, D.r_role[request])
    write32(frame, AT_LIMIT, D.r_total[request])
    write32(frame, AT_TEMPERATURE, D.r_prompt_tokens[request])
    write32(frame, AT_TOP_P, D.r_sampled[request])
    write32(frame, AT_PAYLOAD_BYTES, size)
    write32(frame, AT_FINISH, D.r_finish[request])
    write32(frame, AT_FAILURE, D.r_status[request])
    write32(frame, AT_CANCEL, D.r_cancel[request])
    D.window_request[channel] = request
    D.window_cursor[channel] = cursor
    D.window_bytes[channel] = size


@dev
def read(D: Any, channel: Any, row: Any) -> None:
    """Answer a READ of the grant in *row*. Changes nothing."""
    request = _find(D, channel, row)
    if request < 0:
        return
    cursor = read64(D.frame[channel], AT_CURSOR)
    if cursor > u64(D.r_total[request]):
        answer(D, channel, CONFLICT, D.r_phase[request], 0)
        return
    _answer_window(D, channel, request, i64(cursor))


@dev
def cancel(D: Any, channel: Any, row: Any) -> None:
    """
    Answer a CANCEL of the grant in *row*; a lease it ends goes in this tick's commit.
    """
    request = _find(D, channel, row)
    if request < 0:
        return
    if read64(D.frame[channel], AT_CURSOR) != u64(0):
        answer(D, channel, CONFLICT, D.r_phase[request], 0)
        return
    phase = D.r_phase[request]
    if phase in (QUEUED, PREPARING, RUNNING):
        D.r_cancel[request] = 1
        D.r_status[request] = CONFLICT
        if phase == QUEUED:
            end_request(D, request, CANCELLED)
        else:
            end_lease(D, request, CANCELLED)
    _answer_window(D, channel, request, i64(0))
