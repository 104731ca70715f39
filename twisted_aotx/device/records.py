"""
Reading the records for the state store on the host: compiled copies, then plain ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from twisted_aotx.device import entries
from twisted_aotx.device.numbers import (
    RECORD_CONTROL,
    RECORD_LEDGER,
    RECORD_REMOVAL,
    RECORD_SOURCE,
)
from twisted_aotx.device.store_mail import LEDGER_WORDS, RECORD_WORDS
from twisted_aotx.limits import BATCH_RECORDS_MAX
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
    LedgerRow,
    RemovalRecord,
    SourceRecord,
    StoredPolicy,
    StoreRecord,
)


def words_of(data: bytes) -> list[int]:
    """*data* as little-endian 64-bit words."""
    return [int.from_bytes(data[n : n + 8], "little") for n in range(0, len(data), 8)]


def bytes_of(words: Sequence[int]) -> bytes:
    """64-bit words as bytes, little-endian."""
    return b"".join(word.to_bytes(8, "little") for word in words)


def _source(words: list[int], _: Any) -> SourceRecord:
    return SourceRecord(
        owner=bytes_of(words[1:3]),
        transfer_id=bytes_of(words[3:5]),
        sha256=bytes_of(words[5:9]),
        format=words[9],
        offset=words[10],
        size=words[11],
    )


def _removal(words: list[int], _: Any) -> RemovalRecord:
    return RemovalRecord(owner=bytes_of(words[1:3]), transfer_id=bytes_of(words[3:5]))


def _control(words: list[int], _: Any) -> ControlRecord:
    return ControlRecord(
        control_revision=words[1],
        review=words[2] == 1,
        paused=words[3] == 1,
        stopped=words[4] == 1,
    )


def _ledger_row(words: list[int]) -> LedgerRow:
    return LedgerRow(
        principal=bytes_of(words[0:2]),
        model_sha256=bytes_of(words[2:6]),
        requests=words[6],
        prompt_tokens=words[7],
        sampled_tokens=words[8],
    )


def _ledger(words: list[int], rows: Any) -> LedgerRecord:
    return LedgerRecord(
        frontier=words[1],
        saved_generation=words[2],
        rows=tuple(map(_ledger_row, rows[: words[3]].tolist())),
    )


def policy_words(policy: StoredPolicy) -> Any:
    """What `policy.restore_control` takes."""
    control = policy.control
    words = (
        control.control_revision,
        control.review,
        control.paused,
        control.stopped,
        policy.frontier,
        policy.saved_generation,
    )
    return np.array([int(word) for word in words], np.uint64)


def policy_rows(ledger: Sequence[LedgerRow]) -> Any:
    """What `ledger.restore_ledger` takes."""
    rows = [
        (
            *words_of(row.principal),
            *words_of(row.model_sha256),
            *(row.requests, row.prompt_tokens, row.sampled_tokens),
        )
        for row in ledger
    ]
    return np.array(rows, np.uint64).reshape(len(rows), LEDGER_WORDS)


_READ: dict[int, Callable[[list[int], Any], StoreRecord]] = {
    RECORD_SOURCE: _source,
    RECORD_REMOVAL: _removal,
    RECORD_CONTROL: _control,
    RECORD_LEDGER: _ledger,
}


class RecordReader:
    """
    Takes records in the order published; owns the buffers that they are copied through.
    """

    def __init__(self) -> None:
        self._words = np.zeros(RECORD_WORDS, np.uint64)
        self._rows = np.zeros((BATCH_RECORDS_MAX, LEDGER_WORDS), np.uint64)

    def take(self, launch: Any) -> Sequence[StoreRecord]:
        """Every record published since the last call."""
        records: list[StoreRecord] = []
        while launch.on_host(entries.take_record, self._words, self._rows):
            words = self._words.tolist()
            records.append(_READ[words[0]](words, self._rows))
        return records
