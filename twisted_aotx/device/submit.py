"""
SUBMIT (`device.md` §4): the checks in their order, then the entry.

| # | check | status |
|---|---|---|
| 1 | epoch | 410 |
| 2 | id nonzero, cursor zero | 400 |
| 3 | role known, granted, served, active | 404 |
| 4 | limit | 400 |
| 5 | temperature and top_p | 400 |
| 6 | (principal, id) is new | 409 |
| 7 | quota of active requests, room in the table | 429 |
| 8 | selector not above the payload (its size is row 2 of `admission`) | 400 |
| 9 | rendering | 400, 404, 413 |
| 10 | selector shape, then availability | 400, 503 |
| 11 | the entry | 202 |

Nothing is written before row 11.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import read32, read64
from twisted_aotx.device.controls import judge_selector
from twisted_aotx.device.frames import (
    AT_CURSOR,
    AT_EPOCH,
    AT_ID,
    AT_LIMIT,
    AT_ROLE,
    AT_SELECTOR_BYTES,
    AT_TEMPERATURE,
    AT_TOP_P,
    answer,
    is_zero,
    read_id,
)
from twisted_aotx.device.numbers import (
    ACCEPTED,
    BAD,
    CONFLICT,
    GONE,
    HEADER,
    NOT_FOUND,
    OK,
    QUEUED,
    TOO_MANY,
)
from twisted_aotx.device.owners import find_owner
from twisted_aotx.device.render import check_prompt
from twisted_aotx.device.requests import (
    find_request,
    has_room,
    queue_append,
    take_entry,
)
from twisted_aotx.device.roles import is_available
from twisted_aotx.device.source_leases import lease_sources

#: Bits of 2.0, 1.0 and −0.0 as binary32.
_F32_TWO = 0x40000000
_F32_ONE = 0x3F800000
_F32_MINUS_ZERO = 0x80000000


@dev
def _sampling_is_valid(temperature: Any, top_p: Any) -> Any:
    """Positive binary32 numbers are ordered as their bits are."""
    if temperature > _F32_TWO and temperature != _F32_MINUS_ZERO:
        return i64(0)
    if top_p < 1 or top_p > _F32_ONE:
        return i64(0)
    return i64(1)


@dev
def _judge_fields(D: Any, frame: Any, row: Any) -> Any:
    """Rows 1 to 7: 0, or the status of the first that fails."""
    table = D.g_table
    if read64(frame, AT_EPOCH) != D.epoch:
        return i64(GONE)
    low, high = read_id(frame, AT_ID)
    if (low == u64(0) and high == u64(0)) or is_zero(frame, AT_CURSOR, AT_ROLE) == 0:
        return i64(BAD)
    if is_available(D, read32(frame, AT_ROLE), D.g_roles[table][row]) == 0:
        return i64(NOT_FOUND)
    limit = read32(frame, AT_LIMIT)
    if limit < 1 or limit > D.g_tokens[table][row] or limit >= D.sequence_tokens:
        return i64(BAD)
    temperature = read32(frame, AT_TEMPERATURE)
    if _sampling_is_valid(temperature, read32(frame, AT_TOP_P)) == 0:
        return i64(BAD)
    if find_request(D, D.g_id[table][row], low, high) >= 0:
        return i64(CONFLICT)
    if D.g_active[table][row] >= D.g_requests[table][row] or has_room(D) == 0:
        return i64(TOO_MANY)
    return i64(0)


@dev
def _write_entry(
    D: Any,
    frame: Any,
    row: Any,
    size: Any,
    rendered: Any,
    marked: Any,
    control: Any,
    dose: Any,
) -> Any:
    """Row 11: the queued entry; its index."""
    table = D.g_table
    low, high = read_id(frame, AT_ID)
    request = take_entry(D, D.g_id[table][row], low, high)
    D.sequence += 1
    D.r_phase[request] = QUEUED
    D.r_role[request] = read32(frame, AT_ROLE)
    D.r_limit[request] = read32(frame, AT_LIMIT)
    D.r_pages[request] = D.g_pages[table][row]
    D.r_temperature[request] = read32(frame, AT_TEMPERATURE)
    D.r_top_p[request] = read32(frame, AT_TOP_P)
    D.r_revision[request] = D.g_revision
    D.r_open[request] = D.now
    D.r_changed[request] = D.now
    D.r_sequence[request] = D.sequence
    D.r_slot[request] = -1
    D.r_payload_bytes[request] = size
    D.r_rendered_bytes[request] = rendered
    D.r_marked[request] = marked
    D.r_total[request] = 0
    D.r_prompt_tokens[request] = 0
    D.r_sampled[request] = 0
    D.r_finish[request] = 0
    D.r_status[request] = 0
    D.r_cancel[request] = 0
    D.r_control[request] = control
    D.r_dose[request] = dose
    lease_sources(D, request)
    D.g_active[table][row] += 1
    queue_append(D, request)
    return request


@dev
def submit(D: Any, channel: Any, length: Any, row: Any) -> None:
    """
    Answer a SUBMIT of the grant in *row*; its payload is kept by `keep_payloads`.
    """
    frame = D.frame[channel]
    status = _judge_fields(D, frame, row)
    selector = read32(frame, AT_SELECTOR_BYTES)
    end = length - selector
    rendered = i64(0)
    marked = i64(0)
    control = i64(-1)
    dose = i64(0)
    if status == 0 and end < HEADER:
        status = i64(BAD)
    if status == 0:
        principal = D.g_id[D.g_table][row]
        owner = find_owner(D, principal[0], principal[1])
        status, rendered, marked = check_prompt(
            D, read32(frame, AT_ROLE), owner, frame, i64(HEADER), end
        )
        if status == OK:
            status = i64(0)
    if status == 0 and selector != 0:
        status, control, dose = judge_selector(D, frame, end, read32(frame, AT_ROLE))
    if status != 0:
        answer(D, channel, status, 0, 0)
        return
    request = _write_entry(D, frame, row, end - HEADER, rendered, marked, control, dose)
    D.store_channel[D.stores] = channel
    D.store_request[D.stores] = request
    D.stores += 1
    answer(D, channel, ACCEPTED, QUEUED, 0)
