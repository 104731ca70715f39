"""
Which sources an active request holds (`device.md` §12, leases), and what its engine is
told of them (`device.md` §10, media sources).

Rules:
1. While a prompt is judged its references are noted in `ref_list`; admission takes them
   over, in order of reference, one lease for each.
2. A lease ends with the request's terminal transition. Until then the source is ready,
   so its index, place, rows and digest stand.
3. A link is 72 bytes, so a prompt has room for `prompt_bytes // 72` references; the
   check of its room comes first, so no list is longer.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev
from twisted_aotx.device.numbers import FORMAT_JPEG, PART_AUDIO, PART_IMAGE
from twisted_aotx.device.pool import POOL_BYTES
from twisted_aotx.device.source_index import DIGEST_BYTES
from twisted_aotx.limits import LINK_BYTES, Capacities

#: Words of a source in an order: kind, index, generation, offset in the pool, size,
#: format, samples, rows.
SOURCE_WORDS = 8


def references_max(capacities: Capacities) -> int:
    """References that one request can hold."""
    if capacities.media_objects == 0:
        return 1
    return max(1, capacities.prompt_bytes // LINK_BYTES)


def lease_fields(capacities: Capacities) -> list[Any]:
    """Of region D: by request its sources; the references of the prompt in work."""
    references = references_max(capacities)
    return [
        ("r_source_count", "<i8", (capacities.requests,)),
        ("r_sources", "<i4", (capacities.requests, references)),
        ("refs", "<i8"),
        ("ref_list", "<i4", (references,)),
    ]


def order_fields(capacities: Capacities) -> list[Any]:
    """Of region H: by slot the sources of its order."""
    sources = (capacities.slots, references_max(capacities))
    return [
        ("o_source_count", "<i8", (capacities.slots,)),
        ("o_source", "<i8", (*sources, SOURCE_WORDS)),
        ("o_source_digest", "u1", (*sources, DIGEST_BYTES)),
    ]


@dev
def note_reference(D: Any, index: Any) -> None:
    """The prompt in work refers to the source of *index*."""
    D.ref_list[D.refs] = index
    D.refs += 1


@dev
def lease_sources(D: Any, request: Any) -> None:
    """*request* holds what its prompt refers to."""
    D.r_source_count[request] = D.refs
    for n in range(D.refs):
        D.r_sources[request, n] = D.ref_list[n]
        D.m_leases[D.ref_list[n]] += 1


@dev
def release_sources(D: Any, request: Any) -> None:
    """*request* has ended and holds none."""
    for n in range(D.r_source_count[request]):
        D.m_leases[D.r_sources[request, n]] -= 1
    D.r_source_count[request] = 0


@dev
def write_sources(H: Any, D: Any, slot: Any, request: Any) -> None:
    """Put the sources of *request* into the order of *slot*."""
    count = D.r_source_count[request]
    H.o_source_count[slot] = count
    for n in range(count):
        index = D.r_sources[request, n]
        row = H.o_source[slot, n]
        row[0] = PART_AUDIO
        if D.m_format[index] == FORMAT_JPEG:
            row[0] = PART_IMAGE
        row[1] = index
        row[2] = D.m_generation[index]
        row[3] = D.p_at[POOL_BYTES, index]
        row[4] = D.m_size[index]
        row[5] = D.m_format[index]
        row[6] = D.m_samples[index]
        row[7] = D.m_rows[index]
        for k in range(DIGEST_BYTES):
            H.o_source_digest[slot, n, k] = D.m_digest[index][k]
