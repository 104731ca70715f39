"""
What a device takes over from the last activation (`device.md` §11, D12, D13).
"""

from __future__ import annotations

import hashlib

from tests.device.oracle import preparation
from tests.device.oracle.media_state import (
    DECODING,
    DIGEST,
    LIMIT,
    PRESSURE,
    MediaSource,
)
from tests.device.oracle.state import State
from twisted_aotx.orders import StoredPolicy, StoredSource


def restore_policy(state: State, stored: StoredPolicy) -> None:
    """Control state, frontier and ledger; the other counters start at 0."""
    policy = state.policy
    policy.revision = stored.control.control_revision
    policy.review = stored.control.review
    policy.paused = stored.control.paused
    policy.stopped = stored.control.stopped
    policy.frontier = policy.number = stored.frontier
    policy.saved_generation = stored.saved_generation
    policy.ledger = {
        (row.principal, row.model_sha256): [
            row.requests,
            row.prompt_tokens,
            row.sampled_tokens,
        ]
        for row in stored.ledger
    }


def restore_source(state: State, stored: StoredSource) -> int:
    """0, or the status that says why it does not fit."""
    media = state.media
    index = media.free_descriptor()
    if index is None:
        return PRESSURE
    source = MediaSource(
        index=index,
        generation=media.generation + 1,
        owner=stored.owner,
        id=stored.transfer_id,
        sha256=stored.sha256,
        size=len(stored.data),
        format=stored.format,
        data=bytearray(stored.data),
        phase=DECODING,
    )
    if source.size > media.bytes_pool.size:
        return LIMIT
    if media.bytes_pool.room(source.size) is None:
        return PRESSURE
    if hashlib.sha256(stored.data).digest() != stored.sha256:
        return DIGEST
    found = preparation.content(state, source)
    if found.status:
        return found.status
    pool = media.rows_pools[source.format]
    if found.rows > pool.size:
        return LIMIT
    rows_at = pool.take(found.rows)
    if rows_at is None:
        return PRESSURE
    offset = media.bytes_pool.take(source.size)
    source.offset, source.rows_at = offset, rows_at
    media.add(index, source)
    preparation.make_ready(state, source)
    return 0
