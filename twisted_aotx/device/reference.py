"""
The reference language model: sequences that the device's own kernels run.

A byte-level n-gram model with one byte per token and an end token (`device.md` §17).
Its scores are log2 counts in units of 1/256 plus a noise that prompt and index of the
token decide, so each prompt has its own text and each of its bytes matters. Temperature
divides scores, weights are 2^score in Q16 by table, top_p cuts the sorted
list, and Philox draws. There is no float anywhere: every target makes the same tokens.
docs/reference-model.md states the algorithm exactly; the tests' oracle is written from
that page alone.

Theory of operation: `ref_open` puts a sequence into slot s, `ref_step` makes its next
tokens, `ref_due_ns` says when the next one is due. Slots are independent; one lane
steps one slot. A slot's state means nothing between finish 1 or 2 and `ref_open`.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.reference_sample import q16_of_f32, sample_symbol, soften
from twisted_aotx.device.reference_table import (
    CHOICES_MAX,
    END,
    LOADED,
    SPACE,
    START_CONTEXT,
    build_table,
    hash_bytes,
    hash_more,
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

#: Rows of the controls that the engine declares (`engines.reference`).
CAUTION = 0
VERVE = 1

_SECOND_NS = 1_000_000_000


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
        # doses, 0 without a selection
        ("ref_caution", "<i8", (slots,)),
        ("ref_verve", "<i8", (slots,)),
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
        temperature_bits, top_p_bits: f32 bits as i64, of values that admission took.
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
    D.ref_caution[s] = 0
    D.ref_verve[s] = 0
    D.ref_index[s] = 0
    D.ref_started[s] = 0
    D.ref_start_ns[s] = 0
    D.ref_context[s] = START_CONTEXT
    D.ref_running[s] = 1
    return i64(n)


@dev
def ref_select(D: Any, s: Any, control: Any, dose: Any) -> None:
    """
    Apply a control to the sequence of slot *s*, right after `ref_open`.

    Args:
        control: the row of the engine's facts, CAUTION or VERVE; -1 is none.
        dose: unit 0.0001.
    """
    if control == CAUTION:
        D.ref_caution[s] = dose
        D.ref_temperature[s] = soften(i64(D.ref_temperature[s]), dose)
    elif control == VERVE:
        D.ref_verve[s] = dose


@dev
def ref_mix(D: Any, s: Any, digest: Any) -> None:
    """Take the 32 bytes of a source's *digest* into the prompt's hash of slot *s*."""
    a, b = hash_more(D.ref_prompt_hash[s, 0], D.ref_prompt_hash[s, 1], digest, 32)
    D.ref_prompt_hash[s, 0] = a
    D.ref_prompt_hash[s, 1] = b


@dev
def _next_symbol(D: Any, s: Any, index: Any) -> Any:
    """The sequence's symbol for *index*; moves its context."""
    model = i64(D.ref_model[s])
    size = i64(D.ref_fixed_bytes[model])
    if size >= 0:
        if index < size:
            return i64(D.ref_fixed[model, index])
        return i64(END)
    symbol = sample_symbol(D, s, index)
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
