"""
What the device tells of itself after each tick; the host may read it at any time.

Each counter is one word with one writer: a reader sees those of one recent tick or of
the next.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release
from twisted_aotx.device.numbers import (
    STAT_BUSY_NS,
    STAT_COUNT,
    STAT_DROPPED,
    STAT_FRAMES,
    STAT_HELD,
    STAT_LEASES,
    STAT_MEDIA_FREE,
    STAT_MEDIA_OBJECTS,
    STAT_MEDIA_RECEIPTS,
    STAT_POLICY_STATE,
    STAT_QUEUED,
    STAT_ROLES,
    STAT_TICKS,
    STAT_USAGE_PENDING,
    STAT_USAGE_REVIEWED,
)
from twisted_aotx.device.pool import POOL_BYTES
from twisted_aotx.device.review import policy_state
from twisted_aotx.device.roles import ROLE_FIRST, ROLE_LAST
from twisted_aotx.device.usage import usage_pending


@dev
def publish_stats(H: Any, D: Any) -> None:
    """Lane 0: after the commit, before the replies are published."""
    leases = i64(0)
    roles = i64(0)
    for role in range(ROLE_FIRST, ROLE_LAST + 1):
        leases += D.role_leases[role]
        roles |= i64(D.role_active[role]) << role
    D.frames += D.served
    store_release(H.stats, STAT_TICKS, D.ticks)
    store_release(H.stats, STAT_FRAMES, D.frames)
    store_release(H.stats, STAT_LEASES, leases)
    store_release(H.stats, STAT_QUEUED, D.queued)
    store_release(H.stats, STAT_DROPPED, D.dropped_events)
    store_release(H.stats, STAT_HELD, D.held)
    store_release(H.stats, STAT_ROLES, roles)
    store_release(H.stats, STAT_USAGE_PENDING, usage_pending(D))
    store_release(H.stats, STAT_USAGE_REVIEWED, D.policy_reviewed)
    store_release(H.stats, STAT_POLICY_STATE, policy_state(D))
    free = D.p_size[POOL_BYTES] - D.p_used[POOL_BYTES]
    store_release(H.stats, STAT_MEDIA_OBJECTS, D.media_live)
    store_release(H.stats, STAT_MEDIA_FREE, free)
    store_release(H.stats, STAT_MEDIA_RECEIPTS, D.u_taken)


@dev
def add_busy(H: Any, elapsed_ns: Any) -> None:
    """The loop: one tick took *elapsed_ns*."""
    store_release(H.stats, STAT_BUSY_NS, H.stats[STAT_BUSY_NS] + elapsed_ns)


@dev
def read_stats(H: Any, out: Any) -> None:
    """Host: copy the counters to *out* (STAT_COUNT i64)."""
    for k in range(STAT_COUNT):
        out[k] = load_acquire(H.stats, k)
