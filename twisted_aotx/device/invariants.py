"""
What must hold in every table after every tick, as sentences (tests and the simulation).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted_aotx.device.bits import BITMAP_WORDS
from twisted_aotx.device.media_invariants import find_media_violations
from twisted_aotx.device.numbers import (
    COMPLETED,
    FREE,
    PREPARING,
    QUEUED,
    RUNNING,
)
from twisted_aotx.device.requests import LIST_ACTIVE, LIST_ENDED, LIST_FREE
from twisted_aotx.limits import ROLE_COUNT

_ACTIVE = (QUEUED, PREPARING, RUNNING)


def _walk(D: Any, head: int, link: str) -> list[int]:
    entries: list[int] = []
    while head >= 0 and len(entries) <= int(D["requests"]):
        entries.append(head)
        head = int(D[link][head])
    return entries


def _lists(D: Any) -> Iterator[str]:
    wanted = {LIST_FREE: {FREE}, LIST_ACTIVE: set(_ACTIVE), LIST_ENDED: {4, 5, 6}}
    seen: list[int] = []
    for which, phases in wanted.items():
        entries = _walk(D, int(D["r_head"][which]), "r_next")
        seen.extend(entries)
        if entries and int(D["r_tail"][which]) != entries[-1]:
            yield f"the tail of list {which} is not its last entry"
        for entry in entries:
            if int(D["r_phase"][entry]) not in phases:
                yield f"entry {entry} of list {which} is in a phase of another list"
    if sorted(seen) != list(range(int(D["requests"]))):
        yield "not every entry is in exactly one list"
    active = _walk(D, int(D["r_head"][LIST_ACTIVE]), "r_next")
    numbers = [int(D["r_sequence"][entry]) for entry in active]
    if numbers != sorted(numbers):
        yield "the active list is not in admission order"


def _queues(D: Any) -> Iterator[str]:
    count = 0
    for role in range(ROLE_COUNT):
        entries = _walk(D, int(D["q_head"][role]), "q_next")
        count += len(entries)
        numbers = [int(D["r_sequence"][entry]) for entry in entries]
        if numbers != sorted(numbers):
            yield f"the queue of role {role} is not in admission order"
        for entry in entries:
            if int(D["r_phase"][entry]) != QUEUED or int(D["r_role"][entry]) != role:
                yield f"entry {entry} does not belong into the queue of role {role}"
    queued = int((D["r_phase"] == QUEUED).sum())
    if count != queued or int(D["queued"]) != queued:
        yield "the queues do not hold exactly the queued requests"


def _index(D: Any) -> Iterator[str]:
    found: list[int] = []
    for bucket in D["x_bucket"][D["x_bucket"] > 0]:
        found.extend(_walk(D, int(bucket) - 1, "x_next"))
    taken = [n for n in range(int(D["requests"])) if int(D["r_phase"][n]) != FREE]
    if sorted(found) != taken:
        yield "the index does not hold exactly the entries that are not free"
    keys = {(*map(int, D["r_principal"][n]), *map(int, D["r_id"][n])) for n in taken}
    if len(keys) != len(taken):
        yield "two entries have the same principal and id"


def _quotas(D: Any) -> Iterator[str]:
    table = int(D["g_table"])
    for row in range(int(D["g_rows"][table])):
        owner = tuple(D["g_id"][table][row])
        count = sum(
            tuple(D["r_principal"][n]) == owner and int(D["r_phase"][n]) in _ACTIVE
            for n in range(int(D["requests"]))
        )
        if int(D["g_active"][table][row]) != count:
            counted = int(D["g_active"][table][row])
            yield f"grant row {row} counts {counted} active requests, not {count}"


def _members(words: Any) -> set[int]:
    return {
        64 * at + bit
        for at, word in enumerate(map(int, words[:BITMAP_WORDS]))
        if word
        for bit in range(64)
        if word >> bit & 1
    }


def _leases(D: Any) -> Iterator[str]:
    live = _members(D["slots_live"])
    free = _members(D["slots_free"])
    if live & free or live | free != set(range(1, int(D["slots"]))):
        yield "slots 1 and above are not each either free or live"
    leases = [0] * ROLE_COUNT
    for slot in live:
        request = int(D["s_request"][slot])
        leases[int(D["s_role"][slot])] += 1
        if request < 0 or int(D["r_slot"][request]) != slot:
            yield f"slot {slot} is live without a request of its own"
        elif int(D["r_phase"][request]) not in (PREPARING, RUNNING):
            yield f"the request of slot {slot} is neither preparing nor running"
    for role in range(ROLE_COUNT):
        if leases[role] != int(D["role_leases"][role]):
            counted = int(D["role_leases"][role])
            yield f"role {role} counts {counted} leases, not {leases[role]}"
        if leases[role] > int(D["role_capacity"][role]):
            yield f"role {role} holds more leases than its capacity"


def _entries(D: Any) -> Iterator[str]:
    for n in range(int(D["requests"])):
        phase = int(D["r_phase"][n])
        if phase == FREE:
            continue
        if (int(D["r_slot"][n]) >= 0) != (phase in (PREPARING, RUNNING)):
            yield f"entry {n} in phase {phase} has slot {D['r_slot'][n]}"
        if int(D["r_total"][n]) > int(D["output_bytes"]):
            yield f"entry {n} holds more output than fits"
        if int(D["r_sampled"][n]) > int(D["r_limit"][n]):
            yield f"entry {n} sampled more tokens than its limit"
        if int(D["r_finish"][n]) != 0 and phase != COMPLETED:
            yield f"entry {n} has a finish but did not complete"


def _usage(D: Any) -> Iterator[str]:
    active = sum(int(phase) in _ACTIVE for phase in D["r_phase"])
    pending = int(D["completions"]) - int(D["frontier"])
    if int(D["active"]) != active:
        yield f"{int(D['active'])} active requests are counted, not {active}"
    if not 0 <= pending <= len(D["v_role"]) - active:
        yield f"{pending} usage records leave no room for {active} active requests"
    if int(D["policy_batch"]) + int(D["policy_recording"]) > pending:
        yield "a batch holds more usage records than are pending"


def _ledger(D: Any) -> Iterator[str]:
    found: list[int] = []
    for bucket in D["ledger_bucket"][D["ledger_bucket"] > 0]:
        row = int(bucket) - 1
        while row >= 0 and len(found) <= len(D["ledger_next"]):
            found.append(row)
            row = int(D["ledger_next"][row])
    rows = list(range(1, int(D["ledger_rows"]) + 1))
    if sorted(found) != rows:
        yield "the ledger's index does not hold exactly the rows in use"
    if len({tuple(map(int, D["ledger_key"][row])) for row in rows}) != len(rows):
        yield "two rows of the ledger have the same principal and model"
    total = sum(map(int, D["ledger_requests"])) - int(D["ledger_base"])
    if (total - int(D["policy_reviewed"])) % (1 << 64):
        yield f"the ledger grew by {total} requests, not {int(D['policy_reviewed'])}"
    counted = int(D["policy_completed"]) + int(D["policy_refused"])
    if not int(D["policy_broken"]) and counted != int(D["policy_reviewed"]):
        yield f"{counted} reviewed records are counted"


def find_violations(D: Any) -> list[str]:
    """
    Check a snapshot of region D (one record); every broken invariant as a sentence.
    """
    checks = (
        *(_lists, _queues, _index, _quotas, _leases, _entries),
        *(_usage, _ledger),
        find_media_violations,
    )
    return [sentence for check in checks for sentence in check(D)]
