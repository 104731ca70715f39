"""
The request table: entries, their index, lists and phases (`device.md` §4, §9).

Rules:
1. An entry is in exactly one list: free, active (in admission order) or ended (in the
   order of its terminal transition; its head is the reclaim victim, D6).
2. A queued entry is also in the queue of its role, in admission order.
3. (principal, request id) finds the entry through a keyed hash index [D6]; an entry
   that is not free is in the index.
4. Phases change only in `admit_request`, `start_lease` (slots), `run_request` and
   `end_request`. Terminal phases never change; output only grows.
5. The first status stays, except that an explicit cancel writes 409.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import keyed_hash
from twisted_aotx.device.grants import count_active
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.numbers import (
    CANCELLED,
    FAILED,
    FREE,
    QUEUED,
    RUNNING,
    UNAVAILABLE,
)
from twisted_aotx.device.progress import note_change
from twisted_aotx.device.source_leases import lease_fields, release_sources
from twisted_aotx.device.usage import record_usage, usage_room
from twisted_aotx.limits import (
    PAYLOAD_BYTES_MAX,
    PAYLOAD_OVERHEAD_BYTES_MAX,
    ROLE_COUNT,
    Capacities,
)

LIST_FREE = 0
LIST_ACTIVE = 1
LIST_ENDED = 2


def payload_bytes_max(capacities: Capacities) -> int:
    """The longest SUBMIT payload whose rendering can fit the prompt bytes."""
    return min(PAYLOAD_BYTES_MAX, capacities.prompt_bytes + PAYLOAD_OVERHEAD_BYTES_MAX)


def request_fields(capacities: Capacities) -> list[Any]:
    """One column per field of an entry, then index and list heads."""
    count = capacities.requests
    entries = (count,)
    columns = (
        "r_phase r_role r_limit r_pages r_temperature r_top_p r_open r_changed "
        "r_sequence r_slot r_payload_bytes r_rendered_bytes r_marked r_total "
        "r_prompt_tokens r_sampled r_finish r_status r_cancel r_control r_dose "
        "r_prev r_next q_prev q_next x_next"
    )
    return [
        *((name, "<i8", entries) for name in columns.split()),
        ("r_principal", "<u8", (count, 2)),
        ("r_id", "<u8", (count, 2)),
        ("r_revision", "<u8", entries),
        # entry + 1 of the first entry in a bucket; 0 is none
        ("x_bucket", "<i8", (power_of_two(2 * count),)),
        ("r_head", "<i8", (3,)),
        ("r_tail", "<i8", (3,)),
        ("q_head", "<i8", (ROLE_COUNT,)),
        ("q_tail", "<i8", (ROLE_COUNT,)),
        ("queued", "<i8"),
        ("sequence", "<i8"),
        # queued, preparing or running
        ("active", "<i8"),
        *lease_fields(capacities),
    ]


def bulk_fields(capacities: Capacities) -> list[Any]:
    """What one entry keeps in bulk: its SUBMIT payload and its output."""
    return [
        ("payload", "u1", (payload_bytes_max(capacities),)),
        ("output", "u1", (capacities.output_bytes,)),
    ]


@dev
def list_append(D: Any, which: Any, entry: Any) -> None:
    """Put *entry* at the end of list *which*."""
    tail = D.r_tail[which]
    D.r_prev[entry] = tail
    D.r_next[entry] = -1
    if tail < 0:
        D.r_head[which] = entry
    else:
        D.r_next[tail] = entry
    D.r_tail[which] = entry


@dev
def list_remove(D: Any, which: Any, entry: Any) -> None:
    """Take *entry* out of list *which*."""
    before = D.r_prev[entry]
    after = D.r_next[entry]
    if before < 0:
        D.r_head[which] = after
    else:
        D.r_next[before] = after
    if after < 0:
        D.r_tail[which] = before
    else:
        D.r_prev[after] = before


@dev
def queue_append(D: Any, entry: Any) -> None:
    """Put *entry* at the end of its role's queue."""
    role = D.r_role[entry]
    tail = D.q_tail[role]
    D.q_prev[entry] = tail
    D.q_next[entry] = -1
    if tail < 0:
        D.q_head[role] = entry
    else:
        D.q_next[tail] = entry
    D.q_tail[role] = entry
    D.queued += 1


@dev
def queue_remove(D: Any, entry: Any) -> None:
    """Take *entry* out of its role's queue."""
    role = D.r_role[entry]
    before = D.q_prev[entry]
    after = D.q_next[entry]
    if before < 0:
        D.q_head[role] = after
    else:
        D.q_next[before] = after
    if after < 0:
        D.q_tail[role] = before
    else:
        D.q_prev[after] = before
    D.queued -= 1


@dev
def _bucket(D: Any, principal: Any, low: Any, high: Any) -> Any:
    hashed = keyed_hash(D.hash_key, principal[0], principal[1], low, high)
    return hashed & (len(D.x_bucket) - 1)


@dev
def find_request(D: Any, principal: Any, low: Any, high: Any) -> Any:
    """The entry of (principal, id), whatever its phase and revision, or -1."""
    entry = D.x_bucket[_bucket(D, principal, low, high)] - 1
    while entry >= 0:
        same_id = D.r_id[entry][0] == low and D.r_id[entry][1] == high
        owner = D.r_principal[entry]
        if same_id and owner[0] == principal[0] and owner[1] == principal[1]:
            return entry
        entry = D.x_next[entry]
    return i64(-1)


@dev
def _unindex(D: Any, entry: Any) -> None:
    principal = D.r_principal[entry]
    bucket = _bucket(D, principal, D.r_id[entry][0], D.r_id[entry][1])
    here = D.x_bucket[bucket] - 1
    if here == entry:
        D.x_bucket[bucket] = D.x_next[entry] + 1
        return
    while D.x_next[here] != entry:
        here = D.x_next[here]
    D.x_next[here] = D.x_next[entry]


@dev
def has_room(D: Any) -> Any:
    """
    1 if an entry is free or can be reclaimed and its usage will have a place, else 0.
    """
    if D.r_head[LIST_FREE] >= 0 or D.r_head[LIST_ENDED] >= 0:
        return usage_room(D)
    return i64(0)


@dev
def take_entry(D: Any, principal: Any, low: Any, high: Any) -> Any:
    """
    A free entry or the victim, indexed under (principal, id) and active.

    Only after `has_room` said so.
    """
    entry = D.r_head[LIST_FREE]
    if entry >= 0:
        list_remove(D, LIST_FREE, entry)
    else:
        entry = D.r_head[LIST_ENDED]
        list_remove(D, LIST_ENDED, entry)
        _unindex(D, entry)
    D.r_principal[entry][0] = principal[0]
    D.r_principal[entry][1] = principal[1]
    D.r_id[entry][0] = low
    D.r_id[entry][1] = high
    bucket = _bucket(D, principal, low, high)
    D.x_next[entry] = D.x_bucket[bucket] - 1
    D.x_bucket[bucket] = entry + 1
    list_append(D, LIST_ACTIVE, entry)
    D.active += 1
    return entry


@dev
def end_request(D: Any, entry: Any, phase: Any) -> None:
    """
    The terminal transition; status, flag and finish were set before.

    With the cancel flag set every way out leads to cancelled (`device.md` §9).
    """
    if D.r_phase[entry] == QUEUED:
        queue_remove(D, entry)
    D.r_phase[entry] = phase
    if D.r_cancel[entry] == 1:
        D.r_phase[entry] = CANCELLED
    if D.r_phase[entry] == CANCELLED or D.r_phase[entry] == FAILED:
        D.r_finish[entry] = 0
    D.r_changed[entry] = D.now
    D.r_slot[entry] = -1
    note_change(D, entry)
    count_active(D, entry, -1)
    release_sources(D, entry)
    list_remove(D, LIST_ACTIVE, entry)
    list_append(D, LIST_ENDED, entry)
    D.active -= 1
    record_usage(D, entry)


@dev
def fail_queue(D: Any, role: Any) -> None:
    """The lease check of a lost engine: all queued requests of *role* fail with 503."""
    entry = D.q_head[role]
    while entry >= 0:
        after = D.q_next[entry]
        if D.r_status[entry] == 0:
            D.r_status[entry] = UNAVAILABLE
        end_request(D, entry, FAILED)
        entry = after


@dev
def run_request(D: Any, entry: Any, prompt_tokens: Any) -> None:
    """Preparing → running."""
    D.r_phase[entry] = RUNNING
    note_change(D, entry)
    D.r_prompt_tokens[entry] = prompt_tokens


@dev
def reset_requests(D: Any) -> None:
    """Empty every list and put all entries into the free list. Start only."""
    for which in range(3):
        D.r_head[which] = -1
        D.r_tail[which] = -1
    for role in range(ROLE_COUNT):
        D.q_head[role] = -1
        D.q_tail[role] = -1
    for entry in range(D.requests):
        D.r_phase[entry] = FREE
        D.r_slot[entry] = -1
        list_append(D, LIST_FREE, entry)
