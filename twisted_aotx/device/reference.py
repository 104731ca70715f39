"""
The reference language model: sequences that the device's own kernels run (`device.md` §17).

A byte-level n-gram model with one byte per token and an end token. Its scores are log2
counts in units of 1/256 plus a noise that the prompt and the token's index decide, so
each prompt has its own text and each of its bytes matters. Temperature divides scores,
weights are 2^score in Q16 by table, top_p cuts the sorted list, and Philox draws. There
is no float anywhere: every target makes the same tokens. docs/reference-model.md states
the algorithm exactly; tests/device/reference_oracle.py is written from that page alone.

Theory of operation: `ref_open` puts a sequence into slot s, `ref_step` makes its next
tokens, `ref_due_ns` says when the next one is due. Slots are independent; one lane steps
one slot. State of a slot is meaningless after finish 1 or 2 until the next `ref_open`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.philox import philox_u64
from twisted_aotx.device.reference_table import (
    CHOICES_MAX,
    COUNT_MAX,
    END,
    LOADED,
    ORDER_MAX,
    SPACE,
    START_CONTEXT,
    build_table,
    context_key,
    find_row,
    hash_bytes,
    mix32,
    push_symbol,
    table_fields,
)
from twisted_aotx.limits import Capacities

#: Roles 2, 3 and 4 may run the model at once; rows of the tables by role.
FIRST_ROLE = 2
MODEL_ROLES = 3
#: Bytes of the largest fixed output.
FIXED_BYTES_MAX = 65536
#: Tokens that one step may make: one tick's work for a slot.
REFERENCE_TOKENS_PER_TICK = 32
#: Tokens per second, the most that `rate` may say.
RATE_MAX = 1_000_000
#: Before this index an END starts a new paragraph in the same output instead.
FREE_END_INDEX = 96
#: Bits of the noise: 0 .. 1023, in units of 1/256: up to 4 doublings.
NOISE_BITS = 10
#: END scores this much less at index 0, and `END_RISE` more with every token.
END_HANDICAP = 512
END_RISE = 2

_ONE_Q16 = 65536
_SECOND_NS = 1_000_000_000
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


def reference_fields(capacities: Capacities) -> list[Any]:
    """Every field of region D that the model uses; all names begin with `ref_`."""
    slots = capacities.slots
    return [
        *table_fields(),
        # by role - 2; fixed bytes -1: no fixed output
        ("ref_rate", "<i8", (MODEL_ROLES,)),
        ("ref_fixed_bytes", "<i8", (MODEL_ROLES,)),
        ("ref_fixed", "u1", (MODEL_ROLES, FIXED_BYTES_MAX)),
        # by slot: the sequence
        ("ref_running", "<i4", (slots,)),
        ("ref_model", "<i4", (slots,)),
        ("ref_generation", "<i8", (slots,)),
        ("ref_limit", "<i8", (slots,)),
        ("ref_index", "<i8", (slots,)),
        ("ref_started", "<i4", (slots,)),
        ("ref_start_ns", "<i8", (slots,)),
        ("ref_context", "<i8", (slots,)),
        ("ref_prompt_hash", "<u8", (slots, 2)),
        ("ref_temperature", "<i8", (slots,)),
        ("ref_top_p", "<i8", (slots,)),
        ("ref_seed", "<u8", (slots,)),
        # by slot: scratch, the candidates of one token in falling order of score
        ("ref_choice", "<i8", (slots, CHOICES_MAX)),
        ("ref_score", "<i8", (slots, CHOICES_MAX)),
        ("ref_weight", "<i8", (slots, CHOICES_MAX)),
    ]


@dev
def ref_load_corpus(
    D: Any, role: Any, corpus: Any, n: Any, rate: Any, fixed: Any, n_fixed: Any
) -> Any:
    """
    Give *role* (2..4) the model: its table, *rate* and fixed output. One lane.

    Args:
        corpus: u1 array; its first *n* bytes are counted. All roles share one corpus.
        rate: tokens per second and sequence, 0..1,000,000; 0 is as fast as ticks allow.
        fixed: u1 array of at least *n_fixed* bytes; *n_fixed* -1 is no fixed output.

    Returns:
        A status of `reference_table`: LOADED; anything else changed nothing.
    """
    status = build_table(D, corpus, n)
    if status != LOADED:
        return status
    model = role - FIRST_ROLE
    D.ref_rate[model] = rate
    D.ref_fixed_bytes[model] = n_fixed
    for k in range(n_fixed):
        D.ref_fixed[model, k] = fixed[k]
    return status


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
def ref_open(
    D: Any,
    s: Any,
    role: Any,
    generation: Any,
    limit: Any,
    temperature_bits: Any,
    top_p_bits: Any,
    seed: Any,
    prompt: Any,
    n: Any,
) -> Any:
    """
    Start the sequence of slot *s*. One lane; work: *n* bytes.

    Args:
        limit: tokens, the end token included, 1 or more.
        temperature_bits, top_p_bits: f32 bits as i64, of values that admission accepted.
        seed: u64.
        prompt: u1 array, the rendered prompt in its first *n* bytes.

    Returns:
        The prompt's tokens: *n*.
    """
    a, b = hash_bytes(prompt, n)
    D.ref_prompt_hash[s, 0] = a
    D.ref_prompt_hash[s, 1] = b
    D.ref_model[s] = role - FIRST_ROLE
    D.ref_generation[s] = generation
    D.ref_limit[s] = limit
    D.ref_temperature[s] = q16_of_f32(i64(temperature_bits))
    D.ref_top_p[s] = q16_of_f32(i64(top_p_bits))
    D.ref_seed[s] = seed
    D.ref_index[s] = 0
    D.ref_started[s] = 0
    D.ref_start_ns[s] = 0
    D.ref_context[s] = START_CONTEXT
    D.ref_running[s] = 1
    return i64(n)


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
    """log2 of *count* plus the prompt's noise for *symbol* at *index*, in 1/256."""
    word = (D.ref_prompt_hash[s, 1] + u64(index * 512 + symbol)) & _M32
    noise = mix32(D.ref_prompt_hash[s, 0] ^ mix32(word)) >> u64(32 - NOISE_BITS)
    score = LOG2[count] + i64(noise)
    if symbol == END:
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
def _sample(D: Any, s: Any, index: Any) -> Any:
    """The model's symbol for *index*."""
    row = _find_context(D, i64(D.ref_context[s]))
    if row < 0:
        return i64(END)
    used = _rank(D, s, row, index)
    if used == 1 or D.ref_temperature[s] == 0:
        return i64(D.ref_choice[s, 0])
    kept, mass = _cut(D, s, used)
    return _draw(D, s, kept, mass, index)


@dev
def _next_symbol(D: Any, s: Any, index: Any) -> Any:
    """The sequence's symbol for *index*; moves its context."""
    model = i64(D.ref_model[s])
    size = i64(D.ref_fixed_bytes[model])
    if size >= 0:
        if index < size:
            return i64(D.ref_fixed[model, index])
        return i64(END)
    symbol = _sample(D, s, index)
    if symbol == END and index < FREE_END_INDEX and D.ref_contexts[0] > 0:
        D.ref_context[s] = START_CONTEXT
        return i64(SPACE)
    D.ref_context[s] = push_symbol(i64(D.ref_context[s]), symbol)
    return symbol


@dev
def ref_due_ns(D: Any, s: Any, now_ns: Any) -> Any:
    """
    When the next token of slot *s* is due (ns); *now_ns* without a rate.

    Token k is due k / rate seconds after the first step, rounded up to a ns.
    """
    rate = i64(D.ref_rate[D.ref_model[s]])
    if rate == 0 or D.ref_started[s] == 0:
        return now_ns
    ahead = (i64(D.ref_index[s]) * _SECOND_NS + rate - 1) // rate
    return i64(D.ref_start_ns[s]) + ahead


@dev
def ref_step(D: Any, s: Any, now_ns: Any, out: Any, room: Any) -> Any:
    """
    Make the tokens of slot *s* that are due, at most REFERENCE_TOKENS_PER_TICK.

    Args:
        out: u1 array; bytes are written from its start.
        room: bytes of *out*; with no room left no token is made.

    Returns:
        (bytes written, tokens made, finish): finish 1 at the end token, 2 at the limit,
        else 0. All 0 when the slot has no running sequence.
    """
    written = i64(0)
    made = i64(0)
    finish = i64(0)
    if D.ref_running[s] == 0:
        return written, made, finish
    if D.ref_started[s] == 0:
        D.ref_start_ns[s] = now_ns
        D.ref_started[s] = 1
    while finish == 0 and made < REFERENCE_TOKENS_PER_TICK and written < room:
        if ref_due_ns(D, s, now_ns) > now_ns:
            break
        index = i64(D.ref_index[s])
        symbol = _next_symbol(D, s, index)
        D.ref_index[s] = index + 1
        made += 1
        if symbol == END:
            finish = i64(1)
        else:
            out[written] = symbol
            written += 1
            if index + 1 >= D.ref_limit[s]:
                finish = i64(2)
    if finish != 0:
        D.ref_running[s] = 0
    return written, made, finish
