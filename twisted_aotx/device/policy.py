"""
Operation 12 (`device.md` §14) while the policy is not offered: judged, then 503.

Permission and shape are answered as they will be, so that a client's mistake shows as
its own and not as a missing feature.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import read32
from twisted_aotx.device.frames import AT_CURSOR, AT_EPOCH, AT_ID, AT_ROLE, is_zero
from twisted_aotx.device.numbers import (
    ACT_POLICY,
    ACT_TELEMETRY,
    BAD,
    FORBIDDEN,
    HEADER,
    UNAVAILABLE,
)

_WRITE_BYTES = 16
_ACTION_MAX = 5


@dev
def judge(frame: Any, length: Any, actions: Any) -> Any:
    """The status of a policy frame: 403, 400 or 503."""
    writes = i64(0)
    needed = i64(ACT_TELEMETRY | ACT_POLICY)
    if length != HEADER:
        writes = i64(1)
        needed = i64(ACT_POLICY)
    if (actions & needed) == 0:
        return i64(FORBIDDEN)
    if is_zero(frame, AT_ID, AT_ROLE) == 0:
        return i64(BAD)
    if writes == 0:
        if is_zero(frame, AT_EPOCH, AT_ID) == 0:
            return i64(BAD)
        return i64(UNAVAILABLE)
    if length != HEADER + _WRITE_BYTES or read32(frame, HEADER) != 1:
        return i64(BAD)
    action = read32(frame, HEADER + 4)
    if action < 1 or action > _ACTION_MAX:
        return i64(BAD)
    return i64(UNAVAILABLE)


#: The id ends where the cursor begins, so one range covers both.
assert AT_ID < AT_CURSOR < AT_ROLE
