"""
One tick: the stages in their fixed order (`device.md` §1).

Every lane of one block runs `tick_stages`; a stage is either lane 0's decision or a
bulk copy strided by lane, with a barrier between. The CPU is a block of one lane.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.admission import admit
from twisted_aotx.device.backend import barrier, dev, i64, load_acquire, u64
from twisted_aotx.device.bits import BITMAP_WORDS
from twisted_aotx.device.controls import look_at_controls
from twisted_aotx.device.exchange import (
    append,
    collect,
    commit,
    publish_orders,
    render_orders,
    send_orders,
)
from twisted_aotx.device.frames import copy_windows, keep_payloads
from twisted_aotx.device.kernel_engine import kernel_due, run_kernel_engines
from twisted_aotx.device.mailbox import claim, copy_in, copy_out, publish_replies
from twisted_aotx.device.media import keep_chunks
from twisted_aotx.device.media_work import (
    expire_uploads,
    has_media_work,
    hash_sources,
    media_due,
    prepare,
)
from twisted_aotx.device.numbers import (
    KIND_KERNEL,
    WORD_HELD,
    WORD_RESTORING,
    WORD_WATCHED,
)
from twisted_aotx.device.progress import publish_notices
from twisted_aotx.device.requests import LIST_ACTIVE
from twisted_aotx.device.review import review, review_is_due
from twisted_aotx.device.saves import handle_results
from twisted_aotx.device.slots import next_queued, work
from twisted_aotx.device.stats import publish_stats
from twisted_aotx.limits import HEARTBEAT_NS


@dev
def _begin(H: Any, D: Any, now: Any) -> None:
    """
    Lane 0: look at the gates; while restoring, nothing moves and the clock stands.
    """
    D.skip = 0
    if load_acquire(H.word, WORD_RESTORING) != 0:
        D.skip = 1
        return
    D.now = now
    D.ticks += 1
    D.held = load_acquire(H.word, WORD_HELD)
    D.served = 0
    D.stores = 0
    look_at_controls(H, D)
    D.chunks = 0
    claim(H, D)
    # After the claim: a READ that was sent because somebody watches by now must not be
    # answered by a tick that does not know it.
    D.watched = load_acquire(H.word, WORD_WATCHED)


@dev
def _lease_due(H: Any, D: Any) -> Any:
    """The earliest time at which a live lease needs a tick without a doorbell."""
    due = D.now + HEARTBEAT_NS
    for n in range(D.live):
        slot = D.live_list[n]
        if D.s_request[slot] >= 0:
            at = due
            if load_acquire(H.e_tail, slot) != H.e_head[slot]:
                at = D.now + i64(0)
            elif D.role_kind[D.s_role[slot]] == KIND_KERNEL:
                at = kernel_due(D, slot)
            if at < due:
                due = at
    return due


@dev
def _next_due(H: Any, D: Any) -> Any:
    """When the next tick must run, in ns of the tick's clock."""
    if D.pending[BITMAP_WORDS] != u64(0):
        return D.now + i64(0)
    due = D.now + HEARTBEAT_NS
    if D.held == 1:
        return due
    if has_media_work(D) == 1 or review_is_due(H, D) == 1:
        return D.now + i64(0)
    if next_queued(D) >= 0 and D.slots_free[BITMAP_WORDS] != u64(0):
        return D.now + i64(0)
    leases = _lease_due(H, D)
    if leases < due:
        due = leases
    due = media_due(D, due)
    oldest = D.r_head[LIST_ACTIVE]
    if oldest >= 0 and D.r_open[oldest] + D.request_ns + 1 < due:
        due = D.r_open[oldest] + D.request_ns + 1
    return due


@dev
def _run_work(H: Any, D: Any, B: Any, P: Any, lane: Any, lanes: Any) -> None:
    """Work, media, engine exchange, commit and policy review; not while held."""
    if lane == 0:
        work(H, D)
        prepare(H, D, P)
        send_orders(H, D)
    barrier()
    render_orders(H, D, B, lane, lanes)
    barrier()
    if lane == 0:
        publish_orders(H, D)
    barrier()
    run_kernel_engines(H, D, P, lane, lanes)
    barrier()
    if lane == 0:
        collect(H, D)
    barrier()
    append(H, D, B, lane, lanes)
    barrier()
    if lane == 0:
        commit(H, D)
        review(H, D)


@dev
def tick_stages(
    H: Any, D: Any, B: Any, P: Any, lane: Any, lanes: Any, now: Any
) -> None:
    """
    Run one tick at *now* (ns) up to its replies; leaves in `H.outcome` whether the
    doorbells of broker, engines and store are to be rung. `end_tick` is the rest.
    """
    if lane == 0:
        D.ring_broker = 0
        D.ring_engines = 0
        D.ring_store = 0
        H.outcome[0] = now + HEARTBEAT_NS
        H.outcome[1] = 0
        H.outcome[2] = 0
        H.outcome[3] = 0
        _begin(H, D, now)
    barrier()
    if D.skip == 1:
        return
    copy_in(H, D, lane, lanes)
    barrier()
    if lane == 0:
        if D.held == 0:
            expire_uploads(H, D)
        admit(H, D)
    barrier()
    keep_payloads(D, B, lane, lanes)
    keep_chunks(D, P, lane, lanes)
    copy_windows(H, D, B, lane, lanes)
    barrier()
    if D.held == 0:
        _run_work(H, D, B, P, lane, lanes)
    barrier()
    if lane == 0:
        handle_results(H, D, P)
    barrier()
    copy_out(H, D, lane, lanes)
    barrier()
    if lane == 0:
        publish_stats(H, D)
        publish_notices(H, D)
        publish_replies(H, D)
        H.outcome[1] = D.ring_broker
        H.outcome[2] = D.ring_engines
        H.outcome[3] = D.ring_store


@dev
def end_tick(H: Any, D: Any, P: Any) -> None:
    """
    Lane 0: hash what waits for it, after the doorbells were rung; leaves in `H.outcome`
    when the next tick is due (ns).
    """
    if D.skip == 1:
        return
    if D.held == 0:
        hash_sources(H, D, P)
    H.outcome[0] = _next_due(H, D)


@dev
def tick(regions_h: Any, regions_d: Any, bulk: Any, pool: Any, now: Any) -> None:
    """One tick on the CPU; H and D as arrays of length 1."""
    tick_stages(regions_h[0], regions_d[0], bulk, pool, i64(0), i64(1), now)
    end_tick(regions_h[0], regions_d[0], pool)
