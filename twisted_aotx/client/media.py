"""
Media sources over the device's client: operations 6, 7 and 9 (`wire.md` §10).

Every call may raise what `DeviceClient` says of all calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from twisted_aotx.client.device import Caller, DeviceClient
from twisted_aotx.client.replies import hold_to
from twisted_aotx.errors import DeviceRefused, InvalidReply, RemoteWireError
from twisted_aotx.wire.media import (
    CHUNK_BYTES_MAX,
    ListRow,
    MediaFrame,
    Metadata,
    unpack_list,
)
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader

#: CHUNKs of one upload on their way at once: enough that the next one is there when the
#: device asks for it, and 64 KiB in all.
CHUNKS_AHEAD: Final = 8


@attrs.frozen
class MediaPage:
    """
    The answer to MEDIA_LIST.
    """

    #: The device's epoch.
    epoch: int
    rows: tuple[ListRow, ...]
    #: The table position to ask for next; 0 at the end.
    next_cursor: int


async def media_frame(
    client: DeviceClient, caller: Caller, frame: MediaFrame
) -> Metadata:
    """
    Send one frame of an upload, or a CANCEL; what the source is after it.

    Raises:
        DeviceRefused: 400, 403, 404, 409, 413, 429 or 503; `refused_source` tells what
            came with it.
    """
    header = RequestHeader(
        operation=Operation.MEDIA,
        principal=caller.principal,
        revision=caller.revision,
        id=frame.head.transfer_id,
    )
    _, payload = await client.ask(header, frame.pack())
    return _metadata(payload)


async def media_chunks(
    client: DeviceClient,
    caller: Caller,
    transfer_id: bytes,
    size: int,
    blocks: Iterable[bytes],
) -> None:
    """
    Send a whole source in CHUNKs, `CHUNKS_AHEAD` of them before the first is answered.

    Args:
        size: bytes of the source.
        blocks: the source in order, in parts of any size.

    Raises:
        DeviceRefused: a CHUNK was; those that were sent after it have no effect.
    """
    header = RequestHeader(
        operation=Operation.MEDIA,
        principal=caller.principal,
        revision=caller.revision,
        id=transfer_id,
    )

    def payloads() -> Iterator[bytes]:
        offset = 0
        for block in blocks:
            for at in range(0, len(block), CHUNK_BYTES_MAX):
                data = block[at : at + CHUNK_BYTES_MAX]
                yield MediaFrame.chunk(transfer_id, size, offset, data).pack()
                offset += len(data)

    def accept(reply: ReplyHeader, payload: bytes) -> None:
        hold_to(header, reply, payload)
        _metadata(payload)

    await client.stream(header, payloads(), accept, ahead=CHUNKS_AHEAD)


async def media_read(
    client: DeviceClient, caller: Caller, transfer_id: bytes
) -> Metadata:
    """
    What a source of the caller is now, a refused one included.

    Args:
        transfer_id: 16 bytes.

    Raises:
        DeviceRefused: 403, 404 or 503.
    """
    header = RequestHeader(
        operation=Operation.MEDIA_READ,
        principal=caller.principal,
        revision=caller.revision,
        id=transfer_id,
    )
    _, payload = await client.ask(header)
    return _metadata(payload)


async def media_list(client: DeviceClient, caller: Caller, cursor: int) -> MediaPage:
    """
    The caller's sources from the table position *cursor* on.

    Raises:
        DeviceRefused: 403, or 409 if *cursor* is beyond the table.
    """
    header = RequestHeader(
        operation=Operation.MEDIA_LIST,
        principal=caller.principal,
        revision=caller.revision,
        cursor=cursor,
    )
    reply, payload = await client.ask(header)
    try:
        rows = unpack_list(payload)
    except RemoteWireError as broken:
        raise InvalidReply(str(broken)) from None
    return MediaPage(reply.epoch, rows, reply.cursor)


def refused_source(refused: DeviceRefused) -> Metadata | None:
    """
    The metadata that came with a refusal; None when the device keeps no such source.

    Raises:
        InvalidReply: what came is none.
    """
    return _metadata(refused.payload) if refused.payload else None


def _metadata(payload: bytes) -> Metadata:
    try:
        return Metadata.unpack(payload)
    except RemoteWireError as broken:
        raise InvalidReply(str(broken)) from None
