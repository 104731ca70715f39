"""
The usage ledger for people: totals, or what was committed since a time [D11].

Reads beside a runtime that writes; one look is of one moment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from twisted_aotx.journal.database import open_for_reading
from twisted_aotx.journal.errors import told_of
from twisted_aotx.journal.schema import add_u64, read_u64


@attrs.frozen(kw_only=True)
class Usage:
    """
    What one principal used of one model.
    """

    #: 16 bytes; zero for what found no row of its own.
    principal: bytes
    #: 32 bytes; zero for what found no row of its own.
    model_sha256: bytes
    requests: int
    prompt_tokens: int
    sampled_tokens: int
    #: When the last of it was committed, in Unix seconds.
    last_seen: int


@attrs.frozen(kw_only=True)
class UsageReport:
    """
    The ledger at one moment.
    """

    #: Ordered by principal and model.
    rows: tuple[Usage, ...]
    #: Requests that were taken into the ledger or passed over, in all.
    frontier: int
    #: The policy's controls as they were saved last: review, and their revision.
    review: bool
    control_revision: int
    #: Role → SHA-256 of the model that served it in the last activation.
    models: Mapping[int, bytes]
    #: Commit time of the oldest batch that is kept, in Unix seconds; None without any.
    #: What was committed before is known as totals only.
    kept_since: int | None


_TOTALS: Final = """
    SELECT principal, model_sha256, requests, prompt_tokens, sampled_tokens, last_seen
    FROM ledger
"""
_SINCE: Final = """
    SELECT principal, model_sha256, requests, prompt_tokens, sampled_tokens,
        committed_at
    FROM increments JOIN batches ON batches.id = increments.batch
    WHERE committed_at >= ?
"""


def read_usage(path: Path, since: int | None = None) -> UsageReport:
    """
    The ledger of the store at *path*.

    Args:
        path: The database file.
        since: Unix seconds: only what was committed then or later. None: all.

    Raises:
        StoreError: there is no store, or it cannot be read.
    """
    with told_of(path):
        connection = open_for_reading(path)
        try:
            connection.execute("BEGIN")
            return _report(connection, since)
        finally:
            connection.close()


def _report(connection: sqlite3.Connection, since: int | None) -> UsageReport:
    found: dict[tuple[bytes, bytes], Usage] = {}
    query = (_TOTALS, ()) if since is None else (_SINCE, (since,))
    for principal, model, *counts, seen in connection.execute(*query):
        key = (principal, model)
        requests, prompt, sampled = map(read_u64, counts)
        earlier = found.get(key)
        if earlier is not None:
            requests = add_u64(requests, earlier.requests)
            prompt = add_u64(prompt, earlier.prompt_tokens)
            sampled = add_u64(sampled, earlier.sampled_tokens)
            seen = max(seen, earlier.last_seen)
        found[key] = Usage(
            principal=principal,
            model_sha256=model,
            requests=requests,
            prompt_tokens=prompt,
            sampled_tokens=sampled,
            last_seen=seen,
        )
    (kept_since,) = connection.execute(
        "SELECT min(committed_at) FROM batches"
    ).fetchone()
    policy = connection.execute(
        "SELECT frontier, review, control_revision FROM policy"
    ).fetchone()
    # What a first activation has (`device.md` §14).
    frontier, review, revision = policy or (0, 0, 1)
    return UsageReport(
        rows=tuple(found[key] for key in sorted(found)),
        frontier=read_u64(frontier),
        review=review == 1,
        control_revision=read_u64(revision),
        models=dict(connection.execute("SELECT role, model_sha256 FROM models")),
        kept_since=kept_since,
    )
