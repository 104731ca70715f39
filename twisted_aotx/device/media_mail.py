"""
Jobs for the media worker on the host, their results, and the guards of the pool (D12).

Rules:
1. Two rings, one each way, with one writer and one reader. A worker has one job at a
   time, so a ring with an entry per worker is never full.
2. A job is (worker, index, generation, offset, size, width, height); a result is
   (worker, 1 decoded or 0 not).
3. A reader of source bytes looks at `H.m_guard` before and after (`sources`, rule 4).
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.numbers import (
    WORD_DONE_HEAD,
    WORD_DONE_TAIL,
    WORD_JOB_HEAD,
    WORD_JOB_TAIL,
)
from twisted_aotx.limits import Capacities

#: Words of a job.
JOB_WORDS = 7


def host_fields(capacities: Capacities) -> list[Any]:
    """Of region H: both rings and the guards."""
    entries = power_of_two(capacities.image_workers)
    return [
        ("job_ring", "<i8", (entries, JOB_WORDS)),
        ("done_ring", "<i8", (entries, 2)),
        # what `media_restore` last found
        ("restored", "<i8", (1,)),
        ("m_guard", "<i8", (max(1, capacities.media_objects),)),
    ]


@dev
def push_job(H: Any, D: Any, index: Any, offset: Any, width: Any, height: Any) -> None:
    """Device: ask the source's worker to decode it."""
    tail = H.word[WORD_JOB_TAIL]
    job = H.job_ring[tail & (len(H.job_ring) - 1)]
    job[0] = D.m_worker[index]
    job[1] = index
    job[2] = D.m_generation[index]
    job[3] = offset
    job[4] = D.m_size[index]
    job[5] = width
    job[6] = height
    store_release(H.word, WORD_JOB_TAIL, tail + 1)
    D.ring_engines = 1


@dev
def take_job(H: Any, out: Any) -> Any:
    """Host: copy the next job to *out* (JOB_WORDS i64); 0 when there is none."""
    head = H.word[WORD_JOB_HEAD]
    if head == load_acquire(H.word, WORD_JOB_TAIL):
        return i64(0)
    job = H.job_ring[head & (len(H.job_ring) - 1)]
    for k in range(JOB_WORDS):
        out[k] = job[k]
    store_release(H.word, WORD_JOB_HEAD, head + 1)
    return i64(1)


@dev
def finish_job(H: Any, worker: Any, decoded: Any) -> None:
    """Host: *worker* is done with its job."""
    tail = H.word[WORD_DONE_TAIL]
    at = tail & (len(H.done_ring) - 1)
    H.done_ring[at][0] = worker
    H.done_ring[at][1] = decoded
    store_release(H.word, WORD_DONE_TAIL, tail + 1)


@dev
def next_done(H: Any) -> Any:
    """Device: the next result (worker, decoded); worker -1 when there is none."""
    head = H.word[WORD_DONE_HEAD]
    if head == load_acquire(H.word, WORD_DONE_TAIL):
        return i64(-1), i64(0)
    at = head & (len(H.done_ring) - 1)
    worker = i64(H.done_ring[at][0])
    decoded = i64(H.done_ring[at][1])
    store_release(H.word, WORD_DONE_HEAD, head + 1)
    return worker, decoded


@dev
def read_restored(H: Any) -> Any:
    """Host: 0 if the last source restored is ready, else its status."""
    return i64(H.restored[0])


@dev
def read_guard(H: Any, index: Any) -> Any:
    """Host: the generation whose bytes stand in the pool, or 0."""
    return i64(load_acquire(H.m_guard, index))
