"""
Progress notices: which requests got output or another phase in a tick, for who waits.

Rules:
1. A notice decides nothing and holds no output: principal, id, total bytes, phase. Who
   gets one asks the device with a READ, where everything is checked as always.
2. Nobody is told anything, and nothing is listed, while `WORD_WATCHED` is 0.
3. What changed is noted where it changes and listed once a tick, so the cost follows
   the changes, not the capacities [D6].
4. The ring has one writer and one reader. A notice that finds it full is dropped and
   counted in `WORD_NOTICE_LOST`: a reader that sees the count grow knows that
   anything may have changed.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, load_acquire, store_release, u64
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.numbers import (
    WORD_NOTICE_HEAD,
    WORD_NOTICE_LOST,
    WORD_NOTICE_TAIL,
)
from twisted_aotx.limits import NOTICES_PER_SLOT, Capacities

#: Words of a notice: principal 2, id 2, total bytes, phase.
NOTICE_WORDS = 6


def host_fields(capacities: Capacities) -> list[Any]:
    """The ring."""
    entries = power_of_two(capacities.slots * NOTICES_PER_SLOT)
    return [("notice_ring", "<u8", (entries, NOTICE_WORDS))]


def device_fields(capacities: Capacities) -> list[Any]:
    """Whether anybody watches, and this tick's changed requests, each marked."""
    entries = (capacities.requests,)
    return [
        ("watched", "<i8"),
        ("changed", "<i8"),
        ("changed_list", "<i8", entries),
        ("r_noted", "<i8", entries),
    ]


@dev
def note_change(D: Any, entry: Any) -> None:
    """The request's output or phase has changed, or will have when the tick ends."""
    if D.watched == 0 or D.r_noted[entry] == 1:
        return
    D.r_noted[entry] = 1
    D.changed_list[D.changed] = entry
    D.changed += 1


@dev
def publish_notices(H: Any, D: Any) -> None:
    """Lane 0, after the commit: a notice for each request that changed."""
    if D.changed == 0:
        return
    tail = H.word[WORD_NOTICE_TAIL]
    end = load_acquire(H.word, WORD_NOTICE_HEAD) + len(H.notice_ring)
    for n in range(D.changed):
        entry = D.changed_list[n]
        D.r_noted[entry] = 0
        if tail == end:
            lost = H.word[WORD_NOTICE_LOST] + 1
            store_release(H.word, WORD_NOTICE_LOST, lost)
            continue
        row = H.notice_ring[tail & (len(H.notice_ring) - 1)]
        row[0] = D.r_principal[entry][0]
        row[1] = D.r_principal[entry][1]
        row[2] = D.r_id[entry][0]
        row[3] = D.r_id[entry][1]
        row[4] = u64(D.r_total[entry])
        row[5] = u64(D.r_phase[entry])
        tail += 1
    D.changed = 0
    D.ring_broker = 1
    store_release(H.word, WORD_NOTICE_TAIL, tail)


@dev
def take_notices(H: Any, out: Any) -> Any:
    """
    Host: copy the next notices to *out* ((n, NOTICE_WORDS) u64); how many they were.
    """
    head = H.word[WORD_NOTICE_HEAD]
    tail = load_acquire(H.word, WORD_NOTICE_TAIL)
    count = i64(0)
    while head < tail and count < len(out):
        row = H.notice_ring[head & (len(H.notice_ring) - 1)]
        for k in range(NOTICE_WORDS):
            out[count][k] = row[k]
        head += 1
        count += 1
    store_release(H.word, WORD_NOTICE_HEAD, head)
    return count


@dev
def notices_lost(H: Any) -> Any:
    """Host: how many notices found the ring full so far."""
    return i64(load_acquire(H.word, WORD_NOTICE_LOST))
