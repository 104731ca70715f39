"""
Installing a grant table through channel 0 (`device.md` §2, `wire.md` §6).
"""

from __future__ import annotations

from tests.device.oracle.frames import Frame, u32, u64
from tests.device.oracle.state import Grant, State

GRANTS = 1
ROW = 64
ROLES = 1 << 2 | 1 << 3 | 1 << 4


def install(state: State, frame: Frame) -> int:
    """
    Rows 2 to 4 of the table; row 1 was checked with the frame.

    Returns:
        The reply's status; anything but 200 has changed nothing.
    """
    if frame.operation != GRANTS:
        return 403
    count = u32(frame.packet, 76)
    revision = frame.revision
    if count > state.capacities.principals:
        return 400
    if len(frame.payload) != ROW * count:
        return 400
    if revision == 0 or revision <= state.revision:
        return 400
    table: dict[bytes, Grant] = {}
    for index in range(count):
        row = frame.payload[ROW * index : ROW * (index + 1)]
        if not _valid(state, row, revision) or row[:16] in table:
            return 400
        table[row[:16]] = Grant(
            principal=row[:16],
            actions=u32(row, 24),
            roles=u32(row, 28),
            pages=u32(row, 32),
            tokens=u32(row, 36),
            requests=u32(row, 40),
            media_objects=u32(row, 44),
            media_bytes=u64(row, 48),
        )
    state.grants = table
    state.revision = revision
    return 200


def _valid(state: State, row: bytes, revision: int) -> bool:
    actions = u32(row, 24)
    roles = u32(row, 28)
    return (
        any(row[:16])
        and u64(row, 16) == revision
        and 0 < actions <= 255
        and roles & ~ROLES == 0
        and u32(row, 32) <= state.pages_max
        and 1 <= u32(row, 36) <= state.capacities.sequence_tokens - 1
        and 1 <= u32(row, 40) <= state.capacities.requests
        and not any(row[56:64])
    )
