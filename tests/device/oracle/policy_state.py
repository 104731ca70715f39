"""
What the resident policy remembers: control state, usage ring, ledger (`device.md` §14,
D11).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import attrs

from twisted_aotx.limits import BATCH_RECORDS_MAX, USAGE_RECORDS
from twisted_aotx.orders import LedgerRow

if TYPE_CHECKING:
    from tests.device.oracle.state import Entry

QUIET, ACTIVE, PAUSED, STOPPED, ERROR, RECORDING = range(1, 7)
#: Reasons (`wire.md` §11).
IDLE, FOREGROUND, HALTED, CAPACITY, BUSY, DISABLED = range(6)
#: Result statuses that this policy gives.
RESULT_OK, RESULT_CAPACITY = 0, 2

#: Records at which batches no longer wait for an idle device.
PRESSING = USAGE_RECORDS * 3 // 4

#: Whose the usage is that found no row.
NOBODY = (bytes(16), bytes(32))

Key = tuple[bytes, bytes]


@attrs.frozen(kw_only=True)
class Usage:
    """One terminal transition."""

    number: int
    principal: bytes
    model_sha256: bytes
    prompt: int
    sampled: int


@attrs.define(kw_only=True)
class Batch:
    """Records in review, from its begin until the store is done with it."""

    records: list[Usage]
    begun_ns: int
    rows: dict[Key, list[int]] = attrs.field(factory=dict)
    folded: int = 0


@attrs.define
class Policy:
    """Counters are per epoch but for what `restore` sets."""

    #: Rows of the ledger beside the one of principal zero.
    rows_max: int
    revision: int = 1
    review: bool = False
    paused: bool = False
    stopped: bool = False
    broken: bool = False
    flushing: bool = False
    frontier: int = 0
    saved_generation: int = 0
    ledger: dict[Key, list[int]] = attrs.field(factory=dict)
    completed: int = 0
    refused: int = 0
    #: Of these, the ones that were passed over in state error.
    passed_over: int = 0
    interrupted: int = 0
    decision: int = 0
    last_result: int = 0
    maximum_ns: int = 0
    last_ns: int = 0
    #: After the frontier.
    records: list[Usage] = attrs.field(factory=list)
    number: int = 0
    batch: Batch | None = None
    recording: Batch | None = None
    #: A control write is on its way to the store; the channels of those behind it.
    writing: bool = False
    waiting: list[int] = attrs.field(factory=list)

    def record(self, entry: Entry) -> None:
        """Usage of a request that has just ended."""
        self.number += 1
        self.records.append(
            Usage(
                number=self.number,
                principal=entry.principal,
                model_sha256=entry.model_sha256,
                prompt=entry.prompt_tokens,
                sampled=entry.sampled_tokens,
            )
        )
        if self.broken and len(self.records) > USAGE_RECORDS:
            self.frontier = self.records.pop(0).number
            self.refused += 1
            self.passed_over += 1

    @property
    def is_pressing(self) -> bool:
        return len(self.records) >= PRESSING

    def new_batch(self, now_ns: int) -> Batch:
        return Batch(records=self.records[:BATCH_RECORDS_MAX], begun_ns=now_ns)

    def sum_up(self, batch: Batch) -> tuple[LedgerRow, ...]:
        """The increments of *batch*, by the rows that they go to."""
        for usage in batch.records:
            key = usage.principal, usage.model_sha256
            own = {*self.ledger, *batch.rows} - {NOBODY}
            if key not in own and len(own) >= self.rows_max:
                key = NOBODY
                batch.folded += 1
            row = batch.rows.setdefault(key, [0, 0, 0])
            for at, count in enumerate((1, usage.prompt, usage.sampled)):
                row[at] += count
        return tuple(
            LedgerRow(
                principal=key[0],
                model_sha256=key[1],
                requests=row[0],
                prompt_tokens=row[1],
                sampled_tokens=row[2],
            )
            for key, row in batch.rows.items()
        )

    def commit(self, batch: Batch, now_ns: int) -> None:
        """The store has it."""
        for key, row in batch.rows.items():
            total = self.ledger.setdefault(key, [0, 0, 0])
            for at, count in enumerate(row):
                total[at] += count
        self.frontier = batch.records[-1].number
        self.records = [u for u in self.records if u.number > self.frontier]
        self.saved_generation += 1
        self.decision += 1
        self.completed += len(batch.records) - batch.folded
        self.refused += batch.folded
        self.last_result = RESULT_CAPACITY if batch.folded else RESULT_OK
        self.last_ns = now_ns - batch.begun_ns
        self.maximum_ns = max(self.maximum_ns, self.last_ns)

    @property
    def state(self) -> int:
        """The first that holds."""
        if self.broken:
            return ERROR
        if self.stopped:
            return STOPPED
        if self.paused:
            return PAUSED
        if self.batch is not None:
            return ACTIVE
        return RECORDING if self.recording is not None else QUIET

    def reason(self, *, held: bool, idle: bool) -> int:
        """The first that holds."""
        if not self.review:
            return DISABLED
        if self.paused:
            return HALTED
        if self.batch is not None:
            return BUSY
        if self.is_pressing or held:
            return CAPACITY
        return IDLE if idle else FOREGROUND

    def status(self, *, held: bool, idle: bool) -> bytes:
        """The 160 bytes of `wire.md` §11."""
        batch = self.batch if self.state == ACTIVE else None
        rows = len(batch.records) if batch is not None else 0
        head = struct.pack(
            "<8I",
            1,
            3,
            2,
            self.state,
            int(self.review),
            len(self.records),
            rows,
            self.last_result,
        )
        counters = struct.pack(
            "<11Q",
            self.revision,
            self.frontier,
            self.completed,
            self.interrupted,
            self.refused,
            self.decision,
            self.saved_generation,
            self.maximum_ns,
            self.last_ns,
            0,
            0,
        )
        reason = struct.pack("<I36x", self.reason(held=held, idle=idle))
        return head + counters + reason
