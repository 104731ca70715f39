"""
The policy's review of usage (`device.md` §14, D11): batches of usage records that go
to the ledger.

Rules:
1. A batch is begun in one tick and committed in the next that is not held:
   `policy_batch` counts its records, the oldest pending ones. Foreground work in
   between drops it.
2. A commit is a record for the store; `policy_recording` counts its records until the
   result is there. Only then ledger, frontier and counters change; without success the
   same records are taken again.
3. There is at most one batch in work or at the store.
4. A ring that is three quarters full, and an orderly stop (WORD_FLUSH), begin and
   commit batches whatever the controls and the foreground are. State error begins none.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, u64
from twisted_aotx.device.ledger import apply_batch, sum_up
from twisted_aotx.device.numbers import (
    REASON_ACTIVE,
    REASON_CAPACITY,
    REASON_DISABLED,
    REASON_FOREGROUND,
    REASON_PAUSED,
    REASON_QUIET,
    RECORD_LEDGER,
    RESULT_CAPACITY,
    RESULT_OK,
    STATE_ACTIVE,
    STATE_ERROR,
    STATE_PAUSED,
    STATE_QUIET,
    STATE_RECORDING,
    STATE_STOPPED,
    WORD_FLUSH,
)
from twisted_aotx.device.store_mail import next_record, publish_record
from twisted_aotx.device.usage import PRESSING, usage_pending
from twisted_aotx.limits import BATCH_RECORDS_MAX, Capacities


def review_fields(capacities: Capacities) -> list[Any]:
    """The batch in work, the one at the store, and counters."""
    columns = (
        "batch recording rows folded began_ns completed interrupted refused decision "
        "generation reviewed maximum_ns last_ns result"
    )
    return [
        *((f"policy_{name}", "<i8") for name in columns.split()),
    ]


@dev
def _is_idle(D: Any) -> Any:
    if D.active == 0 and D.media_busy == 0:
        return i64(1)
    return i64(0)


@dev
def policy_state(D: Any) -> Any:
    """`wire.numbers.PolicyState`: the first that holds."""
    state = i64(STATE_QUIET)
    if D.policy_broken == 1:
        state = i64(STATE_ERROR)
    elif D.policy_stopped == 1:
        state = i64(STATE_STOPPED)
    elif D.policy_paused == 1:
        state = i64(STATE_PAUSED)
    elif D.policy_batch > 0:
        state = i64(STATE_ACTIVE)
    elif D.policy_recording > 0:
        state = i64(STATE_RECORDING)
    return state


@dev
def policy_reason(D: Any) -> Any:
    """`wire.numbers.PolicyReason`: the first that holds."""
    reason = i64(REASON_QUIET)
    if D.policy_review == 0:
        reason = i64(REASON_DISABLED)
    elif D.policy_paused == 1:
        reason = i64(REASON_PAUSED)
    elif D.policy_batch > 0:
        reason = i64(REASON_ACTIVE)
    elif usage_pending(D) >= PRESSING or D.held == 1:
        reason = i64(REASON_CAPACITY)
    elif _is_idle(D) == 0:
        reason = i64(REASON_FOREGROUND)
    return reason


@dev
def rows_in_work(D: Any) -> Any:
    """Records of the batch in work; 0 unless the state is active."""
    if policy_state(D) == STATE_ACTIVE:
        return D.policy_batch + i64(0)
    return i64(0)


@dev
def _may_review(H: Any, D: Any) -> Any:
    """1 if a batch may be begun or committed now, else 0."""
    if usage_pending(D) >= PRESSING or load_acquire(H.word, WORD_FLUSH) == 1:
        return i64(1)
    if D.policy_review == 0 or D.policy_paused == 1 or D.policy_stopped == 1:
        return i64(0)
    return _is_idle(D)


@dev
def _commit(H: Any, D: Any) -> None:
    """Hand the batch in work to the store."""
    rows, folded = sum_up(H, D, D.policy_batch)
    D.policy_rows = rows
    D.policy_folded = folded
    D.policy_recording = D.policy_batch
    at = next_record(H, D, i64(RECORD_LEDGER), i64(-1))
    row = H.record_ring[at]
    row[1] = u64(D.frontier + D.policy_batch)
    row[2] = u64(D.policy_generation + 1)
    row[3] = u64(rows)
    publish_record(H, D)


@dev
def review(H: Any, D: Any) -> None:
    """Lane 0, not while held: one step of the policy."""
    if D.policy_broken == 1:
        return
    may = _may_review(H, D)
    if D.policy_batch > 0:
        if may == 1:
            _commit(H, D)
        elif _is_idle(D) == 0:
            D.policy_interrupted += 1
        D.policy_batch = 0
    elif may == 1 and D.policy_recording == 0 and usage_pending(D) > 0:
        D.policy_batch = min(usage_pending(D), i64(BATCH_RECORDS_MAX))
        D.policy_began_ns = D.now


@dev
def review_is_due(H: Any, D: Any) -> Any:
    """1 if the next step has work that no doorbell announces, else 0."""
    if D.policy_broken == 1:
        return i64(0)
    if D.policy_batch > 0:
        return i64(1)
    if D.policy_recording == 0 and usage_pending(D) > 0:
        return _may_review(H, D)
    return i64(0)


@dev
def batch_saved(H: Any, D: Any, saved: Any) -> None:
    """What became of the batch at the store."""
    count = D.policy_recording + i64(0)
    D.policy_recording = 0
    if saved == 0:
        return
    apply_batch(H, D, D.policy_rows)
    D.frontier += count
    D.policy_generation += 1
    D.policy_decision += 1
    D.policy_reviewed += count
    D.policy_completed += count - D.policy_folded
    D.policy_refused += D.policy_folded
    D.policy_result = RESULT_OK
    if D.policy_folded > 0:
        D.policy_result = RESULT_CAPACITY
    D.policy_last_ns = D.now - D.policy_began_ns
    D.policy_maximum_ns = max(D.policy_maximum_ns, D.policy_last_ns)
