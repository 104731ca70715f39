"""
Media frames: MEDIA, MEDIA_READ and MEDIA_LIST (`device.md` §12, `wire.md` §10).

Rows 1 to 3 of BEGIN's table (`media_begin`) come first: the upload bit (403), media on
(503), the frame head (400). Then an id that the caller does not own is 404, and then
what `_chunk`, `_end` and `media_cancel` say. Whatever has metadata answers with it.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import copy_bytes, dev, i64, u64
from twisted_aotx.device.bits import read32, read64, write64
from twisted_aotx.device.frames import (
    AT_CURSOR,
    AT_ID,
    answer,
    is_zero,
    read_id,
)
from twisted_aotx.device.media_begin import begin
from twisted_aotx.device.media_cancel import cancel
from twisted_aotx.device.media_frames import (
    AT_COMMAND,
    AT_DATA,
    AT_DATA_BYTES,
    AT_HEAD_RESERVED,
    AT_OFFSET,
    AT_SCHEMA,
    AT_SIZE,
    AT_TRANSFER,
    HEAD_BYTES,
    answer_node,
)
from twisted_aotx.device.numbers import (
    ACT_UPLOAD,
    BAD,
    COMMAND_BEGIN,
    COMMAND_CANCEL,
    COMMAND_CHUNK,
    COMMAND_END,
    CONFLICT,
    FORBIDDEN,
    HEADER,
    MEDIA_HASHING,
    MEDIA_RECEIVING,
    MEDIA_REFUSED,
    NOT_FOUND,
    OK,
    OP_MEDIA,
    OP_MEDIA_LIST,
    PAYLOAD_MAX,
    REFUSED_TRANSFER,
    UNAVAILABLE,
)
from twisted_aotx.device.owners import find_owner
from twisted_aotx.device.pool import (
    POOL_BYTES,
)
from twisted_aotx.device.sha256 import BLOCK_BYTES
from twisted_aotx.device.source_index import find_name
from twisted_aotx.device.source_lists import M_OTHER, join_turns, move
from twisted_aotx.device.sources import (
    METADATA_BYTES,
    refuse,
    set_phase,
    write_metadata,
)
from twisted_aotx.limits import Capacities

_CHUNK_BYTES_MAX = 8192
_LIST_ROW_BYTES = 80


def media_fields(capacities: Capacities) -> list[Any]:
    """The chunks of this tick: where from, whose, where to and how much."""
    channels = (capacities.channels,)
    names = "chunk_channel chunk_source chunk_generation chunk_at chunk_bytes"
    return [*((name, "<i8", channels) for name in names.split()), ("chunks", "<i8")]


# --- CHUNK, END, CANCEL ---------------------------------------------------------------


@dev
def _chunk(D: Any, channel: Any, node: Any) -> None:
    """Bytes in their order; anything else has no effect."""
    frame = D.frame[channel]
    size = read32(frame, AT_DATA_BYTES)
    if size == 0:
        answer_node(D, channel, BAD, node)
        return
    fits = i64(0)
    if node < D.media_objects and D.m_phase[node] == MEDIA_RECEIVING:
        same_size = read64(frame, AT_SIZE) == u64(D.m_size[node])
        in_order = read64(frame, AT_OFFSET) == u64(D.m_received[node])
        if same_size and in_order and size <= D.m_size[node] - D.m_received[node]:
            fits = i64(1)
    if fits == 0:
        answer_node(D, channel, CONFLICT, node)
        return
    n = D.chunks
    D.chunk_channel[n] = channel
    D.chunk_source[n] = node
    D.chunk_generation[n] = D.m_generation[node]
    D.chunk_at[n] = D.p_at[POOL_BYTES, node] + D.m_received[node]
    D.chunk_bytes[n] = size
    D.chunks = n + 1
    D.m_received[node] += size
    if D.m_received[node] - D.h_at[node] >= BLOCK_BYTES:
        join_turns(D, node)
    # The data stays in the frame behind the reply, for `keep_chunks`.
    answer_node(D, channel, OK, node)


@dev
def keep_chunks(D: Any, P: Any, lane: Any, lanes: Any) -> None:
    """All lanes: copy the chunks admitted in this tick into the pool."""
    for n in range(D.chunks):
        index = i64(D.chunk_source[n])
        same = D.m_generation[index] == D.chunk_generation[n]
        # The source may have been refused since, and its span be another's.
        if same and D.m_phase[index] < MEDIA_REFUSED:
            frame = D.frame[D.chunk_channel[n]]
            size = D.chunk_bytes[n]
            copy_bytes(P, D.chunk_at[n], frame, AT_DATA, size, lane, lanes)


@dev
def _end(H: Any, D: Any, channel: Any, node: Any) -> None:
    """Receiving → hashing if all is there; without effect afterwards."""
    frame = D.frame[channel]
    status = i64(OK)
    if read32(frame, AT_DATA_BYTES) != 0:
        status = i64(BAD)
    elif node < D.media_objects and D.m_phase[node] == MEDIA_RECEIVING:
        size = u64(D.m_size[node])
        complete = D.m_received[node] == D.m_size[node]
        named = read64(frame, AT_SIZE) == size and read64(frame, AT_OFFSET) == size
        if complete and named:
            set_phase(D, node, i64(MEDIA_HASHING))
            move(D, node, i64(M_OTHER))
            join_turns(D, node)
        else:
            refuse(H, D, node, i64(REFUSED_TRANSFER))
            status = i64(BAD)
    answer_node(D, channel, status, node)


# --- the three operations -------------------------------------------------------------


@dev
def _head_is_valid(frame: Any, length: Any) -> Any:
    """Row 3."""
    size = length - HEADER
    if size < HEAD_BYTES or size > HEAD_BYTES + _CHUNK_BYTES_MAX:
        return i64(0)
    if (
        read32(frame, AT_SCHEMA) != 1
        or read32(frame, AT_DATA_BYTES) != size - HEAD_BYTES
    ):
        return i64(0)
    command = read32(frame, AT_COMMAND)
    if command < COMMAND_BEGIN or command > COMMAND_CANCEL:
        return i64(0)
    low, high = read_id(frame, AT_TRANSFER)
    same_low, same_high = read_id(frame, AT_ID)
    if low != same_low or high != same_high or (low == u64(0) and high == u64(0)):
        return i64(0)
    return is_zero(frame, AT_HEAD_RESERVED, AT_DATA)


@dev
def _list(D: Any, channel: Any, owner: Any) -> None:
    """A page of the caller's sources in table order, from the cursor on."""
    frame = D.frame[channel]
    cursor = read64(frame, AT_CURSOR)
    if cursor > u64(D.media_objects):
        answer(D, channel, CONFLICT, 0, 0)
        return
    index = i64(-1)
    if owner >= 0:
        index = i64(D.a_head[owner])
    while index >= 0 and index < i64(cursor):
        index = i64(D.l_next[index])
    size = i64(0)
    following = i64(0)
    while index >= 0 and size + _LIST_ROW_BYTES <= PAYLOAD_MAX:
        at = HEADER + size
        write64(frame, at, D.n_id[index, 0])
        write64(frame, at + 8, D.n_id[index, 1])
        write_metadata(D, frame, at + 16, index)
        size += _LIST_ROW_BYTES
        following = index + 1
        index = i64(D.l_next[index])
    if index < 0:
        following = i64(0)
    answer(D, channel, OK, 0, size)
    write64(frame, AT_CURSOR, u64(following))


@dev
def _command(H: Any, D: Any, channel: Any, length: Any, row: Any) -> None:
    """A MEDIA frame from row 3 on."""
    frame = D.frame[channel]
    if _head_is_valid(frame, length) == 0:
        answer(D, channel, BAD, 0, 0)
        return
    principal = D.g_id[D.g_table][row]
    owner = find_owner(D, principal[0], principal[1])
    low, high = read_id(frame, AT_ID)
    node = find_name(D, owner, low, high)
    command = read32(frame, AT_COMMAND)
    if command == COMMAND_BEGIN:
        begin(H, D, channel, row, owner, node)
    elif node < 0:
        answer(D, channel, NOT_FOUND, 0, 0)
    elif command == COMMAND_CHUNK:
        _chunk(D, channel, node)
    elif command == COMMAND_END:
        _end(H, D, channel, node)
    else:
        cancel(H, D, channel, node)


@dev
def _read(D: Any, channel: Any, length: Any, owner: Any) -> None:
    """What is known of a source, in any phase."""
    low, high = read_id(D.frame[channel], AT_ID)
    node = find_name(D, owner, low, high)
    if node < 0:
        answer(D, channel, NOT_FOUND, 0, 0)
    elif length != HEADER:
        answer_node(D, channel, BAD, node)
    else:
        answer_node(D, channel, OK, node)


@dev
def answer_media(
    H: Any, D: Any, channel: Any, length: Any, row: Any, operation: Any
) -> None:
    """Answer MEDIA, MEDIA_READ or MEDIA_LIST of the grant in *row*."""
    principal = D.g_id[D.g_table][row]
    if (D.g_actions[D.g_table][row] & ACT_UPLOAD) == 0:
        answer(D, channel, FORBIDDEN, 0, 0)
    elif D.media_objects == 0:
        answer(D, channel, UNAVAILABLE, 0, 0)
    elif operation == OP_MEDIA:
        _command(H, D, channel, length, row)
    elif operation == OP_MEDIA_LIST:
        _list(D, channel, find_owner(D, principal[0], principal[1]))
    else:
        _read(D, channel, length, find_owner(D, principal[0], principal[1]))


#: The commands are 1 to 4; the head is as long as a reply's metadata.
assert (COMMAND_BEGIN, COMMAND_CHUNK, COMMAND_END, COMMAND_CANCEL) == (1, 2, 3, 4)
assert METADATA_BYTES == HEAD_BYTES == AT_DATA - HEADER
