"""
The engine that runs inside the kernels: drives the reference model (`device.md` §17).

It takes its orders from the slot mailboxes as an engine on the host does, and what it
says is judged like anything that is reported (`events`). It does not post events: a
slot's ring has one writer, and an engine on the host may still be writing of the lease
before [D4]. What one step says is listed instead, and taken in the same tick.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release
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

#: What one step says at most: opened, an emission, done.
KERNEL_EVENTS_MAX = 3


def kernel_engine_fields(capacities: Capacities) -> list[Any]:
    """
    Per slot what a step wrote and said, and how far the check of its sources is.

    `k_events` of the slot's entries are of this tick; the bytes of `k_out` are those of
    the one emission that may be among them.
    """
    said = (capacities.slots, KERNEL_EVENTS_MAX)
    return [
        ("k_out", "u1", (capacities.slots, REFERENCE_TOKENS_PER_TICK)),
        ("k_events", "<i8", (capacities.slots,)),
        ("k_kind", "<i8", said),
        ("k_value", "<i8", said),
        ("k_size", "<i8", said),
        *check_fields(capacities),
    ]


@dev
def _say(D: Any, slot: Any, kind: Any, value: Any, size: Any) -> None:
    """One event of the lease in *slot*; *size* bytes of `k_out` belong to it."""
    at = D.k_events[slot]
    D.k_kind[slot][at] = kind
    D.k_value[slot][at] = value
    D.k_size[slot][at] = size
    D.k_events[slot] = at + 1


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
def _check(D: Any, P: Any, slot: Any) -> None:
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
    _say(D, slot, kind, value, i64(0))


@dev
def _drive(H: Any, D: Any, P: Any, slot: Any) -> None:
    D.k_events[slot] = 0
    if D.s_end[slot] != 0:
        return
    # An order of the slot's last lease may still wait for an engine on the host.
    if D.s_sent[slot] == 1 and load_acquire(H.o_state, slot) == 1:
        _accept(H, D, slot)
    generation = D.ref_generation[slot]
    if generation != D.s_generation[slot] or D.ref_running[slot] == 0:
        return
    if D.k_source[slot] >= 0:
        _check(D, P, slot)
    if D.k_source[slot] >= 0 or D.ref_running[slot] == 0:
        return
    size, tokens, finish = ref_step(
        D, slot, D.now, D.k_out[slot], i64(REFERENCE_TOKENS_PER_TICK)
    )
    if tokens > 0:
        _say(D, slot, i64(EV_EMIT), tokens, size)
    if finish != 0:
        _say(D, slot, i64(EV_DONE), finish, i64(0))


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
