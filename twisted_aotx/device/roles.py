"""
What the engines declared, by model role (`device.md` §10), and whether they serve.

Rules:
1. A role is served when it has an engine, active while that engine is not lost.
2. `H.role_state[role]` is the host's word: even while the engine serves, odd while it
   is lost. It only grows, so a loss between two ticks is never missed.
3. Facts are written once, by `configure_role`, before the first tick.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release
from twisted_aotx.device.numbers import KIND_NONE
from twisted_aotx.limits import ROLE_COUNT, SPAN_BYTES_MAX, Capacities

#: Spans of a message format, in the order of `device.md` §5.
SYSTEM_HEAD = 0
SYSTEM_TAIL = 1
USER_HEAD = 2
USER_TAIL = 3
ASSISTANT_HEAD = 4
ASSISTANT_TAIL = 5
GENERATION_HEAD = 6
THINK_OPEN = 7
THINK_CLOSE = 8
SPAN_COUNT = 9

#: The roles that requests may name (`wire.md` §6).
ROLE_FIRST = 2
ROLE_LAST = 4


def role_fields(capacities: Capacities) -> list[Any]:
    """Indexed by role 0..4; 0 and 1 are never served."""
    roles = (ROLE_COUNT,)
    return [
        ("role_kind", "<i8", roles),
        ("role_seen", "<i8", roles),
        ("role_active", "<i8", roles),
        ("role_digest", "u1", (ROLE_COUNT, 32)),
        ("role_modalities", "<i8", roles),
        ("role_capacity", "<i8", roles),
        ("role_leases", "<i8", roles),
        ("span", "u1", (ROLE_COUNT, SPAN_COUNT, SPAN_BYTES_MAX)),
        ("span_bytes", "<i8", (ROLE_COUNT, SPAN_COUNT)),
        ("prefix_bytes", "<i8", roles),
        # of all roles together
        ("modalities", "<i8"),
    ]


@dev
def configure_role(
    D: Any, role: Any, numbers: Any, digest: Any, spans: Any, span_bytes: Any
) -> None:
    """
    Record an engine's facts.

    Args:
        numbers: (4,) i64: kind, modality bits, capacity, prefix bytes.
        digest: (32,) u8.
        spans: (9, 512) u8 and span_bytes (9,) i64, in the order above.
    """
    D.role_kind[role] = numbers[0]
    D.role_modalities[role] = numbers[1]
    D.modalities |= numbers[1]
    D.role_capacity[role] = numbers[2]
    D.prefix_bytes[role] = numbers[3]
    D.role_active[role] = 1
    for k in range(32):
        D.role_digest[role][k] = digest[k]
    for n in range(SPAN_COUNT):
        D.span_bytes[role][n] = span_bytes[n]
        for k in range(span_bytes[n]):
            D.span[role][n][k] = spans[n][k]


@dev
def is_available(D: Any, role: Any, granted: Any) -> Any:
    """1 if *role* is served, active and in the mask *granted*, else 0."""
    if role < ROLE_FIRST or role > ROLE_LAST:
        return i64(0)
    if D.role_kind[role] == KIND_NONE or D.role_active[role] == 0:
        return i64(0)
    return (granted >> role) & 1


@dev
def look_at_engines(H: Any, D: Any) -> Any:
    """
    Update which roles are active; the mask of roles whose engine was lost meanwhile.
    """
    lost = i64(0)
    for role in range(ROLE_FIRST, ROLE_LAST + 1):
        state = i64(load_acquire(H.role_state, role))
        if state != D.role_seen[role]:
            D.role_seen[role] = state
            D.role_active[role] = 1 - (state & 1)
            lost |= i64(1) << role
    return lost


@dev
def set_role_state(H: Any, role: Any, active: Any) -> None:
    """Host: the engine of *role* was lost (0) or is back (1); rule 2."""
    state = i64(load_acquire(H.role_state, role))
    if (state & 1) == active:
        store_release(H.role_state, role, state + 1)
