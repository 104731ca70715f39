"""
Taking sources back that an earlier activation saved (`device.md` §11), before the
first tick: checked to the end, rows computed anew, ready at once.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import copy_bytes, dev, i64
from twisted_aotx.device.jpeg import jpeg_start
from twisted_aotx.device.media_work import ACCEPTED, check_more
from twisted_aotx.device.numbers import (
    FORMAT_JPEG,
    MEDIA_FREE,
    REFUSED_DIGEST,
    REFUSED_LIMIT,
    REFUSED_PRESSURE,
)
from twisted_aotx.device.pool import POOL_BYTES, take_span
from twisted_aotx.device.sha256 import sha_equals, sha_finish, sha_more, sha_start
from twisted_aotx.device.source_index import DIGEST_BYTES, remove_name
from twisted_aotx.device.source_lists import M_FREE, M_OTHER, move, move_first
from twisted_aotx.device.sources import (
    count_in,
    make_ready,
    next_descriptor,
    refuse,
    refuse_at_once,
    rows_pool,
    take_descriptor,
)
from twisted_aotx.device.wav import wav_start
from twisted_aotx.limits import MEDIA_BYTES_PER_TICK


@dev
def _take_rows(D: Any, index: Any, rows: Any) -> Any:
    """Rows exactly as many as there are; 0, or why there is no room."""
    pool = rows_pool(D, index)
    if rows > D.p_size[pool]:
        return i64(REFUSED_LIMIT)
    if take_span(D, pool, index, rows) < 0:
        return i64(REFUSED_PRESSURE)
    D.m_rows[index] = rows
    return i64(0)


@dev
def _check(D: Any, P: Any, index: Any) -> Any:
    """Digest, content and rows of the source, whose bytes are there; 0 or a status."""
    offset = D.p_at[POOL_BYTES, index]
    size = D.m_size[index]
    sha_start(D, index)
    sha_more(D, P, index, offset, size, size)
    sha_finish(D, P, index, offset, size)
    if sha_equals(D.h_state[index], D.m_digest[index]) == 0:
        return i64(REFUSED_DIGEST)
    # All workers are free: the first of each family does it.
    D.m_worker[index] = 0
    if D.m_format[index] == FORMAT_JPEG:
        jpeg_start(D, i64(0))
    else:
        wav_start(D, i64(0))
    verdict = i64(0)
    status = i64(0)
    while verdict == 0:
        _, verdict, status = check_more(D, P, index, i64(MEDIA_BYTES_PER_TICK))
    D.m_worker[index] = -1
    if verdict != ACCEPTED:
        return status
    if D.m_format[index] == FORMAT_JPEG:
        return _take_rows(D, index, i64(D.jp_rows[0]))
    D.m_samples[index] = D.wa_samples[0]
    return _take_rows(D, index, i64(D.wa_rows[0]))


@dev
def _place(H: Any, D: Any, P: Any, index: Any, data: Any) -> Any:
    """Bytes and rows of the source that was given *index*; 0, or why it is refused."""
    size = D.m_size[index]
    if size > D.p_size[POOL_BYTES]:
        refuse_at_once(D, index, i64(REFUSED_LIMIT))
        return i64(REFUSED_LIMIT)
    offset = take_span(D, i64(POOL_BYTES), index, size)
    if offset < 0:
        refuse_at_once(D, index, i64(REFUSED_PRESSURE))
        return i64(REFUSED_PRESSURE)
    count_in(H, D, index)
    copy_bytes(P, offset, data, 0, size, 0, 1)
    D.m_received[index] = size
    status = _check(D, P, index)
    if status != 0:
        refuse(H, D, index, status)
    return status


@dev
def restore_source(
    H: Any, D: Any, P: Any, ids: Any, format_: Any, digest: Any, data: Any
) -> None:
    """
    Take one source; `H.restored[0]` is 0 then, or the status that refuses it: nothing
    is kept of a refused one.

    Args:
        ids: (4,) u64, owner and transfer id.
        digest: (32,) u8.
        data: u8, the whole source.
    """
    H.restored[0] = REFUSED_PRESSURE
    if D.media_objects == 0:
        H.restored[0] = REFUSED_LIMIT
    index = next_descriptor(D)
    if index < 0:
        return
    take_descriptor(D, index, ids, ids[2], ids[3])
    D.m_size[index] = len(data)
    D.m_format[index] = format_
    for k in range(DIGEST_BYTES):
        D.m_digest[index][k] = digest[k]
    status = _place(H, D, P, index, data)
    H.restored[0] = status
    if status == 0:
        move(D, index, i64(M_OTHER))
        make_ready(D, index)
        return
    remove_name(D, index)
    D.m_phase[index] = MEDIA_FREE
    D.media_generation -= 1
    move_first(D, index, i64(M_FREE))
