"""
The engine exchange and the commit (`device.md` §9, §10); rules in `slots`.

send_orders → render_orders (all lanes) → publish_orders → kernel engines (all lanes) →
collect → append (all lanes) → commit
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import (
    copy_bytes,
    dev,
    i64,
    load_acquire,
    store_release,
    u64,
)
from twisted_aotx.device.controls import write_selection
from twisted_aotx.device.engine_mail import push_order
from twisted_aotx.device.events import collect_lease
from twisted_aotx.device.numbers import (
    BAD,
    EV_EMIT,
    EVENT_BYTES,
    EVENTS,
    FAILED,
    KIND_HOST,
    KIND_KERNEL,
)
from twisted_aotx.device.philox import philox_u64
from twisted_aotx.device.progress import note_change
from twisted_aotx.device.render_order import render_prompt
from twisted_aotx.device.requests import end_request
from twisted_aotx.device.slots import end_lease, free_slot
from twisted_aotx.device.source_leases import write_sources


@dev
def send_stop(H: Any, D: Any, slot: Any) -> None:
    """Tell the engine that the lease has ended, if rule 4 of `slots` asks for it."""
    if D.s_sent[slot] == 0 or D.s_quiet[slot] == 1:
        return
    D.s_quiet[slot] = 1
    if D.role_kind[D.s_role[slot]] == KIND_HOST:
        push_order(H, D, slot, i64(0))


@dev
def send_orders(H: Any, D: Any) -> None:
    """
    Lane 0: stops of the leases that end, then the list of orders to render.
    """
    for n in range(D.live):
        slot = D.live_list[n]
        if D.s_end[slot] != 0:
            send_stop(H, D, slot)
    D.due_count = 0
    for n in range(D.live):
        slot = D.live_list[n]
        request = D.s_request[slot]
        if D.s_end[slot] != 0 or D.s_sent[slot] == 1:
            continue
        if D.r_marked[request] == 1:
            # Refused media markers: no engine sees the prompt.
            D.r_status[request] = BAD
            end_lease(D, request, FAILED)
        elif load_acquire(H.o_state, slot) == 0:
            D.due_list[D.due_count] = slot
            D.due_count += 1


@dev
def render_orders(H: Any, D: Any, B: Any, lane: Any, lanes: Any) -> None:
    """All lanes: one lane renders one order."""
    for n in range(lane, D.due_count, lanes):
        slot = D.due_list[n]
        request = D.s_request[slot]
        render_prompt(H, D, B[request]["payload"], slot, request)
        size = D.r_payload_bytes[request]
        copy_bytes(H.o_payload[slot], 0, B[request]["payload"], 0, size, 0, 1)
        H.o_payload_bytes[slot] = size
        H.o_generation[slot] = D.s_generation[slot]
        H.o_role[slot] = D.r_role[request]
        H.o_limit[slot] = D.r_limit[request]
        H.o_temperature[slot] = D.r_temperature[request]
        H.o_top_p[slot] = D.r_top_p[request]
        write_selection(H, D, slot, request)
        write_sources(H, D, slot, request)
        H.o_seed[slot] = philox_u64(D.seed_key, u64(D.r_sequence[request]))


@dev
def publish_orders(H: Any, D: Any) -> None:
    """Lane 0: hand the rendered orders to their engines."""
    for n in range(D.due_count):
        slot = D.due_list[n]
        D.s_sent[slot] = 1
        store_release(H.o_state, slot, 1)
        if D.role_kind[D.s_role[slot]] == KIND_HOST:
            push_order(H, D, slot, i64(1))


@dev
def collect(H: Any, D: Any) -> None:
    """Lane 0: handle the events of every lease that has not ended."""
    for n in range(D.live):
        slot = D.live_list[n]
        D.take_bytes[slot] = 0
        D.take_tokens[slot] = 0
        D.take_events[slot] = 0
        if D.s_end[slot] == 0:
            collect_lease(H, D, slot)
            if D.s_end[slot] != 0:
                send_stop(H, D, slot)


@dev
def _append_take(H: Any, D: Any, output: Any, slot: Any, lane: Any, lanes: Any) -> None:
    """Copy the emissions of the slot's take, one by one: late events may be between."""
    total = D.r_total[D.s_request[slot]]
    left = D.take_bytes[slot] + i64(0)
    start = H.e_bytes_head[slot]
    ring = H.e_data[slot]
    for n in range(D.take_events[slot]):
        at = (H.e_head[slot] + n) & (EVENTS - 1)
        size = H.e_size[slot][at]
        ours = H.e_generation[slot][at] == D.s_generation[slot]
        # What is left is less than an emission that was at fault.
        if ours and H.e_kind[slot][at] == EV_EMIT and size <= left:
            begin = start & (EVENT_BYTES - 1)
            first = min(size, EVENT_BYTES - begin)
            copy_bytes(output, total, ring, begin, first, lane, lanes)
            copy_bytes(output, total + first, ring, 0, size - first, lane, lanes)
            total += size
            left -= size
        start += size


@dev
def append(H: Any, D: Any, B: Any, lane: Any, lanes: Any) -> None:
    """All lanes: copy the takes behind what the results hold."""
    for n in range(D.live):
        slot = D.live_list[n]
        if D.take_bytes[slot] == 0:
            continue
        request = D.s_request[slot]
        output = B[request]["output"]
        if D.role_kind[D.s_role[slot]] == KIND_KERNEL:
            total, size = D.r_total[request], D.take_bytes[slot]
            copy_bytes(output, total, D.k_out[slot], 0, size, lane, lanes)
        else:
            _append_take(H, D, output, slot, lane, lanes)


@dev
def _give_back(H: Any, D: Any, slot: Any) -> None:
    """Free the ring entries that were handled; wake a writer that waits for room."""
    if D.take_events[slot] == 0:
        return
    head = H.e_head[slot]
    size = i64(0)
    for n in range(D.take_events[slot]):
        size += H.e_size[slot][(head + n) & (EVENTS - 1)]
    H.e_bytes_head[slot] = H.e_bytes_head[slot] + size
    store_release(H.e_head, slot, head + D.take_events[slot])


@dev
def commit(H: Any, D: Any) -> None:
    """Lane 0: make this tick's output visible and end what ended, by ascending slot."""
    for n in range(D.live):
        slot = D.live_list[n]
        request = D.s_request[slot]
        _give_back(H, D, slot)
        if D.take_bytes[slot] > 0:
            D.r_total[request] += D.take_bytes[slot]
            note_change(D, request)
        D.r_sampled[request] += D.take_tokens[slot]
        if load_acquire(H.e_wait, slot) == 1:
            store_release(H.e_wait, slot, 0)
            D.ring_engines = 1
        if D.s_end[slot] != 0:
            end_request(D, request, D.s_end[slot])
            free_slot(D, slot)
