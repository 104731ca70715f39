"""
Policy frames: operation 12 (`wire.md` §11). A read has no payload.
"""

from __future__ import annotations

import attrs

from twisted_aotx.wire.kinds import u32, u64
from twisted_aotx.wire.layout import Record, wire_fields


@attrs.frozen(field_transformer=wire_fields)
class PolicyWrite(Record):
    """
    The payload of a write.
    """

    SIZE = 16

    #: `numbers.PolicyAction`.
    action: int = attrs.field(metadata=u32(4, low=1, high=5))
    #: The control revision that the writer has seen.
    control_revision: int = attrs.field(metadata=u64(8))

    schema: int = attrs.field(default=1, init=False, metadata=u32(0))


@attrs.frozen(field_transformer=wire_fields, kw_only=True)
class PolicyReport(Record):
    """
    What a read and an accepted write answer; `device.md` §14 says what it means.
    """

    SIZE = 160

    #: `numbers.PolicyState`.
    state: int = attrs.field(metadata=u32(12, high=6))
    review_enabled: int = attrs.field(default=0, metadata=u32(16, high=1))
    pending: int = attrs.field(default=0, metadata=u32(20))
    #: 0 when not active.
    active_rows: int = attrs.field(default=0, metadata=u32(24))
    #: `numbers.PolicyResult` of the last review.
    result_status: int = attrs.field(default=0, metadata=u32(28, high=11))
    control_revision: int = attrs.field(default=0, metadata=u64(32))
    source_frontier: int = attrs.field(default=0, metadata=u64(40))
    completed: int = attrs.field(default=0, metadata=u64(48))
    interrupted: int = attrs.field(default=0, metadata=u64(56))
    refused: int = attrs.field(default=0, metadata=u64(64))
    decision: int = attrs.field(default=0, metadata=u64(72))
    saved_generation: int = attrs.field(default=0, metadata=u64(80))
    maximum_ns: int = attrs.field(default=0, metadata=u64(88))
    last_ns: int = attrs.field(default=0, metadata=u64(96))
    written_bytes: int = attrs.field(default=0, metadata=u64(104))
    result_bytes: int = attrs.field(default=0, metadata=u64(112))
    #: `numbers.PolicyReason`.
    reason: int = attrs.field(default=0, metadata=u32(120, high=5))

    schema: int = attrs.field(default=1, init=False, metadata=u32(0))
    #: [D11].
    abi: int = attrs.field(default=3, init=False, metadata=u32(4))
    #: [D11].
    mode: int = attrs.field(default=2, init=False, metadata=u32(8))
