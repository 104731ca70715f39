"""
Spans of a pool, first fit: bytes of P, feature rows of images, feature rows of audio.

Rules:
1. A descriptor holds at most one span of each pool, so its index names the span.
2. The spans of a pool are a list in the order of their places. What lies between two of
   them is free, so giving back is joining; there is no list of gaps to keep.
3. A search walks the spans that are there: its cost follows them, never the pool [D6].
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.limits import Capacities

POOL_BYTES = 0
POOL_IMAGE = 1
POOL_AUDIO = 2
POOLS = 3


def pool_fields(capacities: Capacities) -> list[Any]:
    """By pool and descriptor: where its span is and how long; 0 long is none."""
    spans = (POOLS, max(1, capacities.media_objects))
    return [
        ("p_size", "<i8", (POOLS,)),
        ("p_used", "<i8", (POOLS,)),
        ("p_head", "<i8", (POOLS,)),
        ("p_prev", "<i8", spans),
        ("p_next", "<i8", spans),
        ("p_at", "<i8", spans),
        ("p_count", "<i8", spans),
    ]


@dev
def reset_pool(D: Any, pool: Any, size: Any) -> None:
    """*pool* is empty and *size* long. Start only."""
    D.p_size[pool] = size
    D.p_used[pool] = 0
    D.p_head[pool] = -1


@dev
def find_gap(D: Any, pool: Any, size: Any) -> Any:
    """
    The lowest place where *size* (1 or more) fits, and the span before it or -1; the
    place is -1 where there is none.
    """
    at = i64(0)
    before = i64(-1)
    if size > D.p_size[pool] - D.p_used[pool]:
        return i64(-1), before
    after = i64(D.p_head[pool])
    while after >= 0 and D.p_at[pool, after] - at < size:
        at = D.p_at[pool, after] + D.p_count[pool, after]
        before = after
        after = i64(D.p_next[pool, after])
    if after < 0 and D.p_size[pool] - at < size:
        at = i64(-1)
    return at, before


@dev
def take_span(D: Any, pool: Any, index: Any, size: Any) -> Any:
    """Give *index*, which has none, a span of *size*; its place, or -1: no room."""
    at, before = find_gap(D, pool, size)
    if at < 0:
        return at
    after = i64(D.p_head[pool])
    if before < 0:
        D.p_head[pool] = index
    else:
        after = i64(D.p_next[pool, before])
        D.p_next[pool, before] = index
    if after >= 0:
        D.p_prev[pool, after] = index
    D.p_prev[pool, index] = before
    D.p_next[pool, index] = after
    D.p_at[pool, index] = at
    D.p_count[pool, index] = size
    D.p_used[pool] += size
    return at


@dev
def shrink_span(D: Any, pool: Any, index: Any, size: Any) -> None:
    """Leave *index* the first *size* (1 or more) of its span."""
    D.p_used[pool] -= D.p_count[pool, index] - size
    D.p_count[pool, index] = size


@dev
def give_span(D: Any, pool: Any, index: Any) -> None:
    """Take the span of *index* back, if it has one."""
    if D.p_count[pool, index] == 0:
        return
    before = i64(D.p_prev[pool, index])
    after = i64(D.p_next[pool, index])
    if before < 0:
        D.p_head[pool] = after
    else:
        D.p_next[pool, before] = after
    if after >= 0:
        D.p_prev[pool, after] = before
    D.p_used[pool] -= D.p_count[pool, index]
    D.p_count[pool, index] = 0
