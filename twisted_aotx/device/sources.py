"""
The table of media sources (`device.md` §12): descriptors, their phases and lists.

receiving → hashing → waiting → decoding → encoding → ready; from each of them → refused

Rules:
1. A descriptor is in exactly one list. `M_RECEIVING` is in the order of deadlines, the
   waiting ones oldest generation first, `M_REFUSED` in the order of refusals.
2. Generations rise by 1 per BEGIN, over all descriptors; worker jobs, orders and
   records name (index, generation).
3. Phases 1 to 6 hold a span of the byte pool, are counted by their owner and listed;
   `refuse` ends all of that at once. Phase 6 alone is found by SUBMIT.
4. `H.m_guard[index]` is the generation whose bytes stand in the pool, 0 once its span
   is free. It changes before the span does, so a reader on the host that finds the same
   value before and after copying has read that source.
5. A refused descriptor keeps its metadata until a BEGIN takes it: the oldest refusal
   first, but none whose worker still has its job.
6. `m_leases` counts references by active requests; a leased source cannot be removed.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, store_release, u64
from twisted_aotx.device.bits import write32, write64
from twisted_aotx.device.numbers import (
    FORMAT_JPEG,
    MEDIA_ENCODING,
    MEDIA_HASHING,
    MEDIA_READY,
    MEDIA_RECEIVING,
    MEDIA_REFUSED,
)
from twisted_aotx.device.owners import add_live, drop_live, need_owner
from twisted_aotx.device.pool import (
    POOL_AUDIO,
    POOL_BYTES,
    POOL_IMAGE,
    give_span,
    shrink_span,
)
from twisted_aotx.device.receipts import (
    cache_receipt,
    detach_receipt,
    free_receipt,
)
from twisted_aotx.device.source_index import (
    DIGEST_BYTES,
    add_name,
    add_ready,
    remove_ready,
)
from twisted_aotx.device.source_lists import (
    M_FREE,
    M_RECEIVING,
    M_REFUSED,
    leave_turns,
    list_fields,
    move,
    reset_lists,
)
from twisted_aotx.limits import Capacities

METADATA_BYTES = 64


def source_fields(capacities: Capacities) -> list[Any]:
    """One column per field of a descriptor, then list heads and counters."""
    sources = (max(1, capacities.media_objects),)
    columns = (
        "m_phase m_status m_format m_generation m_size m_received m_samples m_rows "
        "m_leases m_removals m_worker m_job m_receipt"
    )
    return [
        *((name, "<i8", sources) for name in columns.split()),
        *list_fields(capacities),
        ("media_generation", "<i8"),
        # sources in phases 1..6, and in phases 2..5
        ("media_live", "<i8"),
        ("media_busy", "<i8"),
    ]


@dev
def reset_sources(D: Any) -> None:
    """Every descriptor is free. Start only."""
    reset_lists(D)
    for index in range(D.media_objects):
        D.m_receipt[index] = -1
        D.m_worker[index] = -1


@dev
def rows_pool(D: Any, index: Any) -> Any:
    """The pool that the source's feature rows are of."""
    if D.m_format[index] == FORMAT_JPEG:
        return i64(POOL_IMAGE)
    return i64(POOL_AUDIO)


@dev
def next_descriptor(D: Any) -> Any:
    """The descriptor that the next BEGIN takes, or -1: rule 5."""
    index = i64(D.m_head[M_FREE])
    if index >= 0:
        return index
    index = i64(D.m_head[M_REFUSED])
    while index >= 0 and D.m_job[index] == 1:
        index = i64(D.m_next[index])
    return index


@dev
def take_descriptor(D: Any, index: Any, owner_id: Any, low: Any, high: Any) -> None:
    """
    Give *index*, from `next_descriptor`, to transfer id (*low*, *high*) of the
    principal *owner_id*: receiving, without a place and without a receipt so far.
    """
    if D.m_phase[index] == MEDIA_REFUSED:
        detach_receipt(D, index)
    owner = need_owner(D, owner_id[0], owner_id[1])
    add_name(D, index, owner, low, high)
    D.media_generation += 1
    D.m_generation[index] = D.media_generation
    D.m_phase[index] = MEDIA_RECEIVING
    D.m_status[index] = 0
    D.m_received[index] = 0
    D.m_samples[index] = 0
    D.m_rows[index] = 0
    D.m_leases[index] = 0
    D.m_removals[index] = 0
    D.m_worker[index] = -1
    move(D, index, i64(M_RECEIVING))


@dev
def count_in(H: Any, D: Any, index: Any) -> None:
    """The source has its span: it is live."""
    D.media_live += 1
    add_live(D, D.n_owner[index], index, D.m_size[index])
    store_release(H.m_guard, index, D.m_generation[index])


@dev
def _in_work(phase: Any) -> Any:
    if phase >= MEDIA_HASHING and phase <= MEDIA_ENCODING:
        return i64(1)
    return i64(0)


@dev
def set_phase(D: Any, index: Any, phase: Any) -> None:
    """Move a live source on, and count those in work."""
    D.media_busy += _in_work(phase) - _in_work(D.m_phase[index])
    D.m_phase[index] = phase


@dev
def refuse(H: Any, D: Any, index: Any, status: Any) -> None:
    """
    Phases 1..6 → refused: bytes, rows and worker go; a pending receipt is cached.

    The worker of a job on the host stays until it reports (`media_work`).
    """
    if D.m_phase[index] == MEDIA_READY and D.m_removals[index] == 0:
        remove_ready(D, index)
    leave_turns(D, index)
    if D.m_worker[index] >= 0 and D.m_job[index] == 0:
        free_worker(D, index)
    store_release(H.m_guard, index, 0)
    give_span(D, POOL_BYTES, index)
    give_span(D, rows_pool(D, index), index)
    D.media_live -= 1
    drop_live(D, D.n_owner[index], index, D.m_size[index])
    set_phase(D, index, i64(MEDIA_REFUSED))
    D.m_status[index] = status
    move(D, index, i64(M_REFUSED))
    if D.m_receipt[index] >= 0:
        cache_receipt(D, i64(D.m_receipt[index]))


@dev
def refuse_at_once(D: Any, index: Any, status: Any) -> None:
    """Receiving → refused for a source that found no place, so nothing is to go."""
    D.m_phase[index] = MEDIA_REFUSED
    D.m_status[index] = status
    move(D, index, i64(M_REFUSED))
    if D.m_receipt[index] >= 0:
        cache_receipt(D, i64(D.m_receipt[index]))


@dev
def free_worker(D: Any, index: Any) -> None:
    """The source has no worker any more."""
    family = rows_pool(D, index)
    D.w_free[family] = D.w_free[family] | (u64(1) << u64(D.m_worker[index]))
    D.m_worker[index] = -1


@dev
def make_ready(D: Any, index: Any) -> None:
    """Encoding → ready: the receipt goes, the rows that were reserved in vain too."""
    shrink_span(D, rows_pool(D, index), index, D.m_rows[index])
    set_phase(D, index, i64(MEDIA_READY))
    if D.m_receipt[index] >= 0:
        free_receipt(D, i64(D.m_receipt[index]))
    if D.m_removals[index] == 0:
        add_ready(D, index)


@dev
def begin_removal(D: Any, index: Any) -> None:
    """The store is asked to remove the source: no new lease meanwhile."""
    if D.m_phase[index] == MEDIA_READY and D.m_removals[index] == 0:
        remove_ready(D, index)
    D.m_removals[index] += 1


@dev
def fail_removal(D: Any, index: Any) -> None:
    """The store did not remove the source: it may be leased again."""
    D.m_removals[index] -= 1
    if D.m_phase[index] == MEDIA_READY and D.m_removals[index] == 0:
        add_ready(D, index)


@dev
def write_metadata(D: Any, frame: Any, at: Any, index: Any) -> None:
    """The 64 bytes of `wire.md` §10; samples and rows once the source is ready."""
    for k in range(DIGEST_BYTES):
        frame[at + k] = D.m_digest[index][k]
    samples = i64(0)
    rows = i64(0)
    if D.m_phase[index] == MEDIA_READY:
        samples = i64(D.m_samples[index])
        rows = i64(D.m_rows[index])
    write64(frame, at + 32, u64(D.m_size[index]))
    write32(frame, at + 40, D.m_phase[index])
    write32(frame, at + 44, D.m_status[index])
    write32(frame, at + 48, D.m_format[index])
    write32(frame, at + 52, samples)
    write32(frame, at + 56, rows)
    write32(frame, at + 60, i64(0))
