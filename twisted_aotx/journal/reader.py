"""
What the store gives back at start (`device.md` §11).

Nothing that was read is believed: a policy row with a value that cannot be is
`ValueError`, a source that is not whole is `StoreUnusable`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from twisted_aotx.journal.errors import StoreUnusable
from twisted_aotx.journal.schema import read_u64
from twisted_aotx.orders import ControlRecord, LedgerRow, StoredPolicy, StoredSource

_ID_BYTES: Final = 16
_SHA256_BYTES: Final = 32


def read_policy(connection: sqlite3.Connection) -> StoredPolicy | None:
    """
    Control state, frontier and ledger; None if nothing was saved yet.

    Raises:
        ValueError: a value that cannot be.
    """
    row = connection.execute(
        "SELECT control_revision, review, paused, stopped, frontier, saved_generation "
        "FROM policy"
    ).fetchone()
    ledger = tuple(_ledger_row(row) for row in _ledger(connection))
    if row is None:
        if ledger:
            raise ValueError("there is a ledger, but no policy state")
        return None
    revision, *flags, frontier, generation = row
    for flag in flags:
        if flag not in (0, 1):
            raise ValueError("a flag of the policy state is neither 0 nor 1")
    if not read_u64(revision):
        raise ValueError("the control revision is 0")
    review, paused, stopped = map(bool, flags)
    control = ControlRecord(
        control_revision=read_u64(revision),
        review=review,
        paused=paused,
        stopped=stopped,
    )
    return StoredPolicy(
        control=control,
        frontier=read_u64(frontier),
        saved_generation=read_u64(generation),
        ledger=ledger,
    )


def read_sources(path: Path, connection: sqlite3.Connection) -> Iterator[StoredSource]:
    """
    Every source in the order saved; *path* is for errors.

    Raises:
        StoreUnusable: a source is not whole.
    """
    ids = connection.execute("SELECT id FROM sources ORDER BY id").fetchall()
    for (source,) in ids:
        owner, transfer_id, sha256, kind, size = connection.execute(
            "SELECT owner, transfer_id, sha256, format, size FROM sources WHERE id = ?",
            (source,),
        ).fetchone()
        parts = connection.execute(
            "SELECT data FROM parts WHERE source = ? ORDER BY number", (source,)
        ).fetchall()
        data = b"".join(part for (part,) in parts)
        if len(data) != size:
            raise StoreUnusable(path, "is damaged (the bytes of a source are missing)")
        yield StoredSource(
            owner=owner, transfer_id=transfer_id, sha256=sha256, format=kind, data=data
        )


def _ledger(connection: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
    yield from connection.execute(
        "SELECT principal, model_sha256, requests, prompt_tokens, sampled_tokens "
        "FROM ledger ORDER BY principal, model_sha256"
    )


def _ledger_row(row: tuple[object, ...]) -> LedgerRow:
    principal, model, requests, prompt, sampled = row
    if not isinstance(principal, bytes) or len(principal) != _ID_BYTES:
        raise ValueError("a principal of the ledger has not 16 bytes")
    if not isinstance(model, bytes) or len(model) != _SHA256_BYTES:
        raise ValueError("a model of the ledger has not 32 bytes")
    return LedgerRow(
        principal=principal,
        model_sha256=model,
        requests=read_u64(requests),
        prompt_tokens=read_u64(prompt),
        sampled_tokens=read_u64(sampled),
    )
