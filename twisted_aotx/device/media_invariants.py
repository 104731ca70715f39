"""
What must hold in the tables of media sources after every tick, as sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from twisted_aotx.device import source_lists
from twisted_aotx.device.numbers import (
    FORMAT_JPEG,
    MEDIA_DECODING,
    MEDIA_ENCODING,
    MEDIA_FREE,
    MEDIA_HASHING,
    MEDIA_READY,
    MEDIA_RECEIVING,
    MEDIA_REFUSED,
    MEDIA_WAITING,
)
from twisted_aotx.device.pool import POOL_AUDIO, POOL_BYTES, POOL_IMAGE, POOLS
from twisted_aotx.device.receipts import (
    RECEIPT_CACHED,
    RECEIPT_FREE,
    RECEIPT_PENDING,
)

_PHASES = {
    source_lists.M_FREE: {MEDIA_FREE},
    source_lists.M_RECEIVING: {MEDIA_RECEIVING},
    source_lists.M_WAITING_IMAGE: {MEDIA_WAITING},
    source_lists.M_WAITING_AUDIO: {MEDIA_WAITING},
    source_lists.M_CHECKING: {MEDIA_DECODING},
    source_lists.M_REFUSED: {MEDIA_REFUSED},
    source_lists.M_OTHER: {MEDIA_HASHING, MEDIA_DECODING, MEDIA_ENCODING, MEDIA_READY},
}


def _walk(head: Any, link: Any) -> list[int]:
    """The members of a list; cut where it would go in circles."""
    members: list[int] = []
    while head >= 0 and len(members) <= len(link):
        members.append(int(head))
        head = link[head]
    return members


def _live(D: Any) -> list[int]:
    phases = D.m_phase
    return [n for n in range(D.media_objects) if 1 <= phases[n] <= MEDIA_READY]


def _lists(D: Any) -> Iterator[str]:
    seen: list[int] = []
    for which, phases in _PHASES.items():
        members = _walk(D.m_head[which], D.m_next)
        seen.extend(members)
        if members and D.m_tail[which] != members[-1]:
            yield f"the tail of source list {which} is not its last member"
        for index in members:
            phase = D.m_phase[index]
            if phase not in phases or D.m_list[index] != which:
                yield f"source {index} of list {which} is in phase {phase}"
        generations = [D.m_generation[index] for index in members]
        waiting = which in (source_lists.M_WAITING_IMAGE, source_lists.M_WAITING_AUDIO)
        if waiting and generations != sorted(generations):
            yield f"source list {which} is not in the order of generations"
    if sorted(seen) != list(range(D.media_objects)):
        yield "not every descriptor is in exactly one list"
    turns = _walk(D.t_head, D.t_next)
    if sorted(turns) != [n for n in sorted(seen) if D.m_hashes[n]]:
        yield "the turns of the hash stage are not the sources that have one"


def _spans(D: Any) -> Iterator[str]:
    for pool in range(POOLS):
        end = used = 0
        members = _walk(D.p_head[pool], D.p_next[pool])
        for index in members:
            if D.p_at[pool][index] < end:
                yield f"the span of source {index} in pool {pool} begins in another"
            used += D.p_count[pool][index]
            end = D.p_at[pool][index] + D.p_count[pool][index]
        if end > D.p_size[pool]:
            yield f"a span is beyond pool {pool}"
        if used != D.p_used[pool]:
            yield f"pool {pool} counts {D.p_used[pool]} in use, not {used}"
        held = [n for n in range(len(D.p_count[pool])) if D.p_count[pool][n]]
        if sorted(members) != held:
            yield f"the list of pool {pool} does not hold exactly its spans"
        if pool == POOL_BYTES and held != _live(D):
            yield "not exactly the live sources have bytes in the pool"


def _rows(D: Any) -> Iterator[str]:
    for index in _live(D):
        image = D.m_format[index] == FORMAT_JPEG
        count = D.p_count[POOL_IMAGE if image else POOL_AUDIO][index]
        if D.m_phase[index] == MEDIA_READY and count != D.m_rows[index]:
            yield f"ready source {index} holds {count} rows, not its own number"
        if D.m_received[index] > D.m_size[index]:
            yield f"source {index} received more bytes than it has"


def _owners(D: Any) -> Iterator[str]:
    live: dict[int, list[int]] = {}
    names: Counter[int] = Counter()
    cached: Counter[int] = Counter()
    for index in range(D.media_objects):
        owner = D.n_owner[index]
        if D.m_phase[index] != MEDIA_FREE:
            names[owner] += 1
        if MEDIA_FREE < D.m_phase[index] <= MEDIA_READY:
            live.setdefault(owner, []).append(index)
    for receipt in range(D.media_objects):
        if D.u_state[receipt] == RECEIPT_CACHED:
            cached[D.u_owner[receipt]] += 1
            if D.u_source[receipt] < 0:
                names[D.u_owner[receipt]] += 1
    unused = set(_walk(D.a_free, D.a_next))
    for owner in range(len(D.a_names)):
        if (owner in unused) != (names[owner] == 0):
            yield f"owner {owner} with {names[owner]} names is free or not"
        if owner in unused:
            continue
        mine = live.get(owner, [])
        if _walk(D.a_head[owner], D.l_next) != mine:
            yield f"the list of owner {owner} is not its live sources in table order"
        size = sum(D.m_size[index] for index in mine)
        counted = (D.a_live[owner], D.a_bytes[owner])
        if counted != (len(mine), size):
            yield f"owner {owner} counts {counted}, not {(len(mine), size)}"
        if D.a_names[owner] != names[owner]:
            yield f"owner {owner} counts {D.a_names[owner]} names"
        if D.a_cached[owner] != cached[owner]:
            yield f"owner {owner} counts {D.a_cached[owner]} cached refusals"


def _found(buckets: Any, link: Any) -> list[int]:
    found: list[int] = []
    for bucket in filter(None, buckets):
        found.extend(_walk(bucket - 1, link))
    return sorted(found)


def _indexes(D: Any) -> Iterator[str]:
    count = D.media_objects
    named = [n for n in range(count) if D.m_phase[n] != MEDIA_FREE]
    for receipt in range(count):
        cached = D.u_state[receipt] == RECEIPT_CACHED
        if cached and D.u_source[receipt] < 0:
            named.append(count + receipt)
    if _found(D.n_bucket, D.n_next) != named:
        yield "the index of names does not hold exactly descriptors and old refusals"
    keys = {(D.n_owner[n], *map(int, D.n_id[n])) for n in named}
    if len(keys) != len(named):
        yield "an owner has a transfer id twice"
    ready = [
        n for n in range(count) if D.m_phase[n] == MEDIA_READY and D.m_removals[n] == 0
    ]
    if _found(D.d_bucket, D.d_next) != ready:
        yield "the index of digests does not hold exactly what may be leased"


def _receipts(D: Any) -> Iterator[str]:
    count = D.media_objects
    cached = _walk(D.u_head, D.u_next)
    deadlines = [D.u_deadline[receipt] for receipt in cached]
    if deadlines != sorted(deadlines):
        yield "cached receipts are not in the order of their deadlines"
    wanted: dict[int, list[int]] = {
        RECEIPT_FREE: sorted(_walk(D.u_free, D.u_next)),
        RECEIPT_CACHED: sorted(cached),
    }
    for state, members in wanted.items():
        if members != [n for n in range(count) if D.u_state[n] == state]:
            yield f"the list of receipts in state {state} is not all of them"
    for receipt in range(count):
        source = D.u_source[receipt]
        state = D.u_state[receipt]
        if state == RECEIPT_FREE or source < 0:
            continue
        if D.m_receipt[source] != receipt:
            yield f"receipt {receipt} and its source {source} do not know each other"
        if (state == RECEIPT_PENDING) == (D.m_phase[source] == MEDIA_REFUSED):
            yield f"receipt {receipt} in state {state} has a source in another"


def _leases(D: Any) -> Iterator[str]:
    counted: Counter[int] = Counter()
    for request in range(D.requests):
        counted.update(D.r_sources[request][: D.r_source_count[request]])
    for index in range(D.media_objects):
        if D.m_leases[index] != counted[index]:
            yield f"source {index} counts {D.m_leases[index]} leases"
        if counted[index] and D.m_phase[index] != MEDIA_READY:
            yield f"source {index} is leased and not ready"


def _counts(D: Any) -> Iterator[str]:
    live = _live(D)
    busy = [n for n in live if MEDIA_HASHING <= D.m_phase[n] <= MEDIA_ENCODING]
    if (D.media_live, D.media_busy) != (len(live), len(busy)):
        yield "the counts of live and busy sources are not theirs"
    working: Counter[int] = Counter()
    for index in range(D.media_objects):
        if D.m_worker[index] >= 0:
            image = D.m_format[index] == FORMAT_JPEG
            working[POOL_IMAGE if image else POOL_AUDIO] += 1
    workers = {POOL_IMAGE: D.image_workers, POOL_AUDIO: D.audio_workers}
    for pool, total in workers.items():
        free = D.w_free[pool].bit_count()
        if free + working[pool] != int(total):
            yield f"{free} free and {working[pool]} busy workers of pool {pool}"


_CHECKS = (
    _lists,
    _spans,
    _rows,
    _owners,
    _indexes,
    _receipts,
    _leases,
    _counts,
)
_NAMES = (
    "a_bytes a_cached a_free a_head a_live a_names a_next audio_workers d_bucket "
    "d_next image_workers l_next m_format m_generation m_hashes m_head m_leases "
    "m_list m_next m_phase m_receipt m_received m_removals m_rows m_size m_tail "
    "m_worker media_busy media_live media_objects n_bucket n_id n_next n_owner p_at "
    "p_count p_head p_next p_size p_used r_source_count r_sources requests t_head "
    "t_next u_deadline u_free u_head u_next u_owner u_source u_state w_free "
)


def find_media_violations(D: Any) -> Iterator[str]:
    """
    Check a snapshot of region D (one record); every broken invariant as a sentence.
    """
    columns = SimpleNamespace(**{name: D[name].tolist() for name in _NAMES.split()})
    for check in _CHECKS:
        yield from check(columns)
