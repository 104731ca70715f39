"""
What happens to sources without a frame (`device.md` §12, §13): upload expiry, hashing,
checks, workers, and what the store said.

| stage | place in the tick | |
|---|---|---|
| `expire_uploads` | before the frames | receipts and uploads whose deadline has come |
| `prepare` | after the work step | results of workers, dispatch, checks |
| `hash_sources` | last, after the replies | digests, also while bytes arrive |
| `source_saved`, `source_removed` | store writes | ready, removed, or neither |

All are lane 0's and none but the last runs while held. Hashing and checking take at
most MEDIA_BYTES_PER_TICK bytes each, sources in turn.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import read64, trailing_zeros
from twisted_aotx.device.jpeg import jpeg_more, jpeg_start
from twisted_aotx.device.media_mail import next_done, push_job
from twisted_aotx.device.numbers import (
    FORMAT_JPEG,
    MEDIA_DECODING,
    MEDIA_ENCODING,
    MEDIA_HASHING,
    MEDIA_WAITING,
    RECORD_SOURCE,
    REFUSED_CANCELLED,
    REFUSED_DIGEST,
    REFUSED_JPEG,
    REFUSED_PRESSURE,
)
from twisted_aotx.device.pool import POOL_AUDIO, POOL_BYTES, POOL_IMAGE, take_span
from twisted_aotx.device.receipts import expire_receipts
from twisted_aotx.device.sha256 import (
    BLOCK_BYTES,
    sha_equals,
    sha_finish,
    sha_more,
)
from twisted_aotx.device.source_lists import (
    M_CHECKING,
    M_OTHER,
    M_RECEIVING,
    M_WAITING_AUDIO,
    M_WAITING_IMAGE,
    join_turns,
    leave_turns,
    move,
    move_by_generation,
)
from twisted_aotx.device.sources import free_worker, make_ready, refuse, set_phase
from twisted_aotx.device.store_mail import next_record, publish_record
from twisted_aotx.device.wav import wav_more, wav_start
from twisted_aotx.limits import MEDIA_BYTES_PER_TICK, Capacities

#: Verdicts of a check.
ACCEPTED = 1
REFUSED = 2


def work_fields(capacities: Capacities) -> list[Any]:
    """By pool of rows: the free workers; by image worker: whose job it has, or -1."""
    return [
        ("w_free", "<u8", (3,)),
        ("w_source", "<i8", (capacities.image_workers,)),
    ]


@dev
def reset_workers(D: Any) -> None:
    """All workers are free. Start only."""
    D.w_free[POOL_IMAGE] = u64(0)
    D.w_free[POOL_AUDIO] = u64(0)
    for worker in range(D.image_workers):
        D.w_free[POOL_IMAGE] = D.w_free[POOL_IMAGE] | (u64(1) << u64(worker))
        D.w_source[worker] = -1
    for worker in range(D.audio_workers):
        D.w_free[POOL_AUDIO] = D.w_free[POOL_AUDIO] | (u64(1) << u64(worker))


@dev
def expire_uploads(H: Any, D: Any) -> None:
    """Refuse overdue uploads, and free the receipts whose deadline has come."""
    expire_receipts(D)
    index = i64(D.m_head[M_RECEIVING])
    while index >= 0 and D.u_deadline[D.m_receipt[index]] <= D.now:
        refuse(H, D, index, i64(REFUSED_CANCELLED))
        index = i64(D.m_head[M_RECEIVING])


# --- hashing --------------------------------------------------------------------------


@dev
def _judge_digest(H: Any, D: Any, P: Any, index: Any) -> None:
    """Hashing → waiting, or refused."""
    sha_finish(D, P, index, D.p_at[POOL_BYTES, index], D.m_size[index])
    leave_turns(D, index)
    if sha_equals(D.h_state[index], D.m_digest[index]) == 0:
        refuse(H, D, index, i64(REFUSED_DIGEST))
        return
    set_phase(D, index, i64(MEDIA_WAITING))
    if D.m_format[index] == FORMAT_JPEG:
        move_by_generation(D, index, i64(M_WAITING_IMAGE))
    else:
        move_by_generation(D, index, i64(M_WAITING_AUDIO))


@dev
def hash_sources(H: Any, D: Any, P: Any) -> None:
    """One tick's share of hashing; a source that has more to hash goes to the end."""
    budget = i64(MEDIA_BYTES_PER_TICK)
    while D.t_head >= 0 and budget >= BLOCK_BYTES:
        index = i64(D.t_head)
        offset = D.p_at[POOL_BYTES, index]
        received = D.m_received[index]
        budget -= sha_more(D, P, index, offset, received, budget)
        leave_turns(D, index)
        if received - D.h_at[index] >= BLOCK_BYTES:
            join_turns(D, index)
        elif D.m_phase[index] == MEDIA_HASHING:
            budget -= BLOCK_BYTES
            _judge_digest(H, D, P, index)


# --- checks and workers ---------------------------------------------------------------


@dev
def _encode(H: Any, D: Any, index: Any) -> None:
    """Decoding → encoding: the store is asked to keep the source."""
    set_phase(D, index, i64(MEDIA_ENCODING))
    move(D, index, i64(M_OTHER))
    at = next_record(H, D, i64(RECORD_SOURCE), i64(-1))
    owner = D.n_owner[index]
    row = H.record_ring[at]
    for k in range(2):
        row[1 + k] = D.a_id[owner, k]
        row[3 + k] = D.n_id[index, k]
    for k in range(4):
        row[5 + k] = read64(D.m_digest[index], 8 * k)
    row[9] = u64(D.m_format[index])
    row[10] = u64(D.p_at[POOL_BYTES, index])
    row[11] = u64(D.m_size[index])
    D.record_index[at] = index
    D.record_generation[at] = D.m_generation[index]
    publish_record(H, D)


@dev
def _take_results(H: Any, D: Any) -> None:
    """What workers on the host are done with; of a refused source it means nothing."""
    worker, decoded = next_done(H)
    while worker >= 0:
        index = i64(D.w_source[worker])
        D.w_source[worker] = -1
        D.m_job[index] = 0
        free_worker(D, index)
        if D.m_phase[index] == MEDIA_DECODING:
            if decoded == 1:
                _encode(H, D, index)
            else:
                refuse(H, D, index, i64(REFUSED_JPEG))
        worker, decoded = next_done(H)


@dev
def _start_checks(H: Any, D: Any, waiting: Any, pool: Any) -> None:
    """Waiting → decoding, while a worker of the family is free."""
    index = i64(D.m_head[waiting])
    while index >= 0 and D.w_free[pool] != u64(0):
        rows = i64(0)
        if pool == POOL_IMAGE:
            rows = D.image_patches // 4
        if rows > 0 and take_span(D, pool, index, rows) < 0:
            refuse(H, D, index, i64(REFUSED_PRESSURE))
        else:
            worker = trailing_zeros(D.w_free[pool])
            D.w_free[pool] = D.w_free[pool] & (D.w_free[pool] - u64(1))
            D.m_worker[index] = worker
            set_phase(D, index, i64(MEDIA_DECODING))
            move(D, index, i64(M_CHECKING))
            if pool == POOL_IMAGE:
                jpeg_start(D, worker)
            else:
                wav_start(D, worker)
        index = i64(D.m_head[waiting])


@dev
def _accept(H: Any, D: Any, index: Any) -> None:
    """Nothing is wrong: an image goes to its worker, audio to the store."""
    worker = i64(D.m_worker[index])
    if D.m_format[index] == FORMAT_JPEG:
        D.m_rows[index] = D.jp_rows[worker]
        D.m_job[index] = 1
        D.w_source[worker] = index
        move(D, index, i64(M_OTHER))
        offset = D.p_at[POOL_BYTES, index]
        push_job(H, D, index, offset, D.jp_width[worker], D.jp_height[worker])
        return
    D.m_samples[index] = D.wa_samples[worker]
    D.m_rows[index] = D.wa_rows[worker]
    free_worker(D, index)
    if take_span(D, i64(POOL_AUDIO), index, D.m_rows[index]) < 0:
        refuse(H, D, index, i64(REFUSED_PRESSURE))
    else:
        _encode(H, D, index)


@dev
def check_more(D: Any, P: Any, index: Any, budget: Any) -> Any:
    """Go on with the check of a source; (bytes looked at, verdict, status)."""
    worker = i64(D.m_worker[index])
    offset = D.p_at[POOL_BYTES, index]
    if D.m_format[index] == FORMAT_JPEG:
        return jpeg_more(D, P, worker, offset, D.m_size[index], budget)
    return wav_more(D, P, worker, offset, D.m_size[index], budget)


@dev
def _run_checks(H: Any, D: Any, P: Any, budget: Any) -> Any:
    """Spend *budget* bytes on the sources in work; what is left of it."""
    while D.m_head[M_CHECKING] >= 0 and budget > 0:
        index = i64(D.m_head[M_CHECKING])
        consumed, verdict, status = check_more(D, P, index, budget)
        budget -= consumed
        if verdict == ACCEPTED:
            _accept(H, D, index)
        elif verdict == REFUSED:
            refuse(H, D, index, status)
        else:
            move(D, index, i64(M_CHECKING))
    return budget


@dev
def prepare(H: Any, D: Any, P: Any) -> None:
    """
    The media step: results, then dispatch and checks until nothing can go on or the
    budget is spent.
    """
    _take_results(H, D)
    budget = i64(MEDIA_BYTES_PER_TICK)
    going = i64(1)
    while going == 1:
        _start_checks(H, D, i64(M_WAITING_IMAGE), i64(POOL_IMAGE))
        _start_checks(H, D, i64(M_WAITING_AUDIO), i64(POOL_AUDIO))
        going = i64(0)
        if D.m_head[M_CHECKING] >= 0 and budget > 0:
            budget = _run_checks(H, D, P, budget)
            going = i64(1)


@dev
def has_media_work(D: Any) -> Any:
    """1 if the next tick can go on with hashing or checking, else 0."""
    if D.t_head >= 0 or D.m_head[M_CHECKING] >= 0:
        return i64(1)
    if D.m_head[M_WAITING_IMAGE] >= 0 and D.w_free[POOL_IMAGE] != u64(0):
        return i64(1)
    if D.m_head[M_WAITING_AUDIO] >= 0 and D.w_free[POOL_AUDIO] != u64(0):
        return i64(1)
    return i64(0)


@dev
def media_due(D: Any, due: Any) -> Any:
    """*due* (ns), or the earlier deadline of an upload or of a receipt."""
    index = i64(D.m_head[M_RECEIVING])
    if index >= 0 and D.u_deadline[D.m_receipt[index]] < due:
        due = i64(D.u_deadline[D.m_receipt[index]])
    if D.u_head >= 0 and D.u_deadline[D.u_head] < due:
        due = i64(D.u_deadline[D.u_head])
    return due


# --- what the store said --------------------------------------------------------------


@dev
def source_saved(H: Any, D: Any, at: Any, saved: Any) -> None:
    """The record *at* of a source: encoding → ready, or refused."""
    index = i64(D.record_index[at])
    if saved == 1:
        make_ready(D, index)
    else:
        refuse(H, D, index, i64(REFUSED_PRESSURE))
