"""
Controls that the engine of the default language role offers (`device.md` §10), and
selections of them (`wire.md` §7, §8).

Rules:
1. Rows are written once, by `configure_control`, before the first tick.
2. `H.control_state[row]` is the host's word: 1 while the engine has withdrawn the row.
   `look_at_controls` copies it once per tick, so a tick judges by one state.
3. A row that is withdrawn shows no dose: it is available exactly when there is a dose.
4. An accepted selection is its row and dose, kept in the request until its lease ends;
   the row is looked at again when the request is leased.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release
from twisted_aotx.device.bits import read32, read64, write32, write64
from twisted_aotx.device.frames import is_zero
from twisted_aotx.device.numbers import BAD, UNAVAILABLE
from twisted_aotx.device.roles import is_available
from twisted_aotx.limits import (
    CONTROL_ROWS_MAX,
    DOSES_MAX,
    SELECTOR_BYTES,
    Capacities,
)

CONTROL_ROW_BYTES = 160
#: Bytes of a control's name, its padding included.
NAME_BYTES = 32
#: The one role whose engine may declare controls: `wire.numbers.Role.LANGUAGE`.
CONTROL_ROLE = 2
_DIGEST_BYTES = 32
_DOSE_MAX = 40000


def control_host_fields(capacities: Capacities) -> list[Any]:
    """The host's word of each row, and per slot what an order says of a selection."""
    slots = (capacities.slots,)
    return [
        ("control_state", "<i8", (CONTROL_ROWS_MAX,)),
        # the row, or -1
        ("o_control", "<i8", slots),
        ("o_dose", "<i8", slots),
        ("o_qualification", "u1", (capacities.slots, _DIGEST_BYTES)),
    ]


def control_fields(capacities: Capacities) -> list[Any]:
    """One column per field of a row; `c_rows` of them are used."""
    rows = (CONTROL_ROWS_MAX,)
    return [
        ("c_rows", "<i8"),
        ("c_positions", "<i8", rows),
        ("c_layers", "<u8", rows),
        ("c_name", "u1", (CONTROL_ROWS_MAX, NAME_BYTES)),
        ("c_digest", "u1", (CONTROL_ROWS_MAX, _DIGEST_BYTES)),
        ("c_dose_count", "<i8", rows),
        ("c_dose", "<i8", (CONTROL_ROWS_MAX, DOSES_MAX)),
        ("c_withdrawn", "<i8", rows),
    ]


@dev
def _signed32(word: Any) -> Any:
    """An i32 that was read as u32."""
    if word >= 1 << 31:
        return word - (i64(1) << 32)
    return word + i64(0)


@dev
def configure_control(D: Any, row: Any) -> None:
    """
    Append the control whose *row*, (160,) u8, is what INFO shows (`wire.md` §7).
    """
    at = D.c_rows + i64(0)
    D.c_positions[at] = read32(row, 12)
    D.c_layers[at] = read64(row, 24)
    D.c_dose_count[at] = read32(row, 20)
    for k in range(NAME_BYTES):
        D.c_name[at][k] = row[32 + k]
    for k in range(_DIGEST_BYTES):
        D.c_digest[at][k] = row[64 + k]
    for k in range(D.c_dose_count[at]):
        D.c_dose[at][k] = _signed32(read32(row, 96 + 4 * k))
    D.c_rows = at + 1


@dev
def set_control_state(H: Any, row: Any, available: Any) -> None:
    """Host: the engine withdrew (0) or offers (1) the control in *row*."""
    store_release(H.control_state, row, 1 - available)


@dev
def look_at_controls(H: Any, D: Any) -> None:
    """Lane 0, at the start of a tick."""
    for row in range(D.c_rows):
        D.c_withdrawn[row] = load_acquire(H.control_state, row)


@dev
def control_available(D: Any, row: Any) -> Any:
    """1 if a request may select *row* now, else 0."""
    if D.c_withdrawn[row] != 0 or D.c_dose_count[row] == 0:
        return i64(0)
    return i64(1)


@dev
def _write_control(D: Any, frame: Any, at: Any, row: Any) -> None:
    for k in range(at, at + CONTROL_ROW_BYTES):
        frame[k] = 0
    write32(frame, at, i64(CONTROL_ROLE))
    write32(frame, at + 4, i64(1))
    write32(frame, at + 12, D.c_positions[row])
    write32(frame, at + 16, i64(1))
    write64(frame, at + 24, D.c_layers[row])
    for k in range(NAME_BYTES):
        frame[at + 32 + k] = D.c_name[row][k]
    for k in range(_DIGEST_BYTES):
        frame[at + 64 + k] = D.c_digest[row][k]
    if control_available(D, row) == 1:
        write32(frame, at + 8, i64(1))
        write32(frame, at + 20, D.c_dose_count[row])
        for k in range(D.c_dose_count[row]):
            write32(frame, at + 96 + 4 * k, D.c_dose[row][k])


@dev
def write_controls(D: Any, frame: Any, at: Any, roles: Any) -> Any:
    """
    Write the control rows that *roles* opens from byte *at* of *frame*; how many.
    """
    if is_available(D, i64(CONTROL_ROLE), roles) == 0:
        return i64(0)
    for row in range(D.c_rows):
        _write_control(D, frame, at + row * CONTROL_ROW_BYTES, row)
    return D.c_rows + i64(0)


@dev
def _find_control(D: Any, frame: Any, start: Any) -> Any:
    """The one row that the digest at byte *start* names, or -1: none, or two."""
    found = i64(-1)
    for row in range(D.c_rows):
        differs = i64(0)
        for k in range(_DIGEST_BYTES):
            differs |= i64(D.c_digest[row][k]) ^ i64(frame[start + k])
        if differs == 0:
            if found >= 0:
                return i64(-1)
            found = i64(row)
    return found


@dev
def judge_selector(D: Any, frame: Any, start: Any, role: Any) -> Any:
    """
    Row 10 of SUBMIT for the selector at byte *start* of *frame*.

    Returns (status, row, dose): status 0 with the selection, or with row -1 for 48 zero
    bytes; 400 for a wrong shape, 503 for what cannot be selected.
    """
    none = i64(-1)
    zero = i64(0)
    if is_zero(frame, start, start + SELECTOR_BYTES) == 1:
        return zero, none, zero
    if read32(frame, start) != 1 or read32(frame, start + 4) != 1:
        return i64(BAD), none, zero
    dose = _signed32(read32(frame, start + 8))
    if dose == 0 or dose > _DOSE_MAX or dose < -_DOSE_MAX:
        return i64(BAD), none, zero
    digest = start + 16
    if read32(frame, start + 12) != 0 or is_zero(frame, digest, digest + 32) == 1:
        return i64(BAD), none, zero
    if role != CONTROL_ROLE:
        return i64(UNAVAILABLE), none, zero
    row = _find_control(D, frame, digest)
    if row < 0 or control_available(D, row) == 0:
        return i64(UNAVAILABLE), none, zero
    for k in range(D.c_dose_count[row]):
        if D.c_dose[row][k] == dose:
            return zero, row, dose
    return i64(UNAVAILABLE), none, zero


@dev
def write_selection(H: Any, D: Any, slot: Any, request: Any) -> None:
    """Put the selection of *request* into the open order of *slot*."""
    row = D.r_control[request]
    H.o_control[slot] = row
    H.o_dose[slot] = D.r_dose[request]
    if row >= 0:
        for k in range(_DIGEST_BYTES):
            H.o_qualification[slot][k] = D.c_digest[row][k]
