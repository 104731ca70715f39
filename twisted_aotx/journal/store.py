"""
`Store`: the state store of one runtime. One thread at a time; the lock of the state
directory must be held.

Rules [D10]:
1. `store_bytes` caps the pages in use. A source must leave a reserve below the cap, so
   that there is room for the ledger and the controls; a removal is never refused.
2. A record is on the disk when `save` returns, and not at all when it raises.
3. A quarter of the cap, at most, is for batches and their increments (`writer` rule 3).
4. In state error nothing of the policy is written: what cannot be used stays as it is,
   for the operator to look at. Controls and batches count as saved: the next activation
   is in state error too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from twisted_aotx.journal import reader, writer
from twisted_aotx.journal.database import FILE_NAME, open_database
from twisted_aotx.journal.errors import PolicyUnusable, StoreFull, told_of
from twisted_aotx.journal.writer import ReadBytes
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
    RemovalRecord,
    SourceRecord,
    StoredPolicy,
    StoredSource,
    StoreRecord,
)

#: Bytes below the cap that no source may take, at most (rule 1).
RESERVE_BYTES: Final = 1 << 20
#: Bytes that a probe writes: more than any record that is no source.
PROBE_BYTES: Final = 1 << 16
#: Bytes that an increment takes, its share of the pages included; measured below 110.
_INCREMENT_BYTES: Final = 128


class Store:
    """
    The state store in the state directory *directory*.

    Args:
        store_bytes: the cap.
        now: Unix seconds, UTC; stamps the batches.

    Raises:
        StoreUnusable: the file is damaged, foreign or newer.
        StoreFailed: it cannot be opened or written.
    """

    def __init__(
        self, directory: Path, *, store_bytes: int, now: Callable[[], int]
    ) -> None:
        self.path = directory / FILE_NAME
        self._store_bytes = store_bytes
        #: Small caps have small reserves.
        self._reserve = min(RESERVE_BYTES, store_bytes // 4)
        self._increments_max = store_bytes // 4 // _INCREMENT_BYTES
        self._now = now
        self._has_policy = True
        self._connection = open_database(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; idempotent."""
        self._connection.close()

    # --- restoring ----------------------------------------------------------------

    def policy(self) -> StoredPolicy | None:
        """
        Policy and ledger as they were saved; None if nothing was.

        Raises:
            PolicyUnusable: they cannot be used; from now on rule 4 holds.
            StoreError: the file cannot be read.
        """
        with told_of(self.path):
            try:
                return reader.read_policy(self._connection)
            except ValueError as error:
                self._has_policy = False
                raise PolicyUnusable(self.path, str(error)) from None

    def sources(self) -> Iterator[StoredSource]:
        """
        Every source that was saved, in the order saved, one in memory at a time.

        Raises:
            StoreUnusable: a source is not whole.
            StoreError: the file cannot be read.
        """
        with told_of(self.path):
            yield from reader.read_sources(self.path, self._connection)

    def name_models(self, models: Mapping[int, bytes]) -> None:
        """
        Keep which model serves each role now: role → SHA-256.

        Raises:
            StoreError: nothing was changed.
        """
        with told_of(self.path), self._transaction():
            self._connection.execute("DELETE FROM models")
            self._connection.executemany(
                "INSERT INTO models VALUES (?, ?)", models.items()
            )

    # --- saving -------------------------------------------------------------------

    def save(self, record: StoreRecord, read_bytes: ReadBytes) -> None:
        """
        Commit *record*; *read_bytes* gives the bytes of a `SourceRecord`.

        Raises:
            StoreError: nothing was changed.
        """
        self.save_together((record,), read_bytes)

    def save_together(
        self, records: Sequence[StoreRecord], read_bytes: ReadBytes
    ) -> None:
        """
        Commit *records*, in order, all or none.

        Raises:
            StoreError: nothing was changed.
        """
        with told_of(self.path), self._transaction():
            for record in records:
                self._apply(record, read_bytes)

    def used_bytes(self) -> int:
        """
        Bytes of the pages in use.

        Raises:
            StoreError: the file cannot be read.
        """
        with told_of(self.path):
            return self._used_bytes()

    def probe(self) -> None:
        """
        Try whether records can be saved again: cap and disk have room for a few.

        Raises:
            StoreError: they cannot.
        """
        with told_of(self.path):
            with self._transaction():
                self._connection.execute("CREATE TABLE IF NOT EXISTS probe (data BLOB)")
                self._connection.execute(
                    "INSERT INTO probe VALUES (zeroblob(?))", (self._probe_bytes(),)
                )
                self._check_cap(self._store_bytes)
            with self._transaction():
                self._connection.execute("DROP TABLE probe")
            # The log may hold room that the disk has not: it has to be carried over.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _apply(self, record: StoreRecord, read_bytes: ReadBytes) -> None:
        if isinstance(record, SourceRecord):
            if writer.has_source(self._connection, record):
                return
            below = self._store_bytes - self._reserve
            # What cannot fit is not written first.
            self._check_cap(below - record.size)
            writer.keep_source(self._connection, record, read_bytes)
            self._check_cap(below)
        elif isinstance(record, RemovalRecord):
            writer.remove_source(self._connection, record)
        elif not self._has_policy:
            return
        else:
            self._apply_policy(record)
            self._check_cap(self._store_bytes)

    def _apply_policy(self, record: ControlRecord | LedgerRecord) -> None:
        if isinstance(record, ControlRecord):
            writer.keep_control(self._connection, record)
        else:
            writer.keep_batch(
                self._connection, record, self._now(), self._increments_max
            )

    def _check_cap(self, cap: int) -> None:
        used = self._used_bytes()
        if used > cap:
            raise StoreFull(
                self.path, f"would be larger than store_bytes, {self._store_bytes}"
            )

    def _used_bytes(self) -> int:
        def number(name: str) -> int:
            value: int
            (value,) = self._connection.execute(f"PRAGMA {name}").fetchone()
            return value

        return (number("page_count") - number("freelist_count")) * number("page_size")

    def _probe_bytes(self) -> int:
        return min(PROBE_BYTES, self._reserve // 4)

    def _transaction(self) -> _Transaction:
        return _Transaction(self._connection)


class _Transaction:
    """
    BEGIN, and COMMIT or ROLLBACK.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            # SQLite has rolled back by itself after some errors.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
