"""
Operations 6, 7 and 9: media frames (`device.md` §12, `wire.md` §10).

Where the pages leave a choice: a CHUNK or END for an id of which only a cached refusal
is left finds no source (404, no metadata), as it may change nothing; an unknown frame
operation breaks the frame's shape.
"""

from __future__ import annotations

import attrs

from tests.device.oracle.frames import Frame, reply, u32, u64
from tests.device.oracle.media_state import (
    CANCELLED,
    ENCODING,
    HASHING,
    JPEG,
    LIMIT,
    LIVE,
    PRESSURE,
    READY,
    RECEIVING,
    REFUSED,
    TRANSFER,
    WAV,
    MediaSource,
    Receipt,
)
from tests.device.oracle.state import Grant, State
from twisted_aotx.orders import RemovalRecord

MEDIA, MEDIA_READ, MEDIA_LIST = 6, 7, 9
UPLOAD = 2
BEGIN, CHUNK, END, CANCEL = 1, 2, 3, 4

HEAD = 64
CHUNK_MAX = 8192
SIZE_MAX = (2**64 - 1) // 8
ROW = 80
ROWS_MAX = 817
SECOND = 1_000_000_000


@attrs.frozen
class Answer:
    """Status, payload, and the cursor that a list goes on from."""

    status: int
    payload: bytes = b""
    cursor: int | None = None


def upload_deadline(state: State) -> int:
    return state.now + state.capacities.upload_seconds * SECOND


def expire(state: State) -> None:
    """Upload expiry, before the frames of a tick that is not held."""
    media = state.media
    for key, receipt in list(media.receipts.items()):
        if state.now < receipt.deadline_ns:
            continue
        if receipt.metadata is not None:
            del media.receipts[key]
            continue
        source = media.find(*key)
        assert source is not None
        if source.phase == RECEIVING:
            media.refuse(source, CANCELLED, upload_deadline(state))


def handle(state: State, grant: Grant, channel: int, frame: Frame) -> bytes | None:
    """Row 10 of `device.md` §3; None while the reply waits for the store."""
    answer = _judge(state, grant, channel, frame)
    if answer is None:
        return None
    out = reply(frame, state.epoch, answer.status, payload=answer.payload)
    if answer.cursor is not None:
        out = out[:64] + answer.cursor.to_bytes(8, "little") + out[72:]
    return out


def _judge(state: State, grant: Grant, channel: int, frame: Frame) -> Answer | None:
    media = state.media
    if not grant.actions & UPLOAD:
        return Answer(403)
    if not media.is_on:
        return Answer(503)
    if frame.operation == MEDIA_LIST:
        return _list(state, frame)
    if frame.operation == MEDIA_READ:
        return _read(state, frame)
    if not _is_shaped(frame):
        return Answer(400)
    command = u32(frame.payload, 4)
    if command == BEGIN:
        return _begin(state, grant, frame)
    source = media.find(frame.principal, frame.id)
    if command == CANCEL:
        return _cancel(state, channel, frame, source)
    if source is None:
        return Answer(404)
    if command == CHUNK:
        return _chunk(frame, source)
    return _end(state, frame, source)


def _is_shaped(frame: Frame) -> bool:
    """Row 3."""
    payload = frame.payload
    return (
        HEAD <= len(payload) <= HEAD + CHUNK_MAX
        and u32(payload, 0) == 1
        and BEGIN <= u32(payload, 4) <= CANCEL
        and any(frame.id)
        and payload[8:24] == frame.id
        and u32(payload, 40) == len(payload) - HEAD
        and not any(payload[44:64])
    )


def _begin(state: State, grant: Grant, frame: Frame) -> Answer:
    """Rows 4 to 12."""
    media = state.media
    key = frame.principal, frame.id
    if media.find(*key) is not None or key in media.receipts:
        return Answer(409)
    size, offset = u64(frame.payload, 24), u64(frame.payload, 32)
    data = frame.payload[HEAD:]
    if len(data) != 48 or offset != 0 or not 1 <= size <= SIZE_MAX:
        return Answer(400)
    form = u32(data, 0)
    if any(data[4:16]) or form not in (JPEG, WAV):
        return Answer(400)
    status = _room(state, grant, frame.principal, form, size)
    if status:
        return Answer(status)
    index = media.free_descriptor()
    if len(media.receipts) >= len(media.table) or index is None:
        return Answer(429)
    source = MediaSource(
        index=index,
        generation=media.generation + 1,
        owner=frame.principal,
        id=frame.id,
        sha256=data[16:48],
        size=size,
        format=form,
    )
    media.add(index, source)
    media.receipts[key] = Receipt(deadline_ns=upload_deadline(state))
    if size > state.capacities.media_bytes:
        media.refuse(source, LIMIT, upload_deadline(state))
        return Answer(413, source.metadata())
    source.offset = media.bytes_pool.take(size)
    if source.offset is None:
        media.refuse(source, PRESSURE, upload_deadline(state))
        return Answer(429, source.metadata())
    return Answer(200, source.metadata())


def _room(state: State, grant: Grant, owner: bytes, form: int, size: int) -> int:
    """Rows 6 to 8; 0 when all hold."""
    media = state.media
    live = media.live(owner)
    cached = sum(
        key[0] == owner and receipt.metadata is not None
        for key, receipt in media.receipts.items()
    )
    if len(live) + cached >= grant.media_objects:
        return 429
    if size > grant.media_bytes - sum(source.size for source in live):
        return 429
    if form not in media.families:
        return 503
    rows = state.capacities.image_patches // 4 if form == JPEG else 1
    pool = media.rows_pools[form]
    if rows > pool.size:
        return 413
    return 429 if pool.room(rows) is None else 0


def _chunk(frame: Frame, source: MediaSource) -> Answer:
    size, offset = u64(frame.payload, 24), u64(frame.payload, 32)
    data = frame.payload[HEAD:]
    if not data:
        return Answer(400, source.metadata())
    if (
        source.phase != RECEIVING
        or size != source.size
        or offset != len(source.data)
        or offset + len(data) > size
    ):
        return Answer(409, source.metadata())
    source.data += data
    return Answer(200, source.metadata())


def _end(state: State, frame: Frame, source: MediaSource) -> Answer:
    if len(frame.payload) != HEAD:
        return Answer(400, source.metadata())
    if source.phase != RECEIVING:
        return Answer(200, source.metadata())
    size, offset = u64(frame.payload, 24), u64(frame.payload, 32)
    if size == offset == source.size == len(source.data):
        source.phase = HASHING
        return Answer(200, source.metadata())
    state.media.refuse(source, TRANSFER, upload_deadline(state))
    return Answer(400, source.metadata())


def _cancel(
    state: State, channel: int, frame: Frame, source: MediaSource | None
) -> Answer | None:
    media = state.media
    key = frame.principal, frame.id
    if source is None:
        receipt = media.receipts.get(key)
        if receipt is None or receipt.metadata is None:
            return Answer(404)
        if len(frame.payload) == HEAD:
            del media.receipts[key]
            return Answer(200, receipt.metadata)
        return Answer(400, receipt.metadata)
    if len(frame.payload) != HEAD:
        return Answer(400, source.metadata())
    if source.phase in (ENCODING, READY):
        if source.leases:
            return Answer(409, source.metadata())
        source.removals += 1
        record = RemovalRecord(owner=source.owner, transfer_id=source.id)
        state.store.push(record, channel=channel, frame=frame, about=source)
        return None
    if source.phase in LIVE:
        media.refuse(source, CANCELLED, upload_deadline(state))
    media.receipts.pop(key, None)
    return Answer(200, source.metadata())


def removed(state: State, frame: Frame, source: MediaSource, saved: bool) -> bytes:
    """The reply to a CANCEL whose removal the store is done with (D12)."""
    media = state.media
    source.removals -= 1
    if media.table[source.index] is not source:
        return reply(frame, state.epoch, 404)
    status = 200
    if source.phase == READY:
        if saved:
            media.refuse(source, CANCELLED, upload_deadline(state))
        else:
            status = 429
    if source.phase == REFUSED:
        media.receipts.pop(source.key, None)
    return reply(frame, state.epoch, status, payload=source.metadata())


def _read(state: State, frame: Frame) -> Answer:
    """An id that the caller does not own first, as for the other frames."""
    source = state.media.find(frame.principal, frame.id)
    receipt = state.media.receipts.get((frame.principal, frame.id))
    metadata = source.metadata() if source is not None else None
    if metadata is None and receipt is not None:
        metadata = receipt.metadata
    if metadata is None:
        return Answer(404)
    return Answer(400 if frame.payload else 200, metadata)


def _list(state: State, frame: Frame) -> Answer:
    media = state.media
    if frame.cursor > len(media.table):
        return Answer(409)
    own = [s for s in media.live(frame.principal) if s.index >= frame.cursor]
    rows = b"".join(source.id + source.metadata() for source in own[:ROWS_MAX])
    rest = own[ROWS_MAX:]
    return Answer(200, rows, rest[0].index if rest else 0)
