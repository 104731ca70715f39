"""
Usage records: what every terminal transition leaves for the policy's review [D11].

Rules:
1. Record n is the n-th terminal transition; `completions` is the last one's number and
   `frontier` that of the last one committed or passed over. Those between are pending.
2. The ring has room for USAGE_RECORDS and one for each request entry besides; a request
   is admitted only if its record will have room (`usage_room`). So none is ever lost,
   even if all requests end in one tick or the store does not answer.
3. Only while the policy cannot be used is the oldest record passed over, once
   USAGE_RECORDS are pending.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.limits import USAGE_RECORDS, Capacities

#: Pending records at which batches no longer wait for an idle device: three quarters.
PRESSING = USAGE_RECORDS * 3 // 4


def usage_fields(capacities: Capacities) -> list[Any]:
    """One column per field of a record; record n is at n modulo the ring's size."""
    size = power_of_two(USAGE_RECORDS + capacities.requests)
    records = (size,)
    return [
        ("v_principal", "<u8", (size, 2)),
        ("v_role", "<i8", records),
        ("v_prompt", "<i8", records),
        ("v_sampled", "<i8", records),
        ("completions", "<i8"),
        ("frontier", "<i8"),
    ]


@dev
def usage_pending(D: Any) -> Any:
    """How many records wait for their review."""
    return D.completions - D.frontier


@dev
def usage_at(D: Any, number: Any) -> Any:
    """Where record *number* stands in the ring."""
    return number & (len(D.v_role) - 1)


@dev
def usage_room(D: Any) -> Any:
    """1 if one more active request may end before any record is committed, else 0."""
    if usage_pending(D) + D.active < len(D.v_role):
        return i64(1)
    return i64(0)


@dev
def record_usage(D: Any, request: Any) -> None:
    """Append what *request*, which has just ended, used."""
    D.completions += 1
    at = usage_at(D, i64(D.completions))
    D.v_principal[at][0] = D.r_principal[request][0]
    D.v_principal[at][1] = D.r_principal[request][1]
    D.v_role[at] = D.r_role[request]
    D.v_prompt[at] = D.r_prompt_tokens[request]
    D.v_sampled[at] = D.r_sampled[request]
    if D.policy_broken == 1 and usage_pending(D) > USAGE_RECORDS:
        D.frontier += 1
        D.policy_refused += 1
