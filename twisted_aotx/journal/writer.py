"""
What each record changes in the database. Runs inside a transaction of `store`.

Rules:
1. A source that is there with the same digest, size and format stays as it is; one with
   another content is replaced. A removal of what is not there changes nothing.
2. A batch adds its rows to the ledger, is kept with its rows and its time, and moves
   the frontier, all at once [D11].
3. At most *increments_max* increments, and the newest batch, are kept: older batches
   go, whole. The ledger's totals stay.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from twisted_aotx.journal.schema import PART_BYTES, add_u64, read_u64, stored
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
    LedgerRow,
    RemovalRecord,
    SourceRecord,
)

#: (record, start, size) → that part of what the record keeps.
ReadBytes = Callable[[SourceRecord, int, int], bytes]


def has_source(connection: sqlite3.Connection, record: SourceRecord) -> bool:
    """Whether exactly this source is kept already."""
    found = connection.execute(
        "SELECT sha256, format, size FROM sources WHERE owner = ? AND transfer_id = ?",
        (record.owner, record.transfer_id),
    ).fetchone()
    return bool(found == (record.sha256, record.format, record.size))


def keep_source(
    connection: sqlite3.Connection, record: SourceRecord, read_bytes: ReadBytes
) -> None:
    """Keep *record*, which is not kept yet, and its bytes (rule 1)."""
    earlier = RemovalRecord(owner=record.owner, transfer_id=record.transfer_id)
    remove_source(connection, earlier)
    source = connection.execute(
        "INSERT INTO sources (owner, transfer_id, sha256, format, size) "
        "VALUES (?, ?, ?, ?, ?)",
        (
            *(record.owner, record.transfer_id, record.sha256),
            *(record.format, record.size),
        ),
    ).lastrowid
    for number, start in enumerate(range(0, record.size, PART_BYTES)):
        size = min(PART_BYTES, record.size - start)
        data = read_bytes(record, start, size)
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes of a source where {size} were due")
        connection.execute(
            "INSERT INTO parts (source, number, data) VALUES (?, ?, ?)",
            (source, number, data),
        )


def remove_source(connection: sqlite3.Connection, record: RemovalRecord) -> None:
    """Remove a source and its bytes, if it is there."""
    found = connection.execute(
        "SELECT id FROM sources WHERE owner = ? AND transfer_id = ?",
        (record.owner, record.transfer_id),
    ).fetchone()
    if found is not None:
        connection.execute("DELETE FROM parts WHERE source = ?", found)
        connection.execute("DELETE FROM sources WHERE id = ?", found)


def keep_control(connection: sqlite3.Connection, record: ControlRecord) -> None:
    """The policy's control state is now *record*'s."""
    _have_policy(connection)
    connection.execute(
        "UPDATE policy SET control_revision = ?, review = ?, paused = ?, stopped = ?",
        (
            stored(record.control_revision),
            *(int(record.review), int(record.paused), int(record.stopped)),
        ),
    )


def keep_batch(
    connection: sqlite3.Connection,
    record: LedgerRecord,
    now: int,
    increments_max: int,
) -> None:
    """Take *record* into the ledger (rules 2 and 3); *now* in Unix seconds."""
    batch = connection.execute(
        "INSERT INTO batches (saved_generation, frontier, committed_at, last_increment)"
        " VALUES (?, ?, ?, (SELECT coalesce(max(id), 0) FROM increments))",
        (stored(record.saved_generation), stored(record.frontier), now),
    ).lastrowid
    for row in record.rows:
        last = connection.execute(
            "INSERT INTO increments "
            "(batch, principal, model_sha256, requests, prompt_tokens, sampled_tokens)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(batch, row.principal, row.model_sha256),
                *(stored(row.requests), stored(row.prompt_tokens)),
                stored(row.sampled_tokens),
            ),
        ).lastrowid
        connection.execute(
            "UPDATE batches SET last_increment = ? WHERE id = ?", (last, batch)
        )
        _add(connection, row, now)
    _have_policy(connection)
    connection.execute(
        "UPDATE policy SET frontier = ?, saved_generation = ?",
        (stored(record.frontier), stored(record.saved_generation)),
    )
    _forget_old(connection, increments_max)


def _have_policy(connection: sqlite3.Connection) -> None:
    """The row of a first activation (`device.md` §14), unless there is one."""
    connection.execute("INSERT OR IGNORE INTO policy VALUES (1, 1, 0, 0, 0, 0, 0)")


def _add(connection: sqlite3.Connection, row: LedgerRow, now: int) -> None:
    """Add an increment to its totals; in Python, as u64 is none of SQLite's types."""
    key = (row.principal, row.model_sha256)
    found = connection.execute(
        "SELECT requests, prompt_tokens, sampled_tokens FROM ledger "
        "WHERE principal = ? AND model_sha256 = ?",
        key,
    ).fetchone()
    more = (row.requests, row.prompt_tokens, row.sampled_tokens)
    totals = [
        stored(add_u64(read_u64(total), add))
        for total, add in zip(found or (0, 0, 0), more, strict=True)
    ]
    connection.execute(
        "INSERT OR REPLACE INTO ledger VALUES (?, ?, ?, ?, ?, ?)",
        (*key, *totals, now),
    )


def _forget_old(connection: sqlite3.Connection, increments_max: int) -> None:
    (last,) = connection.execute(
        "SELECT coalesce(max(id), 0) FROM increments"
    ).fetchone()
    oldest = connection.execute(
        "SELECT id, last_increment FROM batches ORDER BY id LIMIT 16"
    ).fetchall()
    for batch, last_of_batch in oldest[:-1]:
        if last_of_batch > last - increments_max:
            return
        connection.execute("DELETE FROM increments WHERE id <= ?", (last_of_batch,))
        connection.execute("DELETE FROM batches WHERE id = ?", (batch,))
