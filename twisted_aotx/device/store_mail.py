"""
Records from the device to the state store, and what became of them (D12).

Rules:
1. The device fills the record at `WORD_RECORD_TAIL` and publishes it by raising that
   word; the store's thread takes records in order, commits them in order, writes each
   result and raises `WORD_RECORD_SAVED`.
2. The device handles results in order, once each: `next_result`.
3. A source has at most one save on the way, a channel at most one frame that waits, the
   policy one control and the ledger one batch; so the ring has room for all of them and
   is never full.
4. The rows of a batch stand in `ledger_batch` until its result is there.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release, u64
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.numbers import (
    WORD_RECORD_HEAD,
    WORD_RECORD_SAVED,
    WORD_RECORD_TAIL,
)
from twisted_aotx.limits import BATCH_RECORDS_MAX, Capacities

#: Words of one record. Word 0 is its kind, and then:
#: source: owner 2, transfer id 2, sha256 4, format, offset, size
#: removal: owner 2, transfer id 2
#: control: control revision, review, paused, stopped
#: ledger: frontier, saved generation, rows in `ledger_batch`
RECORD_WORDS = 16
#: Words of a ledger row: principal 2, model 4, requests, prompt, sampled tokens.
LEDGER_WORDS = 9
_SPARE = 8


def _entries(capacities: Capacities) -> int:
    return power_of_two(capacities.media_objects + capacities.channels + _SPARE)


def host_fields(capacities: Capacities) -> list[Any]:
    """The ring, its results, and the rows of the one batch on its way."""
    entries = _entries(capacities)
    return [
        ("record_ring", "<u8", (entries, RECORD_WORDS)),
        ("record_result", "<i8", (entries,)),
        ("ledger_batch", "<u8", (BATCH_RECORDS_MAX, LEDGER_WORDS)),
    ]


def device_fields(capacities: Capacities) -> list[Any]:
    """What each record on its way is for; -1 where no reply waits for it."""
    entries = (_entries(capacities),)
    return [
        ("record_channel", "<i8", entries),
        ("record_index", "<i8", entries),
        ("record_generation", "<i8", entries),
        ("records_done", "<i8"),
        ("ring_store", "<i8"),
    ]


@dev
def next_record(H: Any, D: Any, kind: Any, channel: Any) -> Any:
    """
    Device: the ring entry to fill for a record of *kind*; not published yet.

    *channel* is the one whose reply waits for the result, or -1.
    """
    at = H.word[WORD_RECORD_TAIL] & (len(H.record_ring) - 1)
    row = H.record_ring[at]
    for k in range(RECORD_WORDS):
        row[k] = u64(0)
    row[0] = u64(kind)
    D.record_channel[at] = channel
    D.record_index[at] = -1
    D.record_generation[at] = 0
    return at


@dev
def publish_record(H: Any, D: Any) -> None:
    """Device: hand the record that `next_record` gave to the store."""
    store_release(H.word, WORD_RECORD_TAIL, H.word[WORD_RECORD_TAIL] + 1)
    D.ring_store = 1


@dev
def next_result(H: Any, D: Any) -> Any:
    """
    Device: the ring entry of the next record that the store is done with, or -1.

    Its result, in `H.record_result`, is 1 if it was saved, else 0. Once per entry.
    """
    if D.records_done == load_acquire(H.word, WORD_RECORD_SAVED):
        return i64(-1)
    at = D.records_done & (len(H.record_ring) - 1)
    D.records_done += 1
    return at


@dev
def take_record(H: Any, out: Any, rows: Any) -> Any:
    """
    Store: copy the next record to *out* (RECORD_WORDS u64) and, of a batch, its rows to
    *rows* ((BATCH_RECORDS_MAX, LEDGER_WORDS) u64); 0 when there is none.
    """
    head = H.word[WORD_RECORD_HEAD]
    if head == load_acquire(H.word, WORD_RECORD_TAIL):
        return i64(0)
    row = H.record_ring[head & (len(H.record_ring) - 1)]
    for k in range(RECORD_WORDS):
        out[k] = row[k]
    for n in range(BATCH_RECORDS_MAX):
        for k in range(LEDGER_WORDS):
            rows[n][k] = H.ledger_batch[n][k]
    store_release(H.word, WORD_RECORD_HEAD, head + 1)
    return i64(1)


@dev
def finish_record(H: Any, saved: Any) -> None:
    """Store: the oldest record without a result was saved (1) or not (0)."""
    done = H.word[WORD_RECORD_SAVED]
    H.record_result[done & (len(H.record_ring) - 1)] = saved
    store_release(H.word, WORD_RECORD_SAVED, done + 1)
