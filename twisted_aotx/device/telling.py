"""
Reading on the host what the device tells of itself after each tick.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twisted_aotx.device import entries
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
from twisted_aotx.devices import DeviceStats


class StatsReader:
    """
    Owns the words that counters are copied through.
    """

    def __init__(self) -> None:
        self._words = np.zeros(STAT_COUNT, np.int64)

    def read(self, launch: Any) -> DeviceStats:
        """The counters as of a recent tick."""
        launch.on_host(entries.read_stats, self._words)
        words = self._words.tolist()
        return DeviceStats(
            ticks=words[STAT_TICKS],
            frames=words[STAT_FRAMES],
            leases=words[STAT_LEASES],
            queued=words[STAT_QUEUED],
            dropped_events=words[STAT_DROPPED],
            held=bool(words[STAT_HELD]),
            roles_active=words[STAT_ROLES],
            busy_ns=words[STAT_BUSY_NS],
            usage_pending=words[STAT_USAGE_PENDING],
            usage_reviewed=words[STAT_USAGE_REVIEWED],
            policy_state=words[STAT_POLICY_STATE],
            media_objects=words[STAT_MEDIA_OBJECTS],
            media_bytes_free=words[STAT_MEDIA_FREE],
            media_receipts=words[STAT_MEDIA_RECEIPTS],
        )
