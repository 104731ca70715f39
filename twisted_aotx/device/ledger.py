"""
The usage ledger: totals per principal and model digest [D11].

Rules:
1. Row 0 is that of principal zero and digest zero: what finds no row is folded into it.
   4 rows per principal of the grant table follow; a row is never given back.
2. A row is found through a keyed hash index [D6]; row 0 is not in it.
3. A batch is summed up into `H.ledger_batch`, one row per principal and digest in order
   of appearance, when it is committed. The ledger changes when the store has it.
4. Totals are modulo 2^64.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import add64, keyed_hash, read64
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.usage import usage_at
from twisted_aotx.limits import Capacities

_ROWS_PER_PRINCIPAL = 4
#: Words of a row in a batch that name it: principal 2, digest 4.
_KEY_WORDS = 6
_REQUESTS = 6
_PROMPT = 7
_SAMPLED = 8


def ledger_fields(capacities: Capacities) -> list[Any]:
    """One column per field of a row, then the index."""
    count = _ROWS_PER_PRINCIPAL * capacities.principals + 1
    rows = (count,)
    return [
        ("ledger_key", "<u8", (count, _KEY_WORDS)),
        ("ledger_requests", "<u8", rows),
        ("ledger_prompt", "<u8", rows),
        ("ledger_sampled", "<u8", rows),
        ("ledger_next", "<i8", rows),
        # row + 1 of the first row in a bucket; 0 is none
        ("ledger_bucket", "<i8", (power_of_two(2 * count),)),
        # rows in use, row 0 aside
        ("ledger_rows", "<i8"),
        # the key of the record that is summed up
        ("ledger_scratch", "<u8", (_KEY_WORDS,)),
        # requests in all rows when the device started
        ("ledger_base", "<u8"),
    ]


@dev
def _bucket(D: Any, key: Any) -> Any:
    hashed = keyed_hash(D.hash_key, key[0], key[1], key[2], key[3])
    return hashed & (len(D.ledger_bucket) - 1)


@dev
def _same_key(a: Any, b: Any) -> Any:
    """1 if two rows have the same principal and digest, else 0."""
    for k in range(_KEY_WORDS):
        if a[k] != b[k]:
            return i64(0)
    return i64(1)


@dev
def find_row(D: Any, key: Any) -> Any:
    """The row of *key*, (6,) u64, or -1."""
    row = D.ledger_bucket[_bucket(D, key)] - 1
    while row >= 0:
        if _same_key(D.ledger_key[row], key) == 1:
            return row
        row = D.ledger_next[row]
    return i64(-1)


@dev
def _is_zero(key: Any) -> Any:
    for k in range(_KEY_WORDS):
        if key[k] != u64(0):
            return i64(0)
    return i64(1)


@dev
def _need_row(D: Any, key: Any) -> Any:
    """The row of *key*, made if there is room for one; else row 0."""
    if _is_zero(key) == 1:
        return i64(0)
    row = find_row(D, key)
    if row >= 0:
        return row
    if D.ledger_rows >= len(D.ledger_requests) - 1:
        return i64(0)
    D.ledger_rows += 1
    row = D.ledger_rows + i64(0)
    for k in range(_KEY_WORDS):
        D.ledger_key[row][k] = key[k]
    bucket = _bucket(D, key)
    D.ledger_next[row] = D.ledger_bucket[bucket] - 1
    D.ledger_bucket[bucket] = row + 1
    return row


@dev
def _add(D: Any, entry: Any) -> None:
    """Add *entry*, (9,) u64, to its row."""
    row = _need_row(D, entry)
    D.ledger_requests[row] = add64(D.ledger_requests[row], entry[_REQUESTS])
    D.ledger_prompt[row] = add64(D.ledger_prompt[row], entry[_PROMPT])
    D.ledger_sampled[row] = add64(D.ledger_sampled[row], entry[_SAMPLED])


@dev
def restore_ledger(D: Any, entries: Any) -> None:
    """
    Start only: take over *entries*, (n, 9) u64.

    What has no room here (the store holds more principals than this device has room
    for) goes to row 0.
    """
    for n in range(len(entries)):
        _add(D, entries[n])
        D.ledger_base = add64(D.ledger_base, entries[n][_REQUESTS])


@dev
def _write_key(D: Any, entry: Any, at: Any) -> None:
    """Name *entry* after the usage record at ring position *at*."""
    digest = D.role_digest[D.v_role[at]]
    entry[0] = D.v_principal[at][0]
    entry[1] = D.v_principal[at][1]
    for k in range(4):
        entry[2 + k] = read64(digest, 8 * k)


@dev
def _find_entry(H: Any, rows: Any, key: Any) -> Any:
    """Which of the batch's first *rows* entries is that of *key*, or -1."""
    for n in range(rows):
        if _same_key(H.ledger_batch[n], key) == 1:
            return i64(n)
    return i64(-1)


@dev
def sum_up(H: Any, D: Any, count: Any) -> Any:
    """
    Sum the *count* records after the frontier up into `H.ledger_batch`.

    Returns (entries, records that are folded into principal zero's).
    """
    rows = i64(0)
    made = i64(0)
    folded = i64(0)
    for n in range(count):
        at = usage_at(D, D.frontier + 1 + n)
        key = D.ledger_scratch
        _write_key(D, key, at)
        entry = _find_entry(H, rows, key)
        if entry < 0 and find_row(D, key) < 0:
            if D.ledger_rows + made >= len(D.ledger_requests) - 1:
                folded += 1
                for k in range(_KEY_WORDS):
                    key[k] = u64(0)
                entry = _find_entry(H, rows, key)
            else:
                made += 1
        if entry < 0:
            entry = rows
            rows += 1
            for k in range(_KEY_WORDS):
                H.ledger_batch[entry][k] = key[k]
            for k in range(_REQUESTS, _SAMPLED + 1):
                H.ledger_batch[entry][k] = u64(0)
        row = H.ledger_batch[entry]
        row[_REQUESTS] = row[_REQUESTS] + u64(1)
        row[_PROMPT] = row[_PROMPT] + u64(D.v_prompt[at])
        row[_SAMPLED] = row[_SAMPLED] + u64(D.v_sampled[at])
    return rows, folded


@dev
def apply_batch(H: Any, D: Any, rows: Any) -> None:
    """The store has the batch: add its *rows* entries."""
    for n in range(rows):
        _add(D, H.ledger_batch[n])
