"""
The engine that runs inside the kernels: drives the reference model (`device.md` §17).

It uses the slot mailboxes exactly as an engine on the host does, so every rule of the
engine boundary holds for it without a special case.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release
from twisted_aotx.device.engine_mail import post_event
from twisted_aotx.device.numbers import (
    EV_DONE,
    EV_EMIT,
    EV_OPENED,
    EV_REFUSED,
    KIND_KERNEL,
    UNAVAILABLE,
)
from twisted_aotx.device.reference import (
    REFERENCE_TOKENS_PER_TICK,
    ref_due_ns,
    ref_open,
    ref_select,
    ref_step,
)
from twisted_aotx.device.reference_sources import (
    CHECK_FAILED,
    CHECK_GOES_ON,
    check_fields,
    check_more,
    start_check,
)
from twisted_aotx.limits import Capacities


def kernel_engine_fields(capacities: Capacities) -> list[Any]:
    """Per slot what a step wrote, and how far the check of its sources is."""
    return [
        ("k_out", "u1", (capacities.slots, REFERENCE_TOKENS_PER_TICK)),
        *check_fields(capacities),
    ]


@dev
def _accept(H: Any, D: Any, slot: Any) -> None:
    """Take the open order; the sequence opens once its sources were looked at."""
    generation = H.o_generation[slot]
    size = H.o_rendered_bytes[slot]
    role = H.o_role[slot]
    ref_open(
        D,
        slot,
        role,
        generation,
        H.o_limit[slot],
        H.o_temperature[slot],
        H.o_top_p[slot],
        H.o_seed[slot],
        H.o_rendered[slot],
        size,
    )
    ref_select(D, slot, H.o_control[slot], H.o_dose[slot])
    store_release(H.o_state, slot, 0)
    start_check(D, slot, size)


@dev
def _check(H: Any, D: Any, P: Any, slot: Any) -> None:
    """Go on with the sources; report the sequence as opened, or as refused."""
    verdict = check_more(D, P, slot, D.s_request[slot])
    if verdict == CHECK_GOES_ON:
        return
    kind = i64(EV_OPENED)
    value = i64(D.k_tokens[slot])
    if verdict == CHECK_FAILED:
        D.ref_running[slot] = 0
        kind = i64(EV_REFUSED)
        value = i64(UNAVAILABLE)
    post_event(H, slot, D.s_generation[slot], kind, value, D.k_out[slot], i64(0))


@dev
def _drive(H: Any, D: Any, P: Any, slot: Any) -> None:
    if D.s_end[slot] != 0:
        return
    # An order of the slot's last lease may still wait for an engine on the host.
    if D.s_sent[slot] == 1 and load_acquire(H.o_state, slot) == 1:
        _accept(H, D, slot)
    generation = D.ref_generation[slot]
    if generation != D.s_generation[slot] or D.ref_running[slot] == 0:
        return
    if D.k_source[slot] >= 0:
        _check(H, D, P, slot)
    if D.k_source[slot] >= 0 or D.ref_running[slot] == 0:
        return
    size, tokens, finish = ref_step(
        D, slot, D.now, D.k_out[slot], i64(REFERENCE_TOKENS_PER_TICK)
    )
    if tokens > 0:
        post_event(H, slot, generation, EV_EMIT, tokens, D.k_out[slot], size)
    if finish != 0:
        post_event(H, slot, generation, EV_DONE, finish, D.k_out[slot], i64(0))


@dev
def run_kernel_engines(H: Any, D: Any, P: Any, lane: Any, lanes: Any) -> None:
    """All lanes: one lane steps one lease."""
    for n in range(lane, D.live, lanes):
        slot = D.live_list[n]
        if D.role_kind[D.s_role[slot]] == KIND_KERNEL:
            _drive(H, D, P, slot)


@dev
def kernel_due(D: Any, slot: Any) -> Any:
    """When the lease in *slot* has its next token, in ns; not before if not its own."""
    if D.k_source[slot] >= 0 and D.ref_generation[slot] == D.s_generation[slot]:
        return i64(D.now)
    return ref_due_ns(D, slot, D.now)
