"""
What must hold in the tables of media sources after every tick, as sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
    phases = D["m_phase"]
    return [n for n in range(int(D["media_objects"])) if 1 <= phases[n] <= MEDIA_READY]


def _lists(D: Any) -> Iterator[str]:
    seen: list[int] = []
    for which, phases in _PHASES.items():
        members = _walk(D["m_head"][which], D["m_next"])
        seen.extend(members)
        if members and int(D["m_tail"][which]) != members[-1]:
            yield f"the tail of source list {which} is not its last member"
        for index in members:
            phase = int(D["m_phase"][index])
            if phase not in phases or int(D["m_list"][index]) != which:
                yield f"source {index} of list {which} is in phase {phase}"
        generations = [int(D["m_generation"][index]) for index in members]
        waiting = which in (source_lists.M_WAITING_IMAGE, source_lists.M_WAITING_AUDIO)
        if waiting and generations != sorted(generations):
            yield f"source list {which} is not in the order of generations"
    if sorted(seen) != list(range(int(D["media_objects"]))):
        yield "not every descriptor is in exactly one list"
    turns = _walk(D["t_head"], D["t_next"])
    if sorted(turns) != [n for n in sorted(seen) if int(D["m_hashes"][n])]:
        yield "the turns of the hash stage are not the sources that have one"


def _spans(D: Any) -> Iterator[str]:
    for pool in range(POOLS):
        end = used = 0
        members = _walk(D["p_head"][pool], D["p_next"][pool])
        for index in members:
            if int(D["p_at"][pool][index]) < end:
                yield f"the span of source {index} in pool {pool} begins in another"
            used += int(D["p_count"][pool][index])
            end = int(D["p_at"][pool][index]) + int(D["p_count"][pool][index])
        if end > int(D["p_size"][pool]):
            yield f"a span is beyond pool {pool}"
        if used != int(D["p_used"][pool]):
            yield f"pool {pool} counts {D['p_used'][pool]} in use, not {used}"
        held = [n for n in range(len(D["p_count"][pool])) if D["p_count"][pool][n]]
        if sorted(members) != held:
            yield f"the list of pool {pool} does not hold exactly its spans"
        if pool == POOL_BYTES and held != _live(D):
            yield "not exactly the live sources have bytes in the pool"


def _rows(D: Any) -> Iterator[str]:
    for index in _live(D):
        image = int(D["m_format"][index]) == FORMAT_JPEG
        count = int(D["p_count"][POOL_IMAGE if image else POOL_AUDIO][index])
        if int(D["m_phase"][index]) == MEDIA_READY and count != D["m_rows"][index]:
            yield f"ready source {index} holds {count} rows, not its own number"
        if int(D["m_received"][index]) > int(D["m_size"][index]):
            yield f"source {index} received more bytes than it has"


def _owners(D: Any) -> Iterator[str]:
    live: dict[int, list[int]] = {}
    names: Counter[int] = Counter()
    cached: Counter[int] = Counter()
    for index in range(int(D["media_objects"])):
        owner = int(D["n_owner"][index])
        if int(D["m_phase"][index]) != MEDIA_FREE:
            names[owner] += 1
        if MEDIA_FREE < int(D["m_phase"][index]) <= MEDIA_READY:
            live.setdefault(owner, []).append(index)
    for receipt in range(int(D["media_objects"])):
        if int(D["u_state"][receipt]) == RECEIPT_CACHED:
            cached[int(D["u_owner"][receipt])] += 1
            if int(D["u_source"][receipt]) < 0:
                names[int(D["u_owner"][receipt])] += 1
    unused = set(_walk(D["a_free"], D["a_next"]))
    for owner in range(len(D["a_names"])):
        if (owner in unused) != (names[owner] == 0):
            yield f"owner {owner} with {names[owner]} names is free or not"
        if owner in unused:
            continue
        mine = live.get(owner, [])
        if _walk(D["a_head"][owner], D["l_next"]) != mine:
            yield f"the list of owner {owner} is not its live sources in table order"
        size = sum(int(D["m_size"][index]) for index in mine)
        counted = (int(D["a_live"][owner]), int(D["a_bytes"][owner]))
        if counted != (len(mine), size):
            yield f"owner {owner} counts {counted}, not {(len(mine), size)}"
        if int(D["a_names"][owner]) != names[owner]:
            yield f"owner {owner} counts {D['a_names'][owner]} names"
        if int(D["a_cached"][owner]) != cached[owner]:
            yield f"owner {owner} counts {D['a_cached'][owner]} cached refusals"


def _found(buckets: Any, link: Any) -> list[int]:
    found: list[int] = []
    for bucket in buckets[buckets > 0]:
        found.extend(_walk(int(bucket) - 1, link))
    return sorted(found)


def _indexes(D: Any) -> Iterator[str]:
    count = int(D["media_objects"])
    named = [n for n in range(count) if int(D["m_phase"][n]) != MEDIA_FREE]
    for receipt in range(count):
        cached = int(D["u_state"][receipt]) == RECEIPT_CACHED
        if cached and int(D["u_source"][receipt]) < 0:
            named.append(count + receipt)
    if _found(D["n_bucket"], D["n_next"]) != named:
        yield "the index of names does not hold exactly descriptors and old refusals"
    keys = {(int(D["n_owner"][n]), *map(int, D["n_id"][n])) for n in named}
    if len(keys) != len(named):
        yield "an owner has a transfer id twice"
    ready = [
        n
        for n in range(count)
        if int(D["m_phase"][n]) == MEDIA_READY and int(D["m_removals"][n]) == 0
    ]
    if _found(D["d_bucket"], D["d_next"]) != ready:
        yield "the index of digests does not hold exactly what may be leased"


def _receipts(D: Any) -> Iterator[str]:
    count = int(D["media_objects"])
    cached = _walk(D["u_head"], D["u_next"])
    deadlines = [int(D["u_deadline"][receipt]) for receipt in cached]
    if deadlines != sorted(deadlines):
        yield "cached receipts are not in the order of their deadlines"
    wanted: dict[int, list[int]] = {
        RECEIPT_FREE: sorted(_walk(D["u_free"], D["u_next"])),
        RECEIPT_CACHED: sorted(cached),
    }
    for state, members in wanted.items():
        if members != [n for n in range(count) if int(D["u_state"][n]) == state]:
            yield f"the list of receipts in state {state} is not all of them"
    for receipt in range(count):
        source = int(D["u_source"][receipt])
        state = int(D["u_state"][receipt])
        if state == RECEIPT_FREE or source < 0:
            continue
        if int(D["m_receipt"][source]) != receipt:
            yield f"receipt {receipt} and its source {source} do not know each other"
        if (state == RECEIPT_PENDING) == (int(D["m_phase"][source]) == MEDIA_REFUSED):
            yield f"receipt {receipt} in state {state} has a source in another"


def _leases(D: Any) -> Iterator[str]:
    counted: Counter[int] = Counter()
    for request in range(int(D["requests"])):
        count = int(D["r_source_count"][request])
        counted.update(map(int, D["r_sources"][request][:count]))
    for index in range(int(D["media_objects"])):
        if int(D["m_leases"][index]) != counted[index]:
            yield f"source {index} counts {D['m_leases'][index]} leases"
        if counted[index] and int(D["m_phase"][index]) != MEDIA_READY:
            yield f"source {index} is leased and not ready"


def _counts(D: Any) -> Iterator[str]:
    live = _live(D)
    busy = [n for n in live if MEDIA_HASHING <= D["m_phase"][n] <= MEDIA_ENCODING]
    if (int(D["media_live"]), int(D["media_busy"])) != (len(live), len(busy)):
        yield "the counts of live and busy sources are not theirs"
    working: Counter[int] = Counter()
    for index in range(int(D["media_objects"])):
        if int(D["m_worker"][index]) >= 0:
            image = int(D["m_format"][index]) == FORMAT_JPEG
            working[POOL_IMAGE if image else POOL_AUDIO] += 1
    workers = {POOL_IMAGE: D["image_workers"], POOL_AUDIO: D["audio_workers"]}
    for pool, total in workers.items():
        free = int(D["w_free"][pool]).bit_count()
        if free + working[pool] != int(total):
            yield f"{free} free and {working[pool]} busy workers of pool {pool}"


MEDIA_CHECKS = (
    _lists,
    _spans,
    _rows,
    _owners,
    _indexes,
    _receipts,
    _leases,
    _counts,
)
