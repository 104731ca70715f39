"""
Records for the store, and where their bytes come from.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from twisted_aotx.journal.store import Store
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
    LedgerRow,
    RemovalRecord,
    SourceRecord,
    StoredSource,
)

#: Seconds at which every batch of these tests is committed, unless they say otherwise.
NOON = 1_780_000_000


class Pool:
    """
    The bytes of sources, as the device's pool would hold them.
    """

    def __init__(self) -> None:
        self.bytes = b""
        #: Sizes that were asked for.
        self.reads: list[int] = []

    def source(
        self, data: bytes, *, owner: int = 1, transfer: int = 1, kind: int = 1
    ) -> SourceRecord:
        """The record of a source with *data*."""
        offset = len(self.bytes)
        self.bytes += data
        return SourceRecord(
            owner=owner.to_bytes(16, "big"),
            transfer_id=transfer.to_bytes(16, "big"),
            sha256=hashlib.sha256(data).digest(),
            format=kind,
            offset=offset,
            size=len(data),
        )

    def read(self, record: SourceRecord, start: int, size: int) -> bytes:
        """See `writer.ReadBytes`."""
        assert start + size <= record.size
        self.reads.append(size)
        at = record.offset + start
        return self.bytes[at : at + size]


def removal(*, owner: int = 1, transfer: int = 1) -> RemovalRecord:
    return RemovalRecord(
        owner=owner.to_bytes(16, "big"), transfer_id=transfer.to_bytes(16, "big")
    )


def control(revision: int = 2, **flags: Any) -> ControlRecord:
    values = {"review": False, "paused": False, "stopped": False, **flags}
    return ControlRecord(control_revision=revision, **values)


def row(
    principal: int = 1, model: int = 1, counts: tuple[int, int, int] = (1, 10, 5)
) -> LedgerRow:
    requests, prompt, sampled = counts
    return LedgerRow(
        principal=principal.to_bytes(16, "big"),
        model_sha256=model.to_bytes(32, "big"),
        requests=requests,
        prompt_tokens=prompt,
        sampled_tokens=sampled,
    )


def batch(
    generation: int, *rows: LedgerRow, frontier: int | None = None
) -> LedgerRecord:
    return LedgerRecord(
        frontier=generation if frontier is None else frontier,
        saved_generation=generation,
        rows=rows,
    )


def stored(record: SourceRecord, pool: Pool) -> StoredSource:
    """What the store gives back of *record*."""
    return StoredSource(
        owner=record.owner,
        transfer_id=record.transfer_id,
        sha256=record.sha256,
        format=record.format,
        data=pool.read(record, 0, record.size),
    )


def open_store(folder: Path, store_bytes: int = 1 << 30, now: int = NOON) -> Store:
    return Store(folder, store_bytes=store_bytes, now=lambda: now)
