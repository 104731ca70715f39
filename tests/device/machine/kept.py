"""
What a state store has of a device's records, for the next activation.
"""

from __future__ import annotations

import attrs

from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
    LedgerRow,
    RemovalRecord,
    SourceRecord,
    StoredPolicy,
    StoredSource,
    StoreRecord,
)


@attrs.define
class Kept:
    """Everything that was saved, each kind by itself."""

    #: By owner and transfer id, in the order saved.
    sources: dict[tuple[bytes, bytes], StoredSource] = attrs.field(factory=dict)
    control: ControlRecord | None = None
    frontier: int = 0
    saved_generation: int = 0
    #: Requests, prompt tokens and sampled tokens by principal and model digest.
    ledger: dict[tuple[bytes, bytes], list[int]] = attrs.field(factory=dict)

    def save(self, record: StoreRecord, data: bytes) -> None:
        """*data* are the bytes of a source."""
        if isinstance(record, ControlRecord):
            self.control = record
        elif isinstance(record, LedgerRecord):
            self._add(record)
        elif isinstance(record, RemovalRecord):
            self.sources.pop((record.owner, record.transfer_id), None)
        elif isinstance(record, SourceRecord):
            self.sources[record.owner, record.transfer_id] = StoredSource(
                owner=record.owner,
                transfer_id=record.transfer_id,
                sha256=record.sha256,
                format=record.format,
                data=data,
            )

    def _add(self, record: LedgerRecord) -> None:
        self.frontier = record.frontier
        self.saved_generation = record.saved_generation
        for row in record.rows:
            key = row.principal, row.model_sha256
            total = self.ledger.setdefault(key, [0, 0, 0])
            counts = row.requests, row.prompt_tokens, row.sampled_tokens
            for at, count in enumerate(counts):
                total[at] += count

    def policy(self) -> StoredPolicy | None:
        """None before anything of it was saved."""
        if self.control is None and self.saved_generation == 0:
            return None
        first = ControlRecord(
            control_revision=1, review=False, paused=False, stopped=False
        )
        return StoredPolicy(
            control=self.control or first,
            frontier=self.frontier,
            saved_generation=self.saved_generation,
            ledger=tuple(
                LedgerRow(
                    principal=principal,
                    model_sha256=model,
                    requests=row[0],
                    prompt_tokens=row[1],
                    sampled_tokens=row[2],
                )
                for (principal, model), row in self.ledger.items()
            ),
        )
