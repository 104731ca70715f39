"""
The reference engine's look at its media sources: it hashes them itself before it opens
a sequence (`device.md` §17).

Rules:
1. The sources are those that the request holds, in order of reference; while the check
   runs `k_source` counts those that are done, -1 otherwise.
2. All leases together hash at most MEDIA_BYTES_PER_TICK bytes per tick, one lease a
   block of 64 bytes at least.
3. A digest that differs refuses the prompt with 503; what it found goes into the
   prompt's hash, so every byte of a source changes the output.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.pool import POOL_BYTES
from twisted_aotx.device.reference import ref_mix
from twisted_aotx.device.sha256 import (
    BLOCK_BYTES,
    sha_blocks,
    sha_close,
    sha_equals,
    sha_fields,
    sha_reset,
)
from twisted_aotx.limits import MEDIA_BYTES_PER_TICK, Capacities

#: Verdicts: go on in the next tick, all as declared, one differs.
CHECK_GOES_ON = 0
CHECK_PASSED = 1
CHECK_FAILED = 2


def check_fields(capacities: Capacities) -> list[Any]:
    """By slot the check of its sources; prompt tokens found so far."""
    slots = (capacities.slots,)
    return [
        ("k_source", "<i8", slots),
        ("k_tokens", "<i8", slots),
        *sha_fields("k", capacities.slots),
    ]


@dev
def start_check(D: Any, slot: Any, tokens: Any) -> None:
    """Begin with the first source; the text is *tokens* long."""
    D.k_source[slot] = 0
    D.k_tokens[slot] = tokens
    sha_reset(D.k_state[slot])
    D.k_at[slot] = 0


@dev
def _settle_source(D: Any, P: Any, slot: Any, index: Any) -> Any:
    """The last bytes of a source, fewer than 64; 1 if it is what it says."""
    at = i64(D.k_at[slot])
    size = i64(D.m_size[index])
    state = D.k_state[slot]
    sha_close(state, P, D.p_at[POOL_BYTES, index] + at, size - at, size)
    if sha_equals(state, D.m_digest[index]) == 0:
        return i64(0)
    ref_mix(D, slot, D.m_digest[index])
    D.k_tokens[slot] += D.m_rows[index]
    D.k_source[slot] += 1
    sha_reset(state)
    D.k_at[slot] = 0
    return i64(1)


@dev
def check_more(D: Any, P: Any, slot: Any, request: Any) -> Any:
    """One tick's share of the check; a verdict."""
    budget = max(i64(BLOCK_BYTES), i64(MEDIA_BYTES_PER_TICK) // D.live)
    while D.k_source[slot] < D.r_source_count[request]:
        index = i64(D.r_sources[request, D.k_source[slot]])
        at = i64(D.k_at[slot])
        left = D.m_size[index] - at
        blocks = min(left, budget) // BLOCK_BYTES
        if blocks > 0:
            sha_blocks(D.k_state[slot], P, D.p_at[POOL_BYTES, index] + at, blocks)
            D.k_at[slot] = at + blocks * BLOCK_BYTES
            budget -= blocks * BLOCK_BYTES
        elif left < BLOCK_BYTES and budget > 0:
            if _settle_source(D, P, slot, index) == 0:
                D.k_source[slot] = -1
                return i64(CHECK_FAILED)
            budget -= BLOCK_BYTES
        else:
            return i64(CHECK_GOES_ON)
    D.k_source[slot] = -1
    return i64(CHECK_PASSED)
