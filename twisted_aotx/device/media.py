"""
Media frames: MEDIA, MEDIA_READ and MEDIA_LIST (`device.md` §12, `wire.md` §10).

BEGIN:

| # | check | status |
|---|---|---|
| 1 | the upload bit | 403 |
| 2 | media on | 503 |
| 3 | frame head | 400 |
| 4 | (caller, transfer id) is new | 409 |
| 5 | BEGIN's own fields | 400 |
| 6 | quotas of objects and bytes | 429 |
| 7 | modality on | 503 |
| 8 | feature rows: above the pool, no room now | 413, 429 |
| 9, 10 | a free receipt, a descriptor | 429 |
| 11 | size above the pool, no room now: a refused source | 413, 429 with metadata |
| 12 | receiving | 200 |

Nothing is written before row 11. The other commands: rows 1 to 3, then 404 for an id
that the caller does not own, then what `_chunk`, `_end` and `_cancel` say. Whatever has
metadata answers with it.
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
    wait_for_store,
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
    FORMAT_JPEG,
    FORMAT_WAV,
    HEADER,
    MEDIA_ENCODING,
    MEDIA_HASHING,
    MEDIA_READY,
    MEDIA_RECEIVING,
    MEDIA_REFUSED,
    MODALITY_AUDIO,
    MODALITY_IMAGE,
    NOT_FOUND,
    OK,
    OP_MEDIA,
    OP_MEDIA_LIST,
    PAYLOAD_MAX,
    RECORD_REMOVAL,
    REFUSED_CANCELLED,
    REFUSED_LIMIT,
    REFUSED_PRESSURE,
    REFUSED_TRANSFER,
    TOO_LARGE,
    TOO_MANY,
    UNAVAILABLE,
)
from twisted_aotx.device.owners import find_owner
from twisted_aotx.device.pool import (
    POOL_AUDIO,
    POOL_BYTES,
    POOL_IMAGE,
    find_gap,
    take_span,
)
from twisted_aotx.device.receipts import free_receipt, take_receipt, write_refusal
from twisted_aotx.device.sha256 import BLOCK_BYTES, sha_start
from twisted_aotx.device.source_index import DIGEST_BYTES, find_name
from twisted_aotx.device.sources import (
    M_OTHER,
    METADATA_BYTES,
    begin_removal,
    count_in,
    fail_removal,
    join_turns,
    move,
    next_descriptor,
    refuse,
    refuse_at_once,
    set_phase,
    take_descriptor,
    write_metadata,
)
from twisted_aotx.device.store_mail import next_record, publish_record
from twisted_aotx.limits import Capacities

#: The frame head's fields, from the start of the packet (`wire.md` §10).
_SCHEMA = HEADER
_COMMAND = HEADER + 4
_TRANSFER = HEADER + 8
_SIZE = HEADER + 24
_OFFSET = HEADER + 32
_DATA_BYTES = HEADER + 40
_RESERVED = HEADER + 44
_DATA = HEADER + 64
_HEAD_BYTES = 64
_CHUNK_BYTES_MAX = 8192
_BEGIN_BYTES = 48
_SIZE_MAX = u64((2**64 - 1) // 8)
_LIST_ROW_BYTES = 80


def media_fields(capacities: Capacities) -> list[Any]:
    """The chunks of this tick: where from, whose, where to and how much."""
    channels = (capacities.channels,)
    names = "chunk_channel chunk_source chunk_generation chunk_at chunk_bytes"
    return [*((name, "<i8", channels) for name in names.split()), ("chunks", "<i8")]


@dev
def _answer_node(D: Any, channel: Any, status: Any, node: Any) -> None:
    """*status* with the metadata of *node*."""
    answer(D, channel, status, 0, METADATA_BYTES)
    if node < D.media_objects:
        write_metadata(D, D.frame[channel], HEADER, node)
    else:
        write_refusal(D, D.frame[channel], HEADER, node - D.media_objects)


# --- BEGIN ----------------------------------------------------------------------------


@dev
def modality_is_on(D: Any, format_: Any) -> Any:
    """1 if an engine takes sources of *format_*, else 0."""
    wanted = i64(MODALITY_IMAGE)
    if format_ == FORMAT_WAV:
        wanted = i64(MODALITY_AUDIO)
    if (D.modalities & wanted) != 0:
        return i64(1)
    return i64(0)


@dev
def _judge_quota(D: Any, frame: Any, row: Any, owner: Any) -> Any:
    """Row 6; bytes are compared as u64, a grant may have shrunk below what is there."""
    objects = i64(0)
    used = u64(0)
    if owner >= 0:
        objects = D.a_live[owner] + D.a_cached[owner]
        used = u64(D.a_bytes[owner])
    table = D.g_table
    quota = D.g_media_bytes[table][row]
    if objects >= D.g_media[table][row] or used > quota:
        return i64(TOO_MANY)
    if read64(frame, _SIZE) > quota - used:
        return i64(TOO_MANY)
    return i64(0)


@dev
def _judge_rows(D: Any, format_: Any) -> Any:
    """Row 8."""
    pool = i64(POOL_AUDIO)
    rows = i64(1)
    if format_ == FORMAT_JPEG:
        pool = i64(POOL_IMAGE)
        rows = D.image_patches // 4
    if rows > D.p_size[pool]:
        return i64(TOO_LARGE)
    at, _ = find_gap(D, pool, rows)
    if at < 0:
        return i64(TOO_MANY)
    return i64(0)


@dev
def _judge_begin(D: Any, frame: Any, row: Any, owner: Any) -> Any:
    """Rows 5 to 10: 0, or the status of the first that fails."""
    size = read64(frame, _SIZE)
    format_ = read32(frame, _DATA)
    if read32(frame, _DATA_BYTES) != _BEGIN_BYTES:
        return i64(BAD)
    if read64(frame, _OFFSET) != u64(0) or size == u64(0) or size > _SIZE_MAX:
        return i64(BAD)
    if is_zero(frame, _DATA + 4, _DATA + 16) == 0:
        return i64(BAD)
    if format_ != FORMAT_JPEG and format_ != FORMAT_WAV:
        return i64(BAD)
    status = _judge_quota(D, frame, row, owner)
    if status != 0:
        return status
    if modality_is_on(D, format_) == 0:
        return i64(UNAVAILABLE)
    status = _judge_rows(D, format_)
    if status != 0:
        return status
    if D.u_free < 0 or next_descriptor(D) < 0:
        return i64(TOO_MANY)
    return i64(0)


@dev
def _begin(H: Any, D: Any, channel: Any, row: Any, owner: Any, node: Any) -> None:
    """The whole BEGIN from row 4 on."""
    frame = D.frame[channel]
    if node >= 0:
        answer(D, channel, CONFLICT, 0, 0)
        return
    status = _judge_begin(D, frame, row, owner)
    if status != 0:
        answer(D, channel, status, 0, 0)
        return
    low, high = read_id(frame, AT_ID)
    index = next_descriptor(D)
    take_descriptor(D, index, D.g_id[D.g_table][row], low, high)
    D.m_size[index] = i64(read64(frame, _SIZE))
    D.m_format[index] = read32(frame, _DATA)
    for k in range(DIGEST_BYTES):
        D.m_digest[index][k] = frame[_DATA + 16 + k]
    take_receipt(D, index)
    status = i64(OK)
    if D.m_size[index] > D.p_size[POOL_BYTES]:
        refuse_at_once(D, index, i64(REFUSED_LIMIT))
        status = i64(TOO_LARGE)
    elif take_span(D, i64(POOL_BYTES), index, D.m_size[index]) < 0:
        refuse_at_once(D, index, i64(REFUSED_PRESSURE))
        status = i64(TOO_MANY)
    else:
        count_in(H, D, index)
        sha_start(D, index)
    _answer_node(D, channel, status, index)


# --- CHUNK, END, CANCEL ---------------------------------------------------------------


@dev
def _chunk(D: Any, channel: Any, node: Any) -> None:
    """Bytes in their order; anything else has no effect."""
    frame = D.frame[channel]
    size = read32(frame, _DATA_BYTES)
    if size == 0:
        _answer_node(D, channel, BAD, node)
        return
    fits = i64(0)
    if node < D.media_objects and D.m_phase[node] == MEDIA_RECEIVING:
        same_size = read64(frame, _SIZE) == u64(D.m_size[node])
        in_order = read64(frame, _OFFSET) == u64(D.m_received[node])
        if same_size and in_order and size <= D.m_size[node] - D.m_received[node]:
            fits = i64(1)
    if fits == 0:
        _answer_node(D, channel, CONFLICT, node)
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
    _answer_node(D, channel, OK, node)


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
            copy_bytes(P, D.chunk_at[n], frame, _DATA, size, lane, lanes)


@dev
def _end(H: Any, D: Any, channel: Any, node: Any) -> None:
    """Receiving → hashing if all is there; without effect afterwards."""
    frame = D.frame[channel]
    status = i64(OK)
    if read32(frame, _DATA_BYTES) != 0:
        status = i64(BAD)
    elif node < D.media_objects and D.m_phase[node] == MEDIA_RECEIVING:
        size = u64(D.m_size[node])
        complete = D.m_received[node] == D.m_size[node]
        named = read64(frame, _SIZE) == size and read64(frame, _OFFSET) == size
        if complete and named:
            set_phase(D, node, i64(MEDIA_HASHING))
            move(D, node, i64(M_OTHER))
            join_turns(D, node)
        else:
            refuse(H, D, node, i64(REFUSED_TRANSFER))
            status = i64(BAD)
    _answer_node(D, channel, status, node)


@dev
def _cancel_refused(D: Any, channel: Any, node: Any) -> None:
    """CANCEL of a refusal: its metadata, and its receipt goes."""
    _answer_node(D, channel, OK, node)
    if node >= D.media_objects:
        free_receipt(D, node - D.media_objects)
    elif D.m_receipt[node] >= 0:
        free_receipt(D, i64(D.m_receipt[node]))


@dev
def _cancel_live(H: Any, D: Any, index: Any) -> None:
    """Refused with status 4, without a receipt."""
    if D.m_receipt[index] >= 0:
        free_receipt(D, i64(D.m_receipt[index]))
    refuse(H, D, index, i64(REFUSED_CANCELLED))


@dev
def _ask_removal(H: Any, D: Any, channel: Any, index: Any) -> None:
    """The store is to remove the source; the reply waits."""
    at = next_record(H, D, i64(RECORD_REMOVAL), channel)
    row = H.record_ring[at]
    owner = D.n_owner[index]
    for k in range(2):
        row[1 + k] = D.a_id[owner, k]
        row[3 + k] = D.n_id[index, k]
    D.record_index[at] = index
    D.record_generation[at] = D.m_generation[index]
    begin_removal(D, index)
    publish_record(H, D)
    wait_for_store(D)


@dev
def _cancel(H: Any, D: Any, channel: Any, node: Any) -> None:
    """Remove a source, whatever its phase, unless requests hold it."""
    if read32(D.frame[channel], _DATA_BYTES) != 0:
        _answer_node(D, channel, BAD, node)
    elif node >= D.media_objects or D.m_phase[node] == MEDIA_REFUSED:
        _cancel_refused(D, channel, node)
    elif D.m_leases[node] > 0:
        _answer_node(D, channel, CONFLICT, node)
    elif D.m_phase[node] in (MEDIA_ENCODING, MEDIA_READY):
        _ask_removal(H, D, channel, node)
    else:
        _cancel_live(H, D, node)
        _answer_node(D, channel, OK, node)


@dev
def source_removed(H: Any, D: Any, at: Any, saved: Any) -> None:
    """
    The record *at* of a removal: the CANCEL that waits for it is answered.

    The source may be refused by now, by another removal or by a save that failed; then
    this is a CANCEL of what its name means now.
    """
    channel = i64(D.record_channel[at])
    index = i64(D.record_index[at])
    same = D.m_generation[index] == D.record_generation[at]
    if same and D.m_phase[index] == MEDIA_READY:
        fail_removal(D, index)
        if saved == 0:
            _answer_node(D, channel, TOO_MANY, index)
            return
        _cancel_live(H, D, index)
        _answer_node(D, channel, OK, index)
        return
    row = H.record_ring[at]
    owner = find_owner(D, row[1], row[2])
    node = find_name(D, owner, row[3], row[4])
    if node < 0 or (node < D.media_objects and D.m_phase[node] != MEDIA_REFUSED):
        answer(D, channel, NOT_FOUND, 0, 0)
    else:
        _cancel_refused(D, channel, node)


# --- the three operations -------------------------------------------------------------


@dev
def _head_is_valid(frame: Any, length: Any) -> Any:
    """Row 3."""
    size = length - HEADER
    if size < _HEAD_BYTES or size > _HEAD_BYTES + _CHUNK_BYTES_MAX:
        return i64(0)
    if read32(frame, _SCHEMA) != 1 or read32(frame, _DATA_BYTES) != size - _HEAD_BYTES:
        return i64(0)
    command = read32(frame, _COMMAND)
    if command < COMMAND_BEGIN or command > COMMAND_CANCEL:
        return i64(0)
    low, high = read_id(frame, _TRANSFER)
    same_low, same_high = read_id(frame, AT_ID)
    if low != same_low or high != same_high or (low == u64(0) and high == u64(0)):
        return i64(0)
    return is_zero(frame, _RESERVED, _DATA)


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
    command = read32(frame, _COMMAND)
    if command == COMMAND_BEGIN:
        _begin(H, D, channel, row, owner, node)
    elif node < 0:
        answer(D, channel, NOT_FOUND, 0, 0)
    elif command == COMMAND_CHUNK:
        _chunk(D, channel, node)
    elif command == COMMAND_END:
        _end(H, D, channel, node)
    else:
        _cancel(H, D, channel, node)


@dev
def _read(D: Any, channel: Any, length: Any, owner: Any) -> None:
    """What is known of a source, in any phase."""
    low, high = read_id(D.frame[channel], AT_ID)
    node = find_name(D, owner, low, high)
    if node < 0:
        answer(D, channel, NOT_FOUND, 0, 0)
    elif length != HEADER:
        _answer_node(D, channel, BAD, node)
    else:
        _answer_node(D, channel, OK, node)


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
assert METADATA_BYTES == _HEAD_BYTES
