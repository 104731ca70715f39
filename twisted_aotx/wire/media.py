"""
Media frames and what they answer: operations 6, 7 and 9 (`wire.md` §10).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.wire.kinds import raw, u32, u64
from twisted_aotx.wire.layout import BrokenRule, Record, nested, offset_of, wire_fields
from twisted_aotx.wire.numbers import MediaCommand, MediaFormat

#: Bytes of source that one CHUNK may carry.
CHUNK_BYTES_MAX: Final = 8192
#: The largest source that BEGIN may name.
SOURCE_BYTES_MAX: Final = (2**64 - 1) // 8


@attrs.frozen(field_transformer=wire_fields)
class BeginData(Record):
    """
    What follows the head of a BEGIN. Width and height are zero on this channel.
    """

    SIZE = 48

    #: `numbers.MediaFormat`.
    format: int = attrs.field(metadata=u32(0))
    #: Of the whole source.
    sha256: bytes = attrs.field(metadata=raw(16, 32))

    def check(self) -> None:
        """
        Only JPEG and WAV are taken.
        """
        if self.format not in tuple(MediaFormat):
            raise BrokenRule("format", "neither JPEG nor WAV")


@attrs.frozen(field_transformer=wire_fields)
class FrameHead(Record):
    """
    The first 64 bytes of a MEDIA payload.
    """

    SIZE = 64

    #: `numbers.MediaCommand`.
    command: int = attrs.field(metadata=u32(4, low=1, high=4))
    #: Equal to the header's id.
    transfer_id: bytes = attrs.field(metadata=raw(8, 16, nonzero=True))
    #: The whole source; ignored with CANCEL.
    source_bytes: int = attrs.field(metadata=u64(24))
    #: Where the data belongs: 0 with BEGIN, the end with END; ignored with CANCEL.
    source_offset: int = attrs.field(metadata=u64(32))
    #: What follows this head.
    data_bytes: int = attrs.field(metadata=u32(40, high=CHUNK_BYTES_MAX))

    schema: int = attrs.field(default=1, init=False, metadata=u32(0))

    def check(self) -> None:
        """
        Hold sizes and offset to what the command asks for.
        """
        if self.command == MediaCommand.CHUNK:
            if self.data_bytes < 1:
                raise BrokenRule("data_bytes", "a CHUNK without data")
        elif self.data_bytes != (
            BeginData.SIZE if self.command == MediaCommand.BEGIN else 0
        ):
            raise BrokenRule("data_bytes", "not what the command carries")
        if self.command == MediaCommand.BEGIN:
            if not 1 <= self.source_bytes <= SOURCE_BYTES_MAX:
                raise BrokenRule("source_bytes", f"not within 1..{SOURCE_BYTES_MAX}")
            if self.source_offset:
                raise BrokenRule("source_offset", "not zero")
        if self.command == MediaCommand.END and self.source_offset != self.source_bytes:
            raise BrokenRule("source_offset", "not the end of the source")


@attrs.frozen
class MediaFrame:
    """
    The payload of one MEDIA packet.
    """

    head: FrameHead
    data: bytes = attrs.field(default=b"", repr=False)

    @classmethod
    def begin(cls, transfer_id: bytes, source_bytes: int, begin: BeginData) -> Self:
        """
        Announce a source.
        """
        head = FrameHead(
            MediaCommand.BEGIN, transfer_id, source_bytes, 0, BeginData.SIZE
        )
        return cls(head, begin.pack())

    @classmethod
    def chunk(
        cls, transfer_id: bytes, source_bytes: int, source_offset: int, data: bytes
    ) -> Self:
        """
        Hand over 1..8,192 bytes of the source.
        """
        head = FrameHead(
            MediaCommand.CHUNK, transfer_id, source_bytes, source_offset, len(data)
        )
        return cls(head, data)

    @classmethod
    def end(cls, transfer_id: bytes, source_bytes: int) -> Self:
        """
        Say that the source is whole.
        """
        head = FrameHead(MediaCommand.END, transfer_id, source_bytes, source_bytes, 0)
        return cls(head)

    @classmethod
    def cancel(cls, transfer_id: bytes) -> Self:
        """
        Remove the source, or give the upload up.
        """
        return cls(FrameHead(MediaCommand.CANCEL, transfer_id, 0, 0, 0))

    def __attrs_post_init__(self) -> None:
        if len(self.data) != self.head.data_bytes:
            raise LocalWireError(
                "MediaFrame",
                "data",
                offset_of(FrameHead, "data_bytes"),
                f"{len(self.data)} bytes instead of {self.head.data_bytes}",
            )

    def pack(self) -> bytes:
        """
        64 bytes of head, then the data.
        """
        return self.head.pack() + self.data

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """
        Read a MEDIA payload; of a BEGIN the data too.

        Raises:
            RemoteWireError: a rule of `wire.md` §10 is broken.
        """
        head = FrameHead.unpack(payload[: FrameHead.SIZE])
        data = payload[FrameHead.SIZE :]
        if len(data) != head.data_bytes:
            raise RemoteWireError(
                "MediaFrame",
                "data",
                offset_of(FrameHead, "data_bytes"),
                f"{len(data)} bytes instead of {head.data_bytes}",
            )
        if head.command == MediaCommand.BEGIN:
            BeginData.unpack(data, at=FrameHead.SIZE)
        return cls(head, data)


@attrs.frozen(field_transformer=wire_fields)
class Metadata(Record):
    """
    What the device knows of a source.
    """

    SIZE = 64

    #: As declared at BEGIN.
    sha256: bytes = attrs.field(metadata=raw(0, 32))
    source_bytes: int = attrs.field(metadata=u64(32))
    #: `numbers.MediaPhase`.
    phase: int = attrs.field(metadata=u32(40, high=7))
    #: `numbers.MediaStatus`.
    status: int = attrs.field(metadata=u32(44, high=12))
    #: `numbers.MediaFormat`.
    format: int = attrs.field(metadata=u32(48))
    #: Canonical 16 kHz samples of audio, 0 for images.
    samples: int = attrs.field(default=0, metadata=u32(52))
    #: Feature rows, once ready.
    rows: int = attrs.field(default=0, metadata=u32(56))


@attrs.frozen(field_transformer=wire_fields)
class ListRow(Record):
    """
    One source of the caller in a MEDIA_LIST reply.
    """

    SIZE = 80

    transfer_id: bytes = attrs.field(metadata=raw(0, 16, nonzero=True))
    metadata: Metadata = attrs.field(metadata=nested(16, Metadata))


#: Rows in one reply.
LIST_ROWS_MAX: Final = PAYLOAD_BYTES_MAX // ListRow.SIZE


def pack_list(rows: Iterable[ListRow]) -> bytes:
    """
    The payload of a MEDIA_LIST reply, at most 817 rows.
    """
    payload = b"".join(row.pack() for row in rows)
    if len(payload) > LIST_ROWS_MAX * ListRow.SIZE:
        raise LocalWireError("ListRow", "length", 0, f"more than {LIST_ROWS_MAX} rows")
    return payload


def unpack_list(payload: bytes) -> tuple[ListRow, ...]:
    """
    The rows of a MEDIA_LIST reply.

    Raises:
        RemoteWireError: a row is wrong or cut.
    """
    return tuple(
        ListRow.unpack(payload[at : at + ListRow.SIZE], at=at)
        for at in range(0, len(payload), ListRow.SIZE)
    )
