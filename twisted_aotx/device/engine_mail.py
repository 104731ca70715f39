"""
Slot mailboxes: orders from the device to an engine, events from an engine to the
device.

The protocol is the one of the peers' mailboxes, per slot and in both directions:
1. `o_state[slot]` is 0 while the device owns the open order, 1 while the engine does.
   The engine copies the order and gives it back.
2. The order ring tells engines on the host what was sent, in order: (slot, generation,
   role, 1 for an open or 0 for a stop). A slot has at most one open and two stops on
   the way, so a ring of four entries per slot is never full.
3. Events of a slot are a ring of EVENTS entries and EVENT_BYTES bytes with one writer
   and one reader. `e_wait[slot]` says that the writer found it full and waits for room.
4. Every order and event carries the lease's generation [D4].
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
from twisted_aotx.device.bits import read64
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.numbers import (
    EVENT_BYTES,
    EVENTS,
    WORD_ORDER_HEAD,
    WORD_ORDER_TAIL,
)
from twisted_aotx.device.requests import payload_bytes_max
from twisted_aotx.device.source_index import DIGEST_BYTES
from twisted_aotx.device.source_leases import SOURCE_WORDS, order_fields
from twisted_aotx.limits import SPANS_MAX, Capacities


def host_fields(capacities: Capacities) -> list[Any]:
    """Orders, the order ring, events: one column per field, indexed by slot."""
    count = capacities.slots
    slots = (count,)
    order = (
        "o_state o_generation o_role o_limit o_temperature o_top_p "
        "o_rendered_bytes o_span_count o_payload_bytes"
    )
    events = "e_tail e_head e_bytes_tail e_bytes_head e_wait"
    return [
        *((name, "<i8", slots) for name in order.split()),
        ("o_seed", "<u8", slots),
        ("o_rendered", "u1", (count, capacities.prompt_bytes)),
        ("o_span_end", "<i4", (count, SPANS_MAX)),
        ("o_span_class", "u1", (count, SPANS_MAX)),
        ("o_payload", "u1", (count, payload_bytes_max(capacities))),
        *order_fields(capacities),
        ("order_ring", "<i8", (power_of_two(4 * count), 4)),
        *((name, "<i8", slots) for name in events.split()),
        ("e_kind", "<i8", (count, EVENTS)),
        ("e_generation", "<i8", (count, EVENTS)),
        ("e_value", "<i8", (count, EVENTS)),
        ("e_size", "<i8", (count, EVENTS)),
        ("e_data", "u1", (count, EVENT_BYTES)),
    ]


@dev
def push_order(H: Any, D: Any, slot: Any, opens: Any) -> None:
    """Device: put an open (1) or stop (0) of the slot's lease into the order ring."""
    tail = H.word[WORD_ORDER_TAIL]
    entry = H.order_ring[tail & (len(H.order_ring) - 1)]
    entry[0] = slot
    entry[1] = D.s_generation[slot]
    entry[2] = D.s_role[slot]
    entry[3] = opens
    store_release(H.word, WORD_ORDER_TAIL, tail + 1)
    D.ring_engines = 1


@dev
def next_order(H: Any, out: Any) -> Any:
    """Engine side: copy the next ring entry to *out* (4 i64); 0 when there is none."""
    head = H.word[WORD_ORDER_HEAD]
    if head == load_acquire(H.word, WORD_ORDER_TAIL):
        return i64(0)
    entry = H.order_ring[head & (len(H.order_ring) - 1)]
    for k in range(4):
        out[k] = entry[k]
    store_release(H.word, WORD_ORDER_HEAD, head + 1)
    return i64(1)


@dev
def copy_order(
    H: Any,
    slot: Any,
    numbers: Any,
    rendered: Any,
    spans: Any,
    payload: Any,
    sources: Any,
    digests: Any,
) -> Any:
    """
    Engine side: copy the open order of *slot* and give the mailbox back.

    Args:
        numbers: (15,) u64, receives generation, role, limit, temperature bits, top_p
            bits, seed, rendered bytes, span count, payload bytes, the selection's dose
            as u32 (0: none) and the four words of its digest, the number of sources.
        rendered, payload: u8 buffers of 65,408 bytes.
        spans: (SPANS_MAX, 2) i64, receives (end, class).
        sources: (REFERENCES_MAX, SOURCE_WORDS) i64 and digests (REFERENCES_MAX, 32) u8,
            receive the sources in order of reference.

    Returns 1, or 0 when there is no order.
    """
    if load_acquire(H.o_state, slot) != 1:
        return i64(0)
    numbers[0] = H.o_generation[slot]
    numbers[1] = H.o_role[slot]
    numbers[2] = H.o_limit[slot]
    numbers[3] = H.o_temperature[slot]
    numbers[4] = H.o_top_p[slot]
    numbers[5] = H.o_seed[slot]
    numbers[6] = H.o_rendered_bytes[slot]
    numbers[7] = H.o_span_count[slot]
    numbers[8] = H.o_payload_bytes[slot]
    numbers[9] = u64(H.o_dose[slot] & 0xFFFFFFFF)
    for k in range(4):
        numbers[10 + k] = read64(H.o_qualification[slot], 8 * k)
    size = H.o_rendered_bytes[slot]
    copy_bytes(rendered, 0, H.o_rendered[slot], 0, size, 0, 1)
    for k in range(H.o_span_count[slot]):
        spans[k][0] = H.o_span_end[slot][k]
        spans[k][1] = H.o_span_class[slot][k]
    numbers[14] = H.o_source_count[slot]
    for n in range(H.o_source_count[slot]):
        for k in range(SOURCE_WORDS):
            sources[n, k] = H.o_source[slot, n, k]
        for k in range(DIGEST_BYTES):
            digests[n, k] = H.o_source_digest[slot, n, k]
    size = H.o_payload_bytes[slot]
    copy_bytes(payload, 0, H.o_payload[slot], 0, size, 0, 1)
    store_release(H.o_state, slot, 0)
    return i64(1)


@dev
def post_event(
    H: Any, slot: Any, generation: Any, kind: Any, value: Any, data: Any, size: Any
) -> Any:
    """
    Engine side: append an event with *size* bytes of *data*.

    Returns 1, or 0 when the ring has no room: nothing was written, `e_wait` is set.
    """
    tail = H.e_tail[slot]
    bytes_tail = H.e_bytes_tail[slot]
    head = load_acquire(H.e_head, slot)
    if tail - head >= EVENTS or bytes_tail + size - H.e_bytes_head[slot] > EVENT_BYTES:
        store_release(H.e_wait, slot, 1)
        return i64(0)
    at = tail & (EVENTS - 1)
    H.e_kind[slot][at] = kind
    H.e_generation[slot][at] = generation
    H.e_value[slot][at] = value
    H.e_size[slot][at] = size
    start = bytes_tail & (EVENT_BYTES - 1)
    first = min(size, EVENT_BYTES - start)
    copy_bytes(H.e_data[slot], start, data, 0, first, 0, 1)
    copy_bytes(H.e_data[slot], 0, data, first, size - first, 0, 1)
    H.e_bytes_tail[slot] = bytes_tail + size
    store_release(H.e_tail, slot, tail + 1)
    return i64(1)
