"""
The grant table: the operator's file and the frame on channel 0 (`wire.md` §6).

The device checks more against its capacities: page quota, token cap, request cap and
the number of principals.
"""

from __future__ import annotations

from typing import Final, Self

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.limits import HEADER_BYTES, PACKET_BYTES_MAX
from twisted_aotx.wire.kinds import raw, u32, u64
from twisted_aotx.wire.layout import (
    BrokenRule,
    Record,
    layout_of,
    offset_of,
    wire_fields,
)
from twisted_aotx.wire.numbers import SERVED_ROLES, Operation
from twisted_aotx.wire.packet import RequestHeader

#: Every action bit that a row may hold; bit 256 is not offered [D1].
ACTIONS_MASK: Final = 255
#: Every role that a row may name, as a mask.
ROLES_MASK: Final = sum(1 << role for role in SERVED_ROLES)


@attrs.frozen(field_transformer=wire_fields)
class GrantRow(Record):
    """
    What one principal may do (`wire.md` §6).
    """

    SIZE = 64

    principal: bytes = attrs.field(metadata=raw(0, 16, nonzero=True))
    #: Equal to the table's.
    revision: int = attrs.field(metadata=u64(16, low=1))
    #: `numbers.Action` bits, not empty.
    actions: int = attrs.field(metadata=u32(24, low=1, high=ACTIONS_MASK))
    #: Bit = role number; may be empty.
    models: int = attrs.field(metadata=u32(28, high=ROLES_MASK))
    #: Pages of 16 tokens; 0 means the role's whole context [D8].
    pages: int = attrs.field(metadata=u32(32))
    #: Output tokens per request.
    tokens: int = attrs.field(metadata=u32(36, low=1))
    #: Active requests at once.
    requests: int = attrs.field(metadata=u32(40, low=1))
    #: Media objects; 0 = none.
    media: int = attrs.field(metadata=u32(44))
    media_bytes: int = attrs.field(metadata=u64(48))

    def check(self) -> None:
        """
        Only served roles may be granted.
        """
        if self.models & ~ROLES_MASK:
            raise BrokenRule("models", "names a role that is not served")


#: Rows that fit one packet.
ROWS_MAX: Final = (PACKET_BYTES_MAX - HEADER_BYTES) // GrantRow.SIZE


@attrs.frozen
class GrantTable:
    """
    Every grant of one revision; replaces the one before as a whole.
    """

    #: 1 .. 2^64 − 1, rises with each table.
    revision: int
    #: At most 1,022, of different principals.
    rows: tuple[GrantRow, ...] = ()

    def __attrs_post_init__(self) -> None:
        broken = _broken(self.revision, self.rows)
        if broken is not None:
            raise LocalWireError(*broken)

    def pack(self) -> bytes:
        """
        The bytes of the file and of the frame: 128 + 64 · rows.
        """
        rows = b"".join(row.pack() for row in self.rows)
        return _header(self.revision, len(self.rows)).pack() + rows

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """
        Read a whole file or frame.

        Raises:
            RemoteWireError: anything is wrong anywhere in it.
        """
        if not HEADER_BYTES <= len(data) <= PACKET_BYTES_MAX:
            raise RemoteWireError(
                "GrantTable", "length", len(data), "not a size that a table can have"
            )
        header = RequestHeader.unpack(data[:HEADER_BYTES])
        expected = _header(header.revision, header.limit).pack()
        for offset, (wanted, found) in enumerate(zip(expected, data, strict=False)):
            if wanted != found:
                field = layout_of(RequestHeader).field_at(offset)
                raise RemoteWireError(
                    "GrantTable", field, offset, "is not what the table asks for"
                )
        if len(data) != HEADER_BYTES + header.payload_bytes:
            raise RemoteWireError(
                "GrantTable",
                "length",
                len(data),
                f"{header.limit} rows need {HEADER_BYTES + header.payload_bytes} bytes",
            )
        rows = tuple(
            GrantRow.unpack(data[at : at + GrantRow.SIZE], at=at)
            for at in range(HEADER_BYTES, len(data), GrantRow.SIZE)
        )
        broken = _broken(header.revision, rows)
        if broken is not None:
            raise RemoteWireError(*broken)
        return cls(header.revision, rows)


def _header(revision: int, count: int) -> RequestHeader:
    return RequestHeader(
        operation=Operation.GRANTS,
        principal=bytes(16),
        revision=revision,
        limit=count,
        payload_bytes=min(GrantRow.SIZE * count, 2**32 - 1),
    )


def _broken(
    revision: int, rows: tuple[GrantRow, ...]
) -> tuple[str, str, int, str] | None:
    """
    Record, field, offset and reason of the first rule broken between the rows.
    """
    if not 1 <= revision < 2**64:
        at = offset_of(RequestHeader, "revision")
        return "GrantTable", "revision", at, "not within 1..2^64 − 1"
    if len(rows) > ROWS_MAX:
        at = offset_of(RequestHeader, "limit")
        return "GrantTable", "rows", at, f"{len(rows)} rows are more than {ROWS_MAX}"
    seen: set[bytes] = set()
    for index, row in enumerate(rows):
        start = HEADER_BYTES + index * GrantRow.SIZE
        if row.revision != revision:
            at = start + offset_of(GrantRow, "revision")
            return "GrantRow", "revision", at, "differs from the table's"
        if row.principal in seen:
            return "GrantRow", "principal", start, "stands twice in the table"
        seen.add(row.principal)
    return None
