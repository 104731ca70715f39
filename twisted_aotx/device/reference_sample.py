"""
One token of the reference model: candidates, scores, temperature, top_p and the draw.

Works on the slot's state and scratch of region D, which `reference` declares; the rules
are docs/reference-model.md's, step by step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.philox import philox_u64
from twisted_aotx.device.reference_table import (
    COUNT_MAX,
    END,
    ORDER_MAX,
    SPACE,
    context_key,
    find_row,
    mix32,
)

#: Bits of the noise: 0 .. 1023, in units of 1/256: up to 4 doublings.
NOISE_BITS = 10
#: END scores this much less at index 0, and `END_RISE` more with every token.
END_HANDICAP = 512
END_RISE = 2

#: A dose of 1.0.
DOSE_ONE = 10000
#: A dose of this much adds a unit of 1/256 to the score of a space.
VERVE_UNIT = 20

_ONE_Q16 = 65536
_M32 = u64(0xFFFFFFFF)


def _root_256(value: int) -> int:
    """floor(value ** (1/256)), by eight integer square roots."""
    for _ in range(8):
        value = math.isqrt(value)
    return value


#: EXP2[i] = floor(2^(16 - i/256)): the weight of a score i/256 below the best.
EXP2 = np.array([_root_256(1 << (4096 - i)) for i in range(256)], np.int64)
#: LOG2[n] = floor(256 * log2(n)); LOG2[0] is not used.
LOG2 = np.array(
    [(n**256 or 1).bit_length() - 1 for n in range(COUNT_MAX + 1)], np.int64
)


@dev
def q16_of_f32(bits: Any) -> Any:
    """
    floor(65536 · x) of the finite float x (0 <= x <= 2) with these f32 *bits*, as i64.

    At least 1 unless x is 0; the sign bit is not looked at.
    """
    exponent = (bits >> 23) & 255
    mantissa = bits & 0x7FFFFF
    if exponent == 0 and mantissa == 0:
        return i64(0)
    # x = (2^23 + mantissa) · 2^(exponent - 150)
    shift = 134 - exponent
    value = i64(0)
    if shift < 24:
        value = (mantissa | 0x800000) >> shift
    if value == 0:
        value = i64(1)
    return value


@dev
def soften(value: Any, caution: Any) -> Any:
    """
    *value* (0 or more) less by half of *caution*, a dose; at least 1 unless it is 0.
    """
    if value == 0:
        return i64(0)
    return max(i64(1), (value * (2 * DOSE_ONE - caution)) // (2 * DOSE_ONE))


@dev
def _find_context(D: Any, context: Any) -> Any:
    """The row of the longest known context, or -1: the corpus is empty."""
    order = i64(ORDER_MAX)
    while order > 0:
        key = context_key(context, order)
        row = find_row(D, key)
        if D.ref_key[row] == key:
            return row
        order -= 1
    return i64(-1)


@dev
def _score(D: Any, s: Any, index: Any, symbol: Any, count: Any) -> Any:
    """
    log2 of *count* plus the prompt's noise for *symbol* at *index*, in 1/256, and what
    the controls make of it.
    """
    word = (D.ref_prompt_hash[s, 1] + u64(index * 512 + symbol)) & _M32
    noise = mix32(D.ref_prompt_hash[s, 0] ^ mix32(word)) >> u64(32 - NOISE_BITS)
    score = LOG2[count] + soften(i64(noise), i64(D.ref_caution[s]))
    if symbol == SPACE:
        score += D.ref_verve[s] // VERVE_UNIT
    elif symbol == END:
        score += END_RISE * index - END_HANDICAP
    return score


@dev
def _rank(D: Any, s: Any, row: Any, index: Any) -> Any:
    """
    Sort the row's symbols into the slot's scratch: score falling, then symbol rising.

    Returns how many there are, 1..16.
    """
    scores = D.ref_score[s]
    choices = D.ref_choice[s]
    used = i64(D.ref_used[row])
    for k in range(used):
        symbol = i64(D.ref_symbol[row, k])
        score = _score(D, s, index, symbol, i64(D.ref_count[row, k]))
        at = i64(k)
        while at > 0 and (
            scores[at - 1] < score
            or (scores[at - 1] == score and choices[at - 1] > symbol)
        ):
            scores[at] = scores[at - 1]
            choices[at] = choices[at - 1]
            at -= 1
        scores[at] = score
        choices[at] = symbol
    return used


@dev
def _cut(D: Any, s: Any, used: Any) -> Any:
    """
    Weigh the ranked symbols by temperature and keep the head that top_p asks for.

    Returns how many are kept and the sum of their weights (Q16).
    """
    scores = D.ref_score[s]
    weights = D.ref_weight[s]
    temperature = i64(D.ref_temperature[s])
    total = i64(0)
    for k in range(used):
        below = ((scores[0] - scores[k]) * _ONE_Q16) // temperature
        weight = i64(0)
        if below < 17 * 256:
            weight = EXP2[below & 255] >> (below >> 8)
        weights[k] = weight
        total += weight
    wanted = i64(D.ref_top_p[s]) * total
    kept = i64(0)
    mass = i64(0)
    while kept < used and mass * _ONE_Q16 < wanted:
        mass += weights[kept]
        kept += 1
    return kept, mass


@dev
def _draw(D: Any, s: Any, kept: Any, mass: Any, index: Any) -> Any:
    """One of the *kept* symbols, by the seed's random word for *index*."""
    word = i64(philox_u64(D.ref_seed[s], u64(index)) & _M32)
    left = (word * mass) >> 32
    weights = D.ref_weight[s]
    at = i64(0)
    while at < kept - 1 and left >= weights[at]:
        left -= weights[at]
        at += 1
    return i64(D.ref_choice[s, at])


@dev
def sample_symbol(D: Any, s: Any, index: Any) -> Any:
    """The model's symbol for *index*."""
    row = _find_context(D, i64(D.ref_context[s]))
    if row < 0:
        return i64(END)
    used = _rank(D, s, row, index)
    if used == 1 or D.ref_temperature[s] == 0:
        return i64(D.ref_choice[s, 0])
    kept, mass = _cut(D, s, used)
    return _draw(D, s, kept, mass, index)
