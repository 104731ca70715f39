"""
What the device tells of itself after a tick (`devices.DeviceStats`).
"""

from __future__ import annotations

from tests.device.oracle.media_state import LIVE
from tests.device.oracle.state import QUEUED, State
from twisted_aotx.devices import DeviceStats


def count(state: State) -> DeviceStats:
    """Before sources are hashed, which comes after everything that is told."""
    media, policy = state.media, state.policy
    live = [source for source in media.sources() if source.phase in LIVE]
    taken = sum(media.bytes_pool.spans.values())
    return DeviceStats(
        ticks=state.ticks,
        frames=state.answered,
        leases=len(state.leases),
        queued=sum(entry.phase == QUEUED for entry in state.entries.values()),
        dropped_events=state.dropped_events,
        held=state.held,
        roles_active=sum(1 << m.role for m in state.models.values() if m.active),
        busy_ns=0,
        media_objects=len(live),
        media_bytes_free=media.bytes_pool.size - taken,
        media_receipts=len(media.receipts),
        usage_pending=len(policy.records),
        usage_reviewed=policy.completed + policy.refused - policy.passed_over,
        policy_state=policy.state,
    )
