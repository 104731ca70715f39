"""
The grant table (`device.md` §2, `wire.md` §6).

Rules:
1. Rows exist twice. A replacement is checked into the idle copy and becomes the table
   by one assignment, so a refused one changes nothing.
2. A row is found by principal id through a keyed hash index of its own copy [D6].
3. `g_active` counts the principal's active requests of all revisions. A replacement
   recounts it from the list of active requests.
4. Every row's revision is the table's, so one comparison tells a current frame.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import keyed_hash, read32, read64
from twisted_aotx.device.frames import AT_LIMIT, AT_REVISION, is_zero, read_id
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.numbers import ACT_ALL, BAD, HEADER, OK
from twisted_aotx.limits import PAGE_TOKENS, Capacities

ROW_BYTES = 64
#: Roles that a row may grant: bits 2, 3 and 4.
_ROLES = 0b11100


def grant_fields(capacities: Capacities) -> list[Any]:
    """Two copies of the table and the index of each."""
    rows = capacities.principals
    both = (2, rows)
    return [
        ("g_revision", "<u8"),
        ("g_table", "<i8"),
        ("g_changed", "<i8"),
        ("g_rows", "<i8", (2,)),
        ("g_id", "<u8", (2, rows, 2)),
        ("g_actions", "<i8", both),
        ("g_roles", "<i8", both),
        ("g_pages", "<i8", both),
        ("g_tokens", "<i8", both),
        ("g_requests", "<i8", both),
        ("g_media", "<i8", both),
        ("g_media_bytes", "<u8", both),
        ("g_active", "<i8", both),
        ("g_next", "<i8", both),
        # row + 1 of the first row in a bucket; 0 is none
        ("g_bucket", "<i8", (2, power_of_two(2 * rows))),
    ]


@dev
def _bucket(D: Any, low: Any, high: Any) -> Any:
    hashed = keyed_hash(D.hash_key, low, high, u64(0), u64(0))
    return hashed & (len(D.g_bucket[0]) - 1)


@dev
def _find(D: Any, table: Any, low: Any, high: Any) -> Any:
    row = D.g_bucket[table][_bucket(D, low, high)] - 1
    while row >= 0:
        if D.g_id[table][row][0] == low and D.g_id[table][row][1] == high:
            return row
        row = D.g_next[table][row]
    return i64(-1)


@dev
def find_grant(D: Any, low: Any, high: Any) -> Any:
    """The row of the principal in the table in force, or -1."""
    return _find(D, D.g_table, low, high)


@dev
def count_active(D: Any, request: Any, change: Any) -> None:
    """Add *change* to the active requests of the principal of *request*."""
    row = find_grant(D, D.r_principal[request][0], D.r_principal[request][1])
    if row >= 0:
        D.g_active[D.g_table][row] += change


@dev
def _forget(D: Any, table: Any) -> None:
    """Empty the index of *table*; the cost follows its rows."""
    for row in range(D.g_rows[table]):
        D.g_bucket[table][_bucket(D, D.g_id[table][row][0], D.g_id[table][row][1])] = 0
    D.g_rows[table] = 0


@dev
def _row_is_valid(D: Any, frame: Any, at: Any) -> Any:
    pages_max = (D.sequence_tokens + PAGE_TOKENS - 1) // PAGE_TOKENS
    actions = read32(frame, at + 24)
    roles = read32(frame, at + 28)
    tokens = read32(frame, at + 36)
    requests = read32(frame, at + 40)
    low, high = read_id(frame, at)
    if low == u64(0) and high == u64(0):
        return i64(0)
    if read64(frame, at + 16) != read64(frame, AT_REVISION):
        return i64(0)
    if actions == 0 or (actions | ACT_ALL) != ACT_ALL:
        return i64(0)
    if (roles | _ROLES) != _ROLES or read32(frame, at + 32) > pages_max:
        return i64(0)
    if tokens < 1 or tokens > D.sequence_tokens - 1:
        return i64(0)
    if requests < 1 or requests > D.requests:
        return i64(0)
    return is_zero(frame, at + 56, at + 64)


@dev
def _add_row(D: Any, table: Any, frame: Any, at: Any) -> Any:
    """Append a row to *table*; 0 if its principal is there already."""
    low, high = read_id(frame, at)
    if _find(D, table, low, high) >= 0:
        return i64(0)
    row = D.g_rows[table]
    D.g_id[table][row][0] = low
    D.g_id[table][row][1] = high
    D.g_actions[table][row] = read32(frame, at + 24)
    D.g_roles[table][row] = read32(frame, at + 28)
    pages = read32(frame, at + 32)
    if pages == 0:
        pages = (D.sequence_tokens + PAGE_TOKENS - 1) // PAGE_TOKENS
    D.g_pages[table][row] = pages
    D.g_tokens[table][row] = read32(frame, at + 36)
    D.g_requests[table][row] = read32(frame, at + 40)
    D.g_media[table][row] = read32(frame, at + 44)
    D.g_media_bytes[table][row] = read64(frame, at + 48)
    D.g_active[table][row] = 0
    bucket = _bucket(D, low, high)
    D.g_next[table][row] = D.g_bucket[table][bucket] - 1
    D.g_bucket[table][bucket] = row + 1
    D.g_rows[table] = row + 1
    return i64(1)


@dev
def install(D: Any, frame: Any, length: Any) -> Any:
    """
    Check the table in *frame* and put it in force: 200, or 400 and nothing changed.
    """
    count = read32(frame, AT_LIMIT)
    revision = read64(frame, AT_REVISION)
    if count > D.principals or length != HEADER + ROW_BYTES * count:
        return i64(BAD)
    if revision == u64(0) or revision <= D.g_revision:
        return i64(BAD)
    idle = 1 - D.g_table
    for n in range(count):
        at = HEADER + ROW_BYTES * n
        if _row_is_valid(D, frame, at) == 0 or _add_row(D, idle, frame, at) == 0:
            _forget(D, idle)
            return i64(BAD)
    _forget(D, D.g_table)
    D.g_table = idle
    D.g_revision = revision
    D.g_changed = 1
    request = D.r_head[1]
    while request >= 0:
        count_active(D, request, 1)
        request = D.r_next[request]
    return i64(OK)
