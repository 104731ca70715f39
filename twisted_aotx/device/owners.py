"""
What each principal has of media: its own index, because sources outlive grant tables
(`device.md` §2, media source).

Rules:
1. An owner's row is there while a descriptor or a receipt bears its name, whatever the
   grant table says; so there are at most as many rows as descriptors and receipts.
2. `a_live`, `a_bytes`: its sources in phases 1..6 and their declared bytes. `a_cached`:
   its cached refusals. Together they are what quotas are judged by.
3. Its live sources are a list in table order (`a_head`, `l_next`), for MEDIA_LIST.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import keyed_hash
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.limits import Capacities


def owner_fields(capacities: Capacities) -> list[Any]:
    """One column per field of an owner, its index, and the links of its sources."""
    sources = max(1, capacities.media_objects)
    owners = (2 * sources,)
    columns = "a_live a_bytes a_cached a_names a_head a_tail a_next"
    return [
        ("a_id", "<u8", (*owners, 2)),
        *((name, "<i8", owners) for name in columns.split()),
        # owner + 1 of the first in a bucket; 0 is none
        ("a_bucket", "<i8", (power_of_two(4 * sources),)),
        ("a_free", "<i8"),
        ("l_prev", "<i8", (sources,)),
        ("l_next", "<i8", (sources,)),
    ]


@dev
def reset_owners(D: Any) -> None:
    """No owner has anything. Start only."""
    D.a_free = -1
    for n in range(len(D.a_next)):
        owner = len(D.a_next) - 1 - n
        D.a_next[owner] = D.a_free
        D.a_free = owner


@dev
def _bucket(D: Any, low: Any, high: Any) -> Any:
    hashed = keyed_hash(D.hash_key, low, high, u64(0), u64(1))
    return hashed & (len(D.a_bucket) - 1)


@dev
def find_owner(D: Any, low: Any, high: Any) -> Any:
    """The row of a principal, or -1: it has no source and no receipt."""
    owner = D.a_bucket[_bucket(D, low, high)] - 1
    while owner >= 0:
        if D.a_id[owner, 0] == low and D.a_id[owner, 1] == high:
            return owner
        owner = D.a_next[owner]
    return i64(-1)


@dev
def need_owner(D: Any, low: Any, high: Any) -> Any:
    """The row of a principal, a new one if it had none."""
    owner = find_owner(D, low, high)
    if owner >= 0:
        return owner
    owner = i64(D.a_free)
    D.a_free = D.a_next[owner]
    bucket = _bucket(D, low, high)
    D.a_id[owner, 0] = low
    D.a_id[owner, 1] = high
    D.a_next[owner] = D.a_bucket[bucket] - 1
    D.a_bucket[bucket] = owner + 1
    D.a_live[owner] = 0
    D.a_bytes[owner] = 0
    D.a_cached[owner] = 0
    D.a_names[owner] = 0
    D.a_head[owner] = -1
    D.a_tail[owner] = -1
    return owner


@dev
def drop_name(D: Any, owner: Any) -> None:
    """One descriptor or receipt less bears the owner's name; the last frees its row."""
    D.a_names[owner] -= 1
    if D.a_names[owner] > 0:
        return
    bucket = _bucket(D, D.a_id[owner, 0], D.a_id[owner, 1])
    here = D.a_bucket[bucket] - 1
    if here == owner:
        D.a_bucket[bucket] = D.a_next[owner] + 1
    else:
        while D.a_next[here] != owner:
            here = D.a_next[here]
        D.a_next[here] = D.a_next[owner]
    D.a_next[owner] = D.a_free
    D.a_free = owner


@dev
def add_live(D: Any, owner: Any, index: Any, size: Any) -> None:
    """
    Count a source of *size* bytes in, at its place in the owner's list.

    The walk is over the owner's sources above *index*: none while the table fills up.
    """
    D.a_live[owner] += 1
    D.a_bytes[owner] += size
    after = i64(-1)
    before = i64(D.a_tail[owner])
    while before > index:
        after = before
        before = i64(D.l_prev[before])
    D.l_prev[index] = before
    D.l_next[index] = after
    if before < 0:
        D.a_head[owner] = index
    else:
        D.l_next[before] = index
    if after < 0:
        D.a_tail[owner] = index
    else:
        D.l_prev[after] = index


@dev
def drop_live(D: Any, owner: Any, index: Any, size: Any) -> None:
    """Count a source of *size* bytes out."""
    D.a_live[owner] -= 1
    D.a_bytes[owner] -= size
    before = i64(D.l_prev[index])
    after = i64(D.l_next[index])
    if before < 0:
        D.a_head[owner] = after
    else:
        D.l_next[before] = after
    if after < 0:
        D.a_tail[owner] = before
    else:
        D.l_prev[after] = before
