"""
The tables of the state store, and how they came to be.

Rules:
1. `MIGRATIONS[n]` takes a database of version n to version n + 1; what was released is
   never edited. `user_version` is the version, `application_id` says whose file it is.
2. A u64 stands as the signed number of the same 64 bits: SQLite has no other. So such
   columns are compared for equality only, and sums are made in Python.
3. `sources` and `parts`: a source's bytes in parts of `PART_BYTES`, numbered from 0;
   SQLite holds less than 1 GiB in one value. Sources are restored in order of `id`.
4. `policy`: one row at most; the control state, the frontier of the ledger and the
   generation of its last save. `ledger`: totals per principal and model.
5. `batches` and `increments`: what each committed batch added, in order of `id`; the
   oldest go when there are too many (`writer`). `committed_at` and `last_seen` are
   Unix seconds, UTC. `last_increment` is the id of the batch's last increment, or of
   the one before it.
6. `models`: which model served each role in the last activation; names for people.
"""

from __future__ import annotations

import sqlite3
from typing import Final

#: "AOTX".
APPLICATION_ID: Final = 0x414F5458
#: Bytes of a source in one row.
PART_BYTES: Final = 1 << 20

_BLOB: Final = "BLOB NOT NULL CHECK (typeof({0}) = 'blob' AND length({0}) = {1})"
_OWNER: Final = f"owner {_BLOB.format('owner', 16)}"
_TRANSFER: Final = f"transfer_id {_BLOB.format('transfer_id', 16)}"
_SHA256: Final = f"sha256 {_BLOB.format('sha256', 32)}"
_PRINCIPAL: Final = f"principal {_BLOB.format('principal', 16)}"
_MODEL: Final = f"model_sha256 {_BLOB.format('model_sha256', 32)}"
_COUNTS: Final = """
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    sampled_tokens INTEGER NOT NULL
"""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        f"""CREATE TABLE sources (
            id INTEGER PRIMARY KEY,
            {_OWNER},
            {_TRANSFER},
            {_SHA256},
            format INTEGER NOT NULL,
            size INTEGER NOT NULL,
            UNIQUE (owner, transfer_id)
        )""",
        """CREATE TABLE parts (
            source INTEGER NOT NULL,
            number INTEGER NOT NULL,
            data BLOB NOT NULL,
            UNIQUE (source, number)
        )""",
        """CREATE TABLE policy (
            one INTEGER PRIMARY KEY CHECK (one = 1),
            control_revision INTEGER NOT NULL,
            review INTEGER NOT NULL,
            paused INTEGER NOT NULL,
            stopped INTEGER NOT NULL,
            frontier INTEGER NOT NULL,
            saved_generation INTEGER NOT NULL
        )""",
        f"""CREATE TABLE ledger (
            {_PRINCIPAL},
            {_MODEL},
            {_COUNTS},
            last_seen INTEGER NOT NULL,
            PRIMARY KEY (principal, model_sha256)
        ) WITHOUT ROWID""",
        """CREATE TABLE batches (
            id INTEGER PRIMARY KEY,
            saved_generation INTEGER NOT NULL,
            frontier INTEGER NOT NULL,
            committed_at INTEGER NOT NULL,
            last_increment INTEGER NOT NULL
        )""",
        # AUTOINCREMENT: the order stands even if every row was deleted.
        f"""CREATE TABLE increments (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            batch INTEGER NOT NULL,
            {_PRINCIPAL},
            {_MODEL},
            {_COUNTS}
        )""",
        f"""CREATE TABLE models (
            role INTEGER PRIMARY KEY,
            {_MODEL}
        )""",
    ),
)
VERSION: Final = len(MIGRATIONS)

_U64: Final = 1 << 64
_SIGN: Final = 1 << 63


def stored(value: int) -> int:
    """
    How the u64 *value* stands in the database (rule 2).

    Raises:
        ValueError: it is none.
    """
    if not 0 <= value < _U64:
        raise ValueError(f"{value} is no u64")
    return value - _U64 if value >= _SIGN else value


def read_u64(column: object) -> int:
    """
    The u64 that *column* stands for.

    Raises:
        ValueError: the column holds no integer.
    """
    if not isinstance(column, int):
        raise ValueError(f"{type(column).__name__} is no number")
    return column % _U64


def add_u64(total: int, more: int) -> int:
    """The sum, at most what 64 bits hold: a count that stands is better than none."""
    return min(total + more, _U64 - 1)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a database of *version* to `VERSION`, all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
