"""
The invariants notice when a table is not what it should be: one word at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.uploading import (
    WAV_FILE,
    begin,
    end,
    make_ready,
    question,
    reference,
    seeing_engine,
)
from tests.device.driver import Driver
from tests.device.making import EPOCH, HASH_KEY, P1, SEED_KEY, grant, new_device
from tests.device.model import Oracle
from tests.device.pair import Pair
from tests.media_made import make_jpeg
from twisted_aotx.device.invariants import find_violations
from twisted_aotx.device.requests import LIST_ACTIVE, LIST_ENDED
from twisted_aotx.device.source_lists import M_RECEIVING, M_REFUSED

Where = Callable[[Any], Any]


def a(column: str, value: int) -> Where:
    """The first row whose *column* is *value*."""
    return lambda D: next(n for n, x in enumerate(D[column]) if int(x) == value)


def of(column: str, row: int) -> Where:
    """The row that *column* names."""
    return lambda D: int(D[column][row])


def head(column: str) -> Where:
    """The row that a column of one word names."""
    return lambda D: int(D[column])


def at(*where: int) -> Where:
    return lambda D: where if len(where) > 1 else where[0]


def taken(pool: int) -> Where:
    return lambda D: (pool, int(D["p_head"][pool]))


def more(word: int) -> int:
    return word + 1


def to(value: int) -> Callable[[int], int]:
    return lambda word: value


def alone(D: Any) -> None:
    """A column that is one word."""


WAITS, PREPARES, RUNS, FAILED = 1, 2, 3, 5
RECEIVING, HASHING, READY = 1, 2, 6
FREE, PENDING, CACHED = 0, 1, 2

#: What is told, the column that is broken, which word of it, and how.
CASES: tuple[tuple[str, str, Where, Callable[[int], int]], ...] = (
    ("the tail of list 1", "r_tail", at(LIST_ACTIVE), to(0)),
    ("of list 2 is in a phase of another", "r_phase", of("r_head", LIST_ENDED), to(3)),
    ("not every entry is in exactly one list", "r_head", at(LIST_ENDED), to(-1)),
    ("the active list is not in", "r_sequence", of("r_head", LIST_ACTIVE), to(99)),
    ("the queue of role 2 is not in", "r_sequence", of("q_head", 2), to(99)),
    ("does not belong into the queue", "r_role", a("r_phase", WAITS), to(3)),
    ("exactly the queued requests", "queued", alone, more),
    ("the index does not hold exactly", "r_phase", a("r_phase", FAILED), to(0)),
    ("active requests, not", "g_active", at(1, 0), more),
    ("either free or live", "slots_free", at(0), to(0)),
    ("live without a request of its own", "r_slot", a("r_phase", RUNS), to(7)),
    ("neither preparing nor running", "r_phase", a("r_phase", RUNS), to(4)),
    ("role 2 counts", "role_leases", at(2), more),
    ("more leases than its capacity", "role_capacity", at(2), to(1)),
    ("in phase 1 has slot", "r_slot", a("r_phase", WAITS), to(3)),
    ("more output than fits", "r_total", a("r_phase", RUNS), to(8193)),
    ("more tokens than its limit", "r_sampled", a("r_phase", RUNS), to(9)),
    ("has a finish but did not", "r_finish", a("r_phase", RUNS), to(1)),
    ("active requests are counted", "active", alone, more),
    ("usage records leave no room", "frontier", alone, to(99)),
    ("more usage records than are pending", "policy_batch", alone, to(99)),
    ("the ledger's index", "ledger_rows", alone, more),
    ("the ledger grew by", "ledger_requests", at(0), more),
    ("reviewed records are counted", "policy_completed", alone, more),
    ("the tail of source list 5", "m_tail", at(M_REFUSED), more),
    ("of list 1 is in phase 6", "m_phase", of("m_head", M_RECEIVING), to(READY)),
    ("not every descriptor is in exactly", "m_head", at(M_REFUSED), to(-1)),
    ("the turns of the hash stage", "m_hashes", a("m_phase", READY), to(1)),
    ("begins in another", "p_at", taken(0), to(-1)),
    ("a span is beyond pool 0", "p_size", at(0), to(1)),
    ("pool 2 counts", "p_used", at(2), more),
    ("pool 2 does not hold exactly its spans", "p_head", at(2), to(-1)),
    ("the live sources have bytes", "m_phase", a("m_phase", RECEIVING), to(7)),
    ("not its own number", "m_rows", a("m_phase", READY), more),
    ("received more bytes", "m_received", a("m_phase", RECEIVING), to(1 << 20)),
    ("is free or not", "a_free", alone, to(-1)),
    ("the list of owner 0", "a_head", at(0), to(-1)),
    ("owner 0 counts (", "a_bytes", at(0), more),
    ("owner 0 counts", "a_names", at(0), more),
    ("cached refusals", "a_cached", at(0), more),
    ("the index of names", "n_next", a("m_phase", READY), to(15)),
    ("a transfer id twice", "n_id", at(1, 1), to(1 << 56)),
    ("the index of digests", "m_removals", a("m_phase", READY), more),
    ("not in the order of their deadlines", "u_deadline", head("u_head"), to(1 << 60)),
    ("the list of receipts in state 0", "u_free", alone, to(-1)),
    ("do not know each other", "m_receipt", a("m_phase", RECEIVING), to(9)),
    ("has a source in another", "u_state", a("u_state", PENDING), to(CACHED)),
    ("leases", "m_leases", a("m_phase", READY), more),
    ("is leased and not ready", "m_phase", a("m_leases", 1), to(5)),
    ("the counts of live and busy", "media_busy", alone, more),
    ("busy workers of pool 1", "image_workers", alone, more),
)


@pytest.fixture(scope="module")
def tables() -> Any:
    """Requests and sources of every kind, none of them wrong."""
    engine = seeing_engine()
    device = new_device(SMALL, [engine])
    oracle = Oracle(
        SMALL, epoch=EPOCH, hash_key=HASH_KEY, seed_key=SEED_KEY, engines=[engine]
    )
    driver = Driver(Pair(device, oracle), SMALL)
    row = grant(P1, actions=3, requests=16, media=16, media_bytes=1 << 20)
    assert driver.install(row) == 200
    make_ready(driver, 1, WAV_FILE)
    for number in (2, 3):
        assert begin(driver, number, make_jpeg())[0] == 200
    for number in (4, 5):
        assert begin(driver, number, WAV_FILE)[0] == 200
        assert end(driver, number, 0)[0] == 400
    driver.submit(1, payload=question(reference(WAV_FILE)))
    for number in range(2, 9):
        driver.submit(number)
    first, second, *_ = driver.opens()
    driver.open_one(first)
    driver.report(second, 4, 1)
    driver.step()
    found = device.snapshot()
    assert find_violations(found) == []
    device.free()
    return found


@pytest.mark.parametrize(("told", "column", "where", "change"), CASES)
def test_one_word_is_wrong(
    tables: Any, told: str, column: str, where: Where, change: Callable[[int], int]
) -> None:
    D = tables.copy()
    index = where(D)
    if index is None:
        D[column] = change(int(D[column]))
    else:
        D[column][index] = change(int(D[column][index].flat[0]))

    assert [sentence for sentence in find_violations(D) if told in sentence]
