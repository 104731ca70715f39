"""
Slots and leases (`device.md` §9): the work step, orders, events and the commit.

Rules:
1. Slot 0 is never leased. The lowest free slot is taken first; queued requests go in
   ascending admission number, a role at its engine's capacity holding back nobody else.
2. A lease raises the slot's generation; events of another generation are dropped [D4].
3. What ends a lease only notes it: `s_end` holds the terminal phase, the commit of the
   tick makes the transition in ascending slot order and frees the slot.
4. A stop is sent once, and only to an engine that was given the order and has not ended
   the lease itself (`s_sent`, `s_quiet`). One that was lost is no exception: it may be
   back before its host has taken the order.
5. A take is whole emissions of one lease, at most TAKE_BYTES_MAX bytes unless it is one
   emission; one that does not fit the output is discarded whole [D5].
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import (
    BITMAP_WORDS,
    bitmap_clear,
    bitmap_from,
    bitmap_set,
)
from twisted_aotx.device.controls import control_available
from twisted_aotx.device.numbers import (
    CANCELLED,
    EXPIRED,
    FAILED,
    FORBIDDEN,
    PREPARING,
    QUEUED,
    UNAVAILABLE,
)
from twisted_aotx.device.progress import note_change
from twisted_aotx.device.requests import (
    LIST_ACTIVE,
    end_request,
    fail_queue,
    queue_remove,
)
from twisted_aotx.device.roles import ROLE_FIRST, ROLE_LAST, look_at_engines
from twisted_aotx.limits import Capacities


def slot_fields(capacities: Capacities) -> list[Any]:
    """
    One column per field of a slot, bitmaps of free and live slots, this tick's lists.
    """
    slots = (capacities.slots,)
    columns = (
        "s_request s_generation s_role s_opened s_sent s_quiet s_end s_tokens "
        "take_bytes take_tokens take_events live_list due_list"
    )
    return [
        *((name, "<i8", slots) for name in columns.split()),
        ("slots_free", "<u8", (BITMAP_WORDS + 1,)),
        ("slots_live", "<u8", (BITMAP_WORDS + 1,)),
        ("live", "<i8"),
        ("due_count", "<i8"),
        ("dropped_events", "<i8"),
    ]


@dev
def reset_slots(D: Any) -> None:
    """All slots but 0 are free. Start only."""
    for slot in range(D.slots):
        D.s_request[slot] = -1
        if slot > 0:
            bitmap_set(D.slots_free, slot)


@dev
def end_lease(D: Any, request: Any, phase: Any) -> None:
    """Note that the lease of *request* ends with *phase*; the first note stays."""
    slot = D.r_slot[request]
    if D.s_end[slot] == 0:
        D.s_end[slot] = phase


@dev
def cancel_active(D: Any, request: Any, status: Any) -> None:
    """
    Cancel an active request for a reason of ours: the first status stays, and so does
    what has already ended its lease in this tick.
    """
    if D.r_phase[request] != QUEUED and D.s_end[D.r_slot[request]] != 0:
        return
    if D.r_status[request] == 0:
        D.r_status[request] = status
    D.r_cancel[request] = 1
    if D.r_phase[request] == QUEUED:
        end_request(D, request, CANCELLED)
    else:
        end_lease(D, request, CANCELLED)


@dev
def _lose_engines(D: Any, lost: Any) -> None:
    """End the leases of the roles in the mask *lost* and fail their queues with 503."""
    slot = bitmap_from(D.slots_live, i64(0))
    while slot >= 0:
        if (lost >> D.s_role[slot]) & 1 == 1:
            request = D.s_request[slot]
            if D.r_phase[request] == PREPARING:
                if D.r_status[request] == 0:
                    D.r_status[request] = UNAVAILABLE
                end_lease(D, request, FAILED)
            else:
                cancel_active(D, request, UNAVAILABLE)
        slot = bitmap_from(D.slots_live, slot + 1)
    for role in range(ROLE_FIRST, ROLE_LAST + 1):
        if (lost >> role) & 1 == 1:
            fail_queue(D, role)


@dev
def _revoke(D: Any) -> None:
    """Cancel every active request of an old revision; once per replacement."""
    if D.g_changed == 0:
        return
    D.g_changed = 0
    request = D.r_head[LIST_ACTIVE]
    while request >= 0:
        after = D.r_next[request]
        if D.r_revision[request] != D.g_revision:
            cancel_active(D, request, FORBIDDEN)
        request = after


@dev
def _expire(D: Any) -> None:
    """Cancel the overdue; the active list is in the order of deadlines."""
    request = D.r_head[LIST_ACTIVE]
    while request >= 0 and D.now - D.r_open[request] > D.request_ns:
        after = D.r_next[request]
        cancel_active(D, request, EXPIRED)
        request = after


@dev
def next_queued(D: Any) -> Any:
    """The queued request with the lowest admission number that may start, or -1."""
    best = i64(-1)
    for role in range(ROLE_FIRST, ROLE_LAST + 1):
        request = D.q_head[role]
        if request < 0 or D.role_leases[role] >= D.role_capacity[role]:
            continue
        if best < 0 or D.r_sequence[request] < D.r_sequence[best]:
            best = request
    return best


@dev
def start_lease(D: Any, slot: Any, request: Any) -> None:
    """Queued → preparing in *slot*."""
    queue_remove(D, request)
    bitmap_clear(D.slots_free, slot)
    bitmap_set(D.slots_live, slot)
    D.r_phase[request] = PREPARING
    note_change(D, request)
    D.r_slot[request] = slot
    D.s_request[slot] = request
    D.s_generation[slot] += 1
    D.s_role[slot] = D.r_role[request]
    D.s_opened[slot] = 0
    D.s_sent[slot] = 0
    D.s_quiet[slot] = 0
    D.s_end[slot] = 0
    D.s_tokens[slot] = 0
    D.role_leases[D.r_role[request]] += 1


@dev
def _lease(D: Any) -> None:
    """
    Give queued requests every free slot that they may have.

    One whose selection was withdrawn fails at its turn and takes no slot.
    """
    while D.queued > 0:
        slot = bitmap_from(D.slots_free, i64(0))
        if slot < 0:
            return
        request = next_queued(D)
        if request < 0:
            return
        control = D.r_control[request]
        if control >= 0 and control_available(D, control) == 0:
            D.r_status[request] = UNAVAILABLE
            end_request(D, request, FAILED)
        else:
            start_lease(D, slot, request)


@dev
def list_live(D: Any) -> None:
    """Write the live slots in ascending order to `live_list`."""
    D.live = 0
    slot = bitmap_from(D.slots_live, i64(0))
    while slot >= 0:
        D.live_list[D.live] = slot
        D.live += 1
        slot = bitmap_from(D.slots_live, slot + 1)


@dev
def work(H: Any, D: Any) -> None:
    """
    Lane 0: engine losses, revocation, deadlines, leases (explicit cancels were noted).
    """
    lost = look_at_engines(H, D)
    if lost != 0:
        _lose_engines(D, lost)
    _revoke(D)
    _expire(D)
    _lease(D)
    list_live(D)


@dev
def free_slot(D: Any, slot: Any) -> None:
    """The lease ended: the slot can be leased in the next work step."""
    D.role_leases[D.s_role[slot]] -= 1
    D.s_request[slot] = -1
    bitmap_clear(D.slots_live, slot)
    bitmap_set(D.slots_free, slot)
