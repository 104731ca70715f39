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
    KIND_KERNEL,
)
from twisted_aotx.device.reference import (
    REFERENCE_TOKENS_PER_TICK,
    ref_due_ns,
    ref_open,
    ref_select,
    ref_step,
)
from twisted_aotx.limits import Capacities


def kernel_engine_fields(capacities: Capacities) -> list[Any]:
    """Per slot what a step wrote."""
    return [("k_out", "u1", (capacities.slots, REFERENCE_TOKENS_PER_TICK))]


@dev
def _accept(H: Any, D: Any, slot: Any) -> None:
    """Take the open order and report the sequence as opened."""
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
    post_event(H, slot, generation, EV_OPENED, size, D.k_out[slot], i64(0))


@dev
def _drive(H: Any, D: Any, slot: Any) -> None:
    if D.s_end[slot] != 0:
        return
    # An order of the slot's last lease may still wait for an engine on the host.
    if D.s_sent[slot] == 1 and load_acquire(H.o_state, slot) == 1:
        _accept(H, D, slot)
    generation = D.ref_generation[slot]
    if generation != D.s_generation[slot] or D.ref_running[slot] == 0:
        return
    size, tokens, finish = ref_step(
        D, slot, D.now, D.k_out[slot], i64(REFERENCE_TOKENS_PER_TICK)
    )
    if tokens > 0:
        post_event(H, slot, generation, EV_EMIT, tokens, D.k_out[slot], size)
    if finish != 0:
        post_event(H, slot, generation, EV_DONE, finish, D.k_out[slot], i64(0))


@dev
def run_kernel_engines(H: Any, D: Any, lane: Any, lanes: Any) -> None:
    """All lanes: one lane steps one lease."""
    for n in range(lane, D.live, lanes):
        slot = D.live_list[n]
        if D.role_kind[D.s_role[slot]] == KIND_KERNEL:
            _drive(H, D, slot)


@dev
def kernel_due(D: Any, slot: Any) -> Any:
    """When the lease in *slot* has its next token, in ns; not before if not its own."""
    return ref_due_ns(D, slot, D.now)
