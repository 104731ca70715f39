"""
How sources are found [D6]: by (owner, transfer id), and ready ones by (owner, digest).

Rules:
1. A name is borne by a descriptor, node = its index, or by the receipt of a refusal
   whose descriptor has another source by now, node = descriptors + receipt.
2. An owner has a transfer id once at most; another owner's is simply not found [D22].
3. Only what SUBMIT may lease is in the digest index: ready sources that nobody is
   removing. A chain is in table order, so the first match is the lowest index.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import keyed_hash, read64
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.owners import drop_name
from twisted_aotx.limits import Capacities

DIGEST_BYTES = 32


def index_fields(capacities: Capacities) -> list[Any]:
    """Nodes and their buckets, digests and theirs."""
    sources = max(1, capacities.media_objects)
    nodes = (2 * sources,)
    return [
        ("n_owner", "<i8", nodes),
        ("n_id", "<u8", (*nodes, 2)),
        ("n_next", "<i8", nodes),
        # node + 1 of the first in a bucket; 0 is none
        ("n_bucket", "<i8", (power_of_two(4 * sources),)),
        ("m_digest", "u1", (sources, DIGEST_BYTES)),
        ("d_next", "<i8", (sources,)),
        # descriptor + 1 of the first in a bucket; 0 is none
        ("d_bucket", "<i8", (power_of_two(2 * sources),)),
    ]


@dev
def _bucket(D: Any, owner: Any, low: Any, high: Any) -> Any:
    hashed = keyed_hash(D.hash_key, u64(owner), low, high, u64(2))
    return hashed & (len(D.n_bucket) - 1)


@dev
def find_name(D: Any, owner: Any, low: Any, high: Any) -> Any:
    """The node of a transfer id of *owner* (-1: nobody's), or -1."""
    if owner < 0:
        return i64(-1)
    node = D.n_bucket[_bucket(D, owner, low, high)] - 1
    while node >= 0:
        same_id = D.n_id[node, 0] == low and D.n_id[node, 1] == high
        if same_id and D.n_owner[node] == owner:
            return node
        node = D.n_next[node]
    return i64(-1)


@dev
def add_name(D: Any, node: Any, owner: Any, low: Any, high: Any) -> None:
    """*node* bears a transfer id of *owner*."""
    bucket = _bucket(D, owner, low, high)
    D.n_owner[node] = owner
    D.n_id[node, 0] = low
    D.n_id[node, 1] = high
    D.n_next[node] = D.n_bucket[bucket] - 1
    D.n_bucket[bucket] = node + 1
    D.a_names[owner] += 1


@dev
def remove_name(D: Any, node: Any) -> None:
    """*node* bears none any more."""
    bucket = _bucket(D, D.n_owner[node], D.n_id[node, 0], D.n_id[node, 1])
    here = D.n_bucket[bucket] - 1
    if here == node:
        D.n_bucket[bucket] = D.n_next[node] + 1
    else:
        while D.n_next[here] != node:
            here = D.n_next[here]
        D.n_next[here] = D.n_next[node]
    drop_name(D, D.n_owner[node])


@dev
def _digest_bucket(D: Any, owner: Any, data: Any, at: Any) -> Any:
    first = read64(data, at)
    second = read64(data, at + 8)
    third = read64(data, at + 16)
    hashed = keyed_hash(D.hash_key, u64(owner), first, second, third)
    return hashed & (len(D.d_bucket) - 1)


@dev
def add_ready(D: Any, index: Any) -> None:
    """SUBMIT finds the source from now on."""
    bucket = _digest_bucket(D, D.n_owner[index], D.m_digest[index], i64(0))
    before = i64(-1)
    after = D.d_bucket[bucket] - 1
    while after >= 0 and after < index:
        before = after
        after = D.d_next[after]
    D.d_next[index] = after
    if before < 0:
        D.d_bucket[bucket] = index + 1
    else:
        D.d_next[before] = index


@dev
def remove_ready(D: Any, index: Any) -> None:
    """SUBMIT does not find the source any more."""
    bucket = _digest_bucket(D, D.n_owner[index], D.m_digest[index], i64(0))
    here = D.d_bucket[bucket] - 1
    if here == index:
        D.d_bucket[bucket] = D.d_next[index] + 1
        return
    while D.d_next[here] != index:
        here = D.d_next[here]
    D.d_next[here] = D.d_next[index]


@dev
def _same_digest(digest: Any, data: Any, at: Any) -> Any:
    same = i64(1)
    for word in range(0, DIGEST_BYTES, 8):
        if read64(digest, word) != read64(data, at + word):
            same = i64(0)
    return same


@dev
def find_ready(D: Any, owner: Any, format_: Any, data: Any, at: Any) -> Any:
    """
    The lowest descriptor of *owner* (-1: nobody) that may be leased, is of *format_*
    and has the digest at byte *at* of *data*; or -1.
    """
    if owner < 0:
        return i64(-1)
    index = D.d_bucket[_digest_bucket(D, owner, data, at)] - 1
    while index >= 0:
        ours = D.n_owner[index] == owner and D.m_format[index] == format_
        if ours and _same_digest(D.m_digest[index], data, at) == 1:
            return index
        index = D.d_next[index]
    return i64(-1)
