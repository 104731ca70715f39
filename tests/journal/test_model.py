"""
The store against a plain model of it, through reopening and crashes.

A crash is a copy of the database and its log as they stand between two transactions,
or in the middle of one; what was saved must be in the copy, and nothing else.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from tests.journal.records import NOON, Pool, batch, control, open_store, removal, row
from twisted_aotx.journal.errors import StoreFull
from twisted_aotx.journal.store import Store
from twisted_aotx.journal.usage import read_usage
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRow,
    SourceRecord,
    StoredSource,
    StoreRecord,
)

SMALL = st.integers(0, 2)
COUNTS = st.tuples(*[st.integers(0, 3) | st.integers(2**63, 2**64 - 1)] * 3)
ROWS = st.dictionaries(st.tuples(SMALL, SMALL), COUNTS, max_size=4)
MAXIMUM = 2**64 - 1
Key = tuple[bytes, bytes]
Batch = dict[tuple[int, int], tuple[int, int, int]]


def _sum(row: LedgerRow, more: LedgerRow) -> LedgerRow:
    return LedgerRow(
        principal=row.principal,
        model_sha256=row.model_sha256,
        requests=min(row.requests + more.requests, MAXIMUM),
        prompt_tokens=min(row.prompt_tokens + more.prompt_tokens, MAXIMUM),
        sampled_tokens=min(row.sampled_tokens + more.sampled_tokens, MAXIMUM),
    )


class StoreMachine(RuleBasedStateMachine):
    """
    Attributes:
        sources, control, frontier, generation, ledger: what must come back.
    """

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.pool = Pool()
        self.sources: dict[Key, StoredSource] = {}
        self.control: ControlRecord | None = None
        self.revision = 1
        self.frontier = 0
        self.generation = 0
        self.ledger: dict[Key, LedgerRow] = {}

    @initialize()
    def open(self) -> None:
        self.store = open_store(self.folder)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # --- what a runtime does ------------------------------------------------------

    def _source(self, owner: int, transfer: int, data: bytes) -> SourceRecord:
        return self.pool.source(data, owner=owner, transfer=transfer)

    def _saved(self, record: SourceRecord) -> None:
        key = (record.owner, record.transfer_id)
        earlier = self.sources.get(key)
        if earlier is not None and earlier.sha256 == record.sha256:
            return
        # A dictionary keeps the order saved.
        self.sources.pop(key, None)
        self.sources[key] = StoredSource(
            owner=record.owner,
            transfer_id=record.transfer_id,
            sha256=record.sha256,
            format=record.format,
            data=self.pool.read(record, 0, record.size),
        )

    @rule(owner=SMALL, transfer=SMALL, data=st.binary(min_size=1, max_size=9000))
    def save_source(self, owner: int, transfer: int, data: bytes) -> None:
        record = self._source(owner, transfer, data)
        self.store.save(record, self.pool.read)
        self._saved(record)

    @rule(owner=SMALL, transfer=SMALL)
    def remove(self, owner: int, transfer: int) -> None:
        record = removal(owner=owner, transfer=transfer)
        self.store.save(record, self.pool.read)
        self.sources.pop((record.owner, record.transfer_id), None)

    @rule(review=st.booleans(), paused=st.booleans(), stopped=st.booleans())
    def save_control(self, review: bool, paused: bool, stopped: bool) -> None:
        self.revision += 1
        self.control = control(
            self.revision, review=review, paused=paused, stopped=stopped
        )
        self.store.save(self.control, self.pool.read)

    @rule(rows=ROWS, taken=st.integers(1, 64))
    def save_batch(self, rows: Batch, taken: int) -> None:
        self.frontier += taken
        self.generation += 1
        record = batch(
            self.generation,
            *(row(*key, counts) for key, counts in rows.items()),
            frontier=self.frontier,
        )
        self.store.save(record, self.pool.read)
        for each in record.rows:
            key = (each.principal, each.model_sha256)
            earlier = self.ledger.get(key)
            self.ledger[key] = each if earlier is None else _sum(earlier, each)
        if self.control is None:
            self.control = control(1)

    @rule(data=st.binary(min_size=1, max_size=100))
    def fail_together(self, data: bytes) -> None:
        """The last of three does not fit: none was saved."""
        small = open_store_cap(self.store, self.store.used_bytes() * 4 // 3 + 9000)
        records: list[StoreRecord] = [
            self._source(7, 7, data),
            control(self.revision + 1),
            self._source(7, 8, bytes(20_000)),
        ]
        try:
            self.store.save_together(records, self.pool.read)
        except StoreFull:
            return
        finally:
            open_store_cap(self.store, small)
        raise AssertionError("it was not full")

    # --- what happens to it -------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.folder)

    @rule()
    def crash(self) -> None:
        copy = Path(tempfile.mkdtemp())
        self._copy_to(copy)
        self._abandon(copy)

    @rule(data=st.binary(min_size=1, max_size=9000))
    def crash_while_saving(self, data: bytes) -> None:
        copy = Path(tempfile.mkdtemp())
        record = self._source(8, 8, data)

        def read(record: SourceRecord, start: int, size: int) -> bytes:
            self._copy_to(copy)
            return self.pool.read(record, start, size)

        self.store.save(record, read)
        self._abandon(copy)

    def _copy_to(self, copy: Path) -> None:
        for name in ("state.sqlite3", "state.sqlite3-wal"):
            if (self.folder / name).exists():
                shutil.copy(self.folder / name, copy / name)

    def _abandon(self, copy: Path) -> None:
        self.store.close()
        shutil.rmtree(self.folder)
        self.folder = copy
        self.store = open_store(copy)

    # --- what must hold -----------------------------------------------------------

    @invariant()
    def everything_comes_back(self) -> None:
        if not hasattr(self, "store"):
            return
        assert list(self.store.sources()) == list(self.sources.values())
        policy = self.store.policy()
        if self.control is None:
            assert policy is None
            return
        assert policy is not None
        assert policy.control == self.control
        assert (policy.frontier, policy.saved_generation) == (
            self.frontier,
            self.generation,
        )
        assert {(r.principal, r.model_sha256): r for r in policy.ledger} == self.ledger

    @invariant()
    def a_reader_sees_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        path = self.folder / "state.sqlite3"
        for since in (None, NOON):
            report = read_usage(path, since)
            assert report.frontier == self.frontier
            assert [
                (use.principal, use.model_sha256, use.requests, use.prompt_tokens)
                for use in report.rows
            ] == [
                (*key, self.ledger[key].requests, self.ledger[key].prompt_tokens)
                for key in sorted(self.ledger)
            ]


def open_store_cap(store: Store, cap: int) -> int:
    """Change the cap of an open store; what it was."""
    before, store._store_bytes = store._store_bytes, cap
    store._reserve = cap // 4
    return before


TestStore = StoreMachine.TestCase
#: Every step waits for the disk: one example for every five of other tests.
TestStore.settings = settings(max_examples=settings().max_examples // 5)
