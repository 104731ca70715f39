"""
BEGIN (`device.md` §12): the checks in their order, then the source.

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

Rows 1 to 3 are `media`'s. Nothing is written before row 11.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import read32, read64
from twisted_aotx.device.frames import (
    AT_ID,
    answer,
    is_zero,
    read_id,
)
from twisted_aotx.device.media_frames import (
    AT_DATA,
    AT_DATA_BYTES,
    AT_OFFSET,
    AT_SIZE,
    answer_node,
)
from twisted_aotx.device.numbers import (
    BAD,
    CONFLICT,
    FORMAT_JPEG,
    FORMAT_WAV,
    MODALITY_AUDIO,
    MODALITY_IMAGE,
    OK,
    REFUSED_LIMIT,
    REFUSED_PRESSURE,
    TOO_LARGE,
    TOO_MANY,
    UNAVAILABLE,
)
from twisted_aotx.device.pool import (
    POOL_AUDIO,
    POOL_BYTES,
    POOL_IMAGE,
    find_gap,
    take_span,
)
from twisted_aotx.device.receipts import take_receipt
from twisted_aotx.device.sha256 import sha_start
from twisted_aotx.device.source_index import DIGEST_BYTES
from twisted_aotx.device.sources import (
    count_in,
    next_descriptor,
    refuse_at_once,
    take_descriptor,
)

_BEGIN_BYTES = 48
_SIZE_MAX = u64((2**64 - 1) // 8)


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
    if read64(frame, AT_SIZE) > quota - used:
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
    size = read64(frame, AT_SIZE)
    format_ = read32(frame, AT_DATA)
    if read32(frame, AT_DATA_BYTES) != _BEGIN_BYTES:
        return i64(BAD)
    if read64(frame, AT_OFFSET) != u64(0) or size == u64(0) or size > _SIZE_MAX:
        return i64(BAD)
    if is_zero(frame, AT_DATA + 4, AT_DATA + 16) == 0:
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
def begin(H: Any, D: Any, channel: Any, row: Any, owner: Any, node: Any) -> None:
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
    D.m_size[index] = i64(read64(frame, AT_SIZE))
    D.m_format[index] = read32(frame, AT_DATA)
    for k in range(DIGEST_BYTES):
        D.m_digest[index][k] = frame[AT_DATA + 16 + k]
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
    answer_node(D, channel, status, index)
