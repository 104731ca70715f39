"""
Watches and notices: what goes over `watch.sock` (docs/wire/watch.md).

A packet holds 1 to `limits.WATCH_RECORDS_MAX` records of one kind: watches towards the
runtime, notices back. Both name a request and where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import attrs

from twisted_aotx.errors import RemoteWireError
from twisted_aotx.limits import WATCH_RECORDS_MAX
from twisted_aotx.wire.kinds import raw, u32, u64
from twisted_aotx.wire.layout import Record, wire_fields

#: Bytes of a watch and of a notice.
WATCH_BYTES: Final = 64


@attrs.frozen(field_transformer=wire_fields)
class Watch(Record):
    """
    A client asks for a notice once the request stands further than it knows.
    """

    SIZE = WATCH_BYTES

    principal: bytes = attrs.field(metadata=raw(8, 16))
    #: Request id.
    id: bytes = attrs.field(metadata=raw(24, 16))
    #: Runtime epoch of the request.
    epoch: int = attrs.field(metadata=u64(40))
    #: Output bytes that the client knows of.
    total_bytes: int = attrs.field(metadata=u64(48))
    #: `numbers.Phase` that the client knows of.
    phase: int = attrs.field(metadata=u32(56, high=6))

    magic: bytes = attrs.field(
        default=b"AOTXWCH1", init=False, repr=False, metadata=raw(0, 8)
    )


@attrs.frozen(field_transformer=wire_fields)
class Notice(Record):
    """
    The runtime's answer to one watch: where the request stands, as far as it was told.
    """

    SIZE = WATCH_BYTES

    principal: bytes = attrs.field(metadata=raw(8, 16))
    #: Request id.
    id: bytes = attrs.field(metadata=raw(24, 16))
    #: The runtime's current epoch.
    epoch: int = attrs.field(metadata=u64(40))
    #: Output bytes; 0 if nothing was told yet.
    total_bytes: int = attrs.field(metadata=u64(48))
    #: `numbers.Phase`; 0 if nothing was told yet.
    phase: int = attrs.field(metadata=u32(56, high=6))

    magic: bytes = attrs.field(
        default=b"AOTXNTC1", init=False, repr=False, metadata=raw(0, 8)
    )


Kind = TypeVar("Kind", Watch, Notice)


def join_records(records: Sequence[Watch | Notice]) -> list[bytes]:
    """
    As few packets as *records*, in order, fit in.
    """
    data = [record.pack() for record in records]
    return [
        b"".join(data[start : start + WATCH_RECORDS_MAX])
        for start in range(0, len(data), WATCH_RECORDS_MAX)
    ]


def split_records(packet: bytes, kind: type[Kind]) -> list[Kind]:
    """
    The records of one packet.

    Raises:
        RemoteWireError: its length is no number of records, or one of them is wrong.
    """
    count, rest = divmod(len(packet), WATCH_BYTES)
    if rest or not 1 <= count <= WATCH_RECORDS_MAX:
        raise RemoteWireError(
            kind.__name__,
            "length",
            len(packet),
            f"{len(packet)} bytes are not 1 to {WATCH_RECORDS_MAX} records",
        )
    return [
        kind.unpack(packet[at : at + WATCH_BYTES], at=at)
        for at in range(0, len(packet), WATCH_BYTES)
    ]


def watch_path(socket_path: str) -> str:
    """
    Where the runtime whose packet socket is at *socket_path* offers watches:
    `watch.sock` beside `service.sock`, `NAME.watch` beside a socket of another name.
    """
    folder, slash, name = socket_path.rpartition("/")
    return (
        folder + slash + ("watch.sock" if name == "service.sock" else name + ".watch")
    )
