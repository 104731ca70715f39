"""
What engines report, at its limits and out of order (`device.md` §9, §10, D5, D8).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start, result, started
from tests.device.driver import Driver
from tests.device.making import (
    DONE,
    EMIT,
    FAILED,
    OPENED,
    P1,
    P2,
    REFUSED,
    grant,
    kernel_engine,
    played_engine,
)
from tests.device.stepped import HasFacts
from twisted_aotx.limits import EVENTS_PER_SLOT
from twisted_aotx.wire.numbers import Phase

TOKENS = SMALL.sequence_tokens


def test_tokens_that_do_not_fit(start: Start) -> None:
    """`device.md` §9 Tokens [D8]: at each limit and one past it."""
    driver = start()
    driver.install(
        grant(tokens=TOKENS - 1, requests=8),
        grant(P2, tokens=64, pages=2, requests=8),
    )
    cases = [
        (P1, 100, 0, False),
        (P1, 100, 1, True),
        (P1, 100, TOKENS - 100, True),
        (P1, 100, TOKENS - 99, False),
        (P1, 100, 2**31, False),
        (P2, 10, 22, True),
        (P2, 10, 23, False),
    ]
    for number, (principal, limit, tokens, fits) in enumerate(cases, start=1):
        assert driver.submit(number, principal, limit=limit) == 202
        (order,) = driver.opens()
        driver.open_one(order, tokens)
        reply = driver.read(number, principal)[0]
        stops = driver.take_orders()
        if fits:
            assert result(reply) == (Phase.RUNNING, 0, 0, 0)
            assert (reply.prompt_tokens, len(stops)) == (tokens, 0)
        else:
            assert result(reply) == (Phase.FAILED, 400, 0, 0)
            assert (reply.prompt_tokens, len(stops)) == (0, 1)


@pytest.mark.parametrize(
    ("status", "recorded"),
    [(400, 400), (413, 413), (599, 599), (399, 503), (600, 503), (0, 503), (200, 503)],
)
@pytest.mark.parametrize("kind", [REFUSED, FAILED])
def test_statuses_of_engines(
    start: Start, kind: int, status: int, recorded: int
) -> None:
    """`device.md` §10: 400..599; any other value counts as 503."""
    driver = started(start, 1)
    driver.submit(1)
    (order,) = driver.opens()
    if kind == FAILED:
        driver.open_one(order)
    driver.end(order, kind, status)
    driver.step()

    assert result(driver.read(1)[0]) == (Phase.FAILED, recorded, 0, 0)
    assert list(driver.take_orders()) == []


@pytest.mark.parametrize(
    ("reports", "stopped"),
    [
        ([(EMIT, 1, b"x")], True),
        ([(DONE, 1, b"")], False),
        ([(FAILED, 400, b"")], False),
        ([(OPENED, 5, b""), (OPENED, 5, b"")], True),
        ([(OPENED, 5, b""), (REFUSED, 400, b"")], False),
        ([(OPENED, 5, b""), (EMIT, 9, b"x")], True),
        ([(OPENED, 5, b""), (EMIT, 0, b"")], True),
        ([(OPENED, 5, b""), (DONE, 0, b"")], False),
        ([(OPENED, 5, b""), (DONE, 3, b"")], False),
    ],
)
def test_faults_of_engines(
    start: Start, reports: list[tuple[int, int, bytes]], stopped: bool
) -> None:
    """
    `device.md` §10: counts as failed(503). The engine is told to stop, except after
    `refused`, `done` and `failed`.
    """
    driver = started(start, 1)
    driver.submit(1, limit=8)
    (order,) = driver.opens()
    for kind, value, data in reports:
        driver.report(order, kind, value, data)
    driver.step()

    reply, data = driver.read(1)
    assert result(reply) == (Phase.FAILED, 503, 0, 0)
    assert (reply.sampled_tokens, data) == (0, b"")
    assert len(driver.take_orders()) == stopped


def test_what_came_before_a_fault_stays(start: Start) -> None:
    """`device.md` §9: events of one lease are handled in the order made."""
    driver = started(start, 1)
    driver.submit(1, limit=2)
    (order,) = driver.opens()
    driver.report(order, OPENED, 5)
    for _ in range(3):
        driver.report(order, EMIT, 1, b"x")
    driver.step()

    reply, data = driver.read(1)
    assert result(reply) == (Phase.FAILED, 503, 0, 0)
    assert (reply.sampled_tokens, data) == (2, b"xx")


def test_take(start: Start) -> None:
    """`device.md` §9 Take: whole emissions, at most 4,096 bytes, a first one alone."""
    driver = started(start, 1)
    driver.submit(1, limit=64)
    (order,) = driver.opens()
    driver.open_one(order)
    for size in (4000, 96, 0, 1, 5000, 1, 2000, 2000):
        driver.report(order, EMIT, 1, b"y" * size)
    driver.end(order, DONE, 2)

    totals = []
    for _ in range(6):
        driver.step()
        totals.append(driver.read(1)[0].total_bytes)

    # READ is answered before the exchange of its own tick, which takes again.
    assert totals[0] == 4096
    assert sorted(totals) == totals
    assert result(driver.read(1)[0]) == (Phase.CANCELLED, 413, 1, 0)


def test_stale_reports_take_no_room(start: Start) -> None:
    """D4: what is dropped counts neither as output nor against the take."""
    driver = started(start, 1)
    driver.submit(1, limit=64)
    driver.cancel(1)
    driver.submit(2, limit=64)
    driver.take_orders()
    driver.step()
    (order,) = driver.opens()
    driver.open_one(order)
    driver.report(order, EMIT, 1, b"x" * 4096)
    for _ in range(2):
        driver.device.report(order.slot, order.generation - 1, EMIT, 1, b"late")
    driver.end(order, DONE, 1)
    driver.step()

    reply, data = driver.read(2)
    assert result(reply) == (Phase.COMPLETED, 0, 0, 1)
    assert (data, reply.sampled_tokens) == (b"x" * 4096, 1)


@pytest.mark.parametrize("is_done", [False, True])
def test_overflow_discards_the_whole_take(start: Start, is_done: bool) -> None:
    """D5: bytes and tokens of the take; what came before stays; `done` is late."""
    driver = started(start, 1)
    driver.submit(1, limit=64)
    (order,) = driver.opens()
    driver.open_one(order)
    room = SMALL.output_bytes
    while room > 10:
        size = min(4096, room - 10)
        driver.report(order, EMIT, 1, b"a" * size)
        driver.step()
        room -= size
    for data in (b"bbbb", b"cccccc", b"d"):
        driver.report(order, EMIT, 1, data)
    if is_done:
        driver.report(order, DONE, 1)
    driver.step()

    reply, data = driver.read(1)
    assert result(reply) == (Phase.CANCELLED, 413, 1, 0)
    assert data == b"a" * (SMALL.output_bytes - 10)
    assert reply.sampled_tokens == 2
    # After `done` there is nothing to stop.
    assert len(driver.take_orders()) == (not is_done)


def test_output_that_fits_exactly(start: Start) -> None:
    """D5, at the limit."""
    driver = started(start, 1)
    driver.submit(1, limit=64)
    (order,) = driver.opens()
    driver.open_one(order)
    for size in (4096, SMALL.output_bytes - 4096 - 10):
        driver.report(order, EMIT, 1, b"a" * size)
        driver.step()
    for data in (b"bbbb", b"cccccc", b""):
        driver.report(order, EMIT, 1, data)
    driver.end(order, DONE, 1)
    driver.step()

    reply, data = driver.read(1)
    assert result(reply) == (Phase.COMPLETED, 0, 0, 1)
    assert data == b"a" * (SMALL.output_bytes - 10) + b"bbbbcccccc"
    assert reply.sampled_tokens == 5


def served_by_kernels(
    driver: Driver, number: int, meanwhile: Callable[[], object]
) -> tuple[int, tuple[int, int, int, int], bytes]:
    """Ticks, result and output of a request; *meanwhile* happens before each tick."""
    driver.submit(number, role=4, limit=64)
    for ticks in range(20):
        meanwhile()
        reply, data = driver.read(number)
        if reply.phase not in (Phase.QUEUED, Phase.PREPARING, Phase.RUNNING):
            return ticks, result(reply), data
    raise AssertionError("it does not end")


@pytest.mark.parametrize("newer", [0, 1])
@pytest.mark.parametrize("kind", [OPENED, REFUSED, EMIT, DONE, FAILED])
def test_another_engines_reports_of_a_slot_that_kernels_have(
    start: Start, kind: int, newer: int
) -> None:
    """
    D4: the slot was an engine's on the host, whose reports fill the ring and keep
    coming, of its own lease and of the one after. Nothing of it is heard.
    """
    engines: list[HasFacts] = [
        played_engine(2, capacity=1, sequence_tokens=TOKENS),
        kernel_engine(4, capacity=1, sequence_tokens=TOKENS),
    ]
    driver = start(engines=engines)
    driver.install(grant(models=0b10100, tokens=64, requests=8))
    expected = served_by_kernels(driver, 1, lambda: None)
    driver.submit(2)
    (order,) = driver.opens()
    driver.cancel(2)

    def report() -> bool:
        generation = order.generation + newer
        return driver.device.report(order.slot, generation, kind, 1, b"late")

    for _ in range(EVENTS_PER_SLOT):
        assert report()
    assert not report()

    assert served_by_kernels(driver, 3, report) == expected
    assert expected[1] == (Phase.COMPLETED, 0, 0, 2)
