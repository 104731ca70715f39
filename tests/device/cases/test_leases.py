"""
cases D: who gets a slot when, and how a lease ends (`device.md` §9, D2, D4).
"""

from __future__ import annotations

import attrs
import pytest

from tests.device.capacities import SMALL, WIDE
from tests.device.cases.starting import Start, result, started
from tests.device.driver import Driver
from tests.device.making import (
    HELLO,
    P2,
    SECOND,
    grant,
    kernel_engine,
    played_engine,
)
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.numbers import Operation, Phase
from twisted_aotx.wire.packet import join


def run_all(driver: Driver, total: int, at_once: int) -> list[int]:
    """
    Submit and serve *total* requests; the numbers in the order of their leases.

    Every request has its own output; at most *at_once* are submitted and not ended.
    """
    leased: list[int] = []
    submitted = ended = 0
    numbers: dict[tuple[int, int], int] = {}
    while ended < total:
        while submitted < total and submitted - ended < at_once:
            submitted += 1
            # The limit tells whose lease an order is.
            assert driver.submit(submitted, limit=submitted) == 202
        for order in driver.opens():
            assert order.slot != 0
            leased.append(order.limit)
            numbers[order.slot, order.generation] = order.limit
        assert len(driver.leases) <= SMALL.slots - 1
        served = list(driver.leases.values())
        # Not in slot order, and never all at once.
        for order in served[1::2] or served:
            driver.play(order, [b"output of %d" % order.limit])
            ended += 1
        driver.step()
    assert len(numbers) == total
    return leased


def test_more_requests_than_slots(start: Start) -> None:
    """cases D 61, 62: 200 requests on 8 slots, a table of 16."""
    driver = started(start, SMALL.slots - 1)

    leased = run_all(driver, 200, SMALL.requests)

    assert leased == list(range(1, 201))
    results = {number: driver.read(number) for number in range(1, 201)}
    kept = [number for number, (reply, _) in results.items() if reply.status == 200]
    # Those that ended last; what was reclaimed for them is gone.
    assert len(kept) == SMALL.requests
    for number in kept:
        reply, data = results[number]
        assert result(reply) == (Phase.COMPLETED, 0, 0, 1)
        assert data == b"output of %d" % number


@pytest.mark.slow
def test_all_queued_at_once(start: Start) -> None:
    """cases D 61: 200 queued at once for an engine of capacity 7."""
    driver = start(
        WIDE, engines=[played_engine(capacity=7, sequence_tokens=WIDE.sequence_tokens)]
    )
    driver.install(grant(tokens=300, requests=200))

    leased = run_all(driver, 200, 200)

    assert leased == list(range(1, 201))
    for number in range(1, 201):
        assert driver.read(number)[1] == b"output of %d" % number


def test_slot_is_leased_again_in_the_next_tick(start: Start) -> None:
    """cases D 61: with the next generation, the lowest free slot first."""
    driver = started(start, SMALL.slots - 1)
    for number in range(1, SMALL.requests + 1):
        driver.submit(number)
    first = driver.opens()
    assert [order.slot for order in first] == list(range(1, SMALL.slots))
    for order in (first[5], first[2]):
        driver.play(order)

    driver.step()
    assert driver.opens() == []
    driver.step()

    assert [(order.slot, order.generation) for order in driver.opens()] == [
        (3, 2),
        (6, 2),
    ]


def test_only_its_own_role_holds_a_request_back(start: Start) -> None:
    """cases D 62 [D2]."""
    driver = started(start, 1, 2)
    for number, role in enumerate((2, 2, 3, 2, 3, 3, 2), start=1):
        driver.submit(number, role=role, limit=number)

    assert [order.limit for order in driver.opens()] == [1, 3, 5]
    driver.play(driver.leases[1])
    driver.play(driver.leases[3])
    driver.step()
    driver.step()

    assert [(order.limit, order.slot) for order in driver.opens()] == [(2, 1), (6, 3)]


def test_slots_are_scarcer_than_engines(start: Start) -> None:
    """`device.md` §9: any free slot, in the order of admission over all roles."""
    driver = started(start, SMALL.slots - 1, SMALL.slots - 1)
    for number in range(1, SMALL.slots + 3):
        driver.submit(number, role=2 + number % 2, limit=number)

    assert [order.limit for order in driver.opens()] == list(range(1, SMALL.slots))


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.PREPARING, Phase.RUNNING])
def test_deadline(start: Start, phase: int) -> None:
    """cases D 74: queueing counts; at the deadline is not beyond it."""
    driver = started(start, 1)
    if phase == Phase.QUEUED:
        # Submitted a ns before, it ends a ns before and frees its slot too late.
        driver.submit(9)
    driver.submit(1)
    deadline_ns = driver.now + SMALL.request_seconds * SECOND
    if phase == Phase.RUNNING:
        driver.open_one(driver.opens()[0])

    driver.step(deadline_ns - driver.now)
    driver.take_orders()
    # Answered before the work of its own tick, which is the first beyond.
    assert result(driver.read(1)[0]) == (phase, 0, 0, 0)

    assert driver.now == deadline_ns + 1
    assert len(driver.take_orders()) == (phase != Phase.QUEUED)
    assert result(driver.read(1)[0]) == (Phase.CANCELLED, 504, 1, 0)


def test_model_is_lost_while_queued(start: Start) -> None:
    """cases D 76: queued and preparing fail, running is cancelled; stops for both."""
    driver = started(start, 2, 1)
    for number in (1, 2, 3):
        driver.submit(number)
    driver.submit(4, role=3)
    driver.open_one(driver.opens()[0])

    driver.device.set_engine(2, False)
    driver.step()

    assert result(driver.read(1)[0]) == (Phase.CANCELLED, 503, 1, 0)
    assert result(driver.read(2)[0]) == (Phase.FAILED, 503, 0, 0)
    assert result(driver.read(3)[0]) == (Phase.FAILED, 503, 0, 0)
    assert driver.phase(4) == Phase.PREPARING
    stops = driver.take_orders()
    assert [(stop.slot, stop.generation) for stop in stops] == [(1, 1), (2, 1)]
    assert driver.submit(5) == 404
    assert [row.role for row in driver.info().models] == [3]

    driver.device.set_engine(2, True)
    driver.step()
    assert driver.submit(5) == 202
    assert driver.opens()[0].generation == 2


def test_model_is_lost_beyond_the_deadline(start: Start) -> None:
    """`device.md` §9: the engine's loss comes first, and terminal is terminal."""
    driver = started(start, 1)
    driver.submit(1)
    driver.take_orders()

    driver.device.set_engine(2, False)
    driver.step(SMALL.request_seconds * SECOND + 1)

    assert result(driver.read(1)[0]) == (Phase.FAILED, 503, 0, 0)
    assert [(stop.slot, stop.generation) for stop in driver.take_orders()] == [(1, 1)]


def test_client_is_gone(start: Start) -> None:
    """cases D 77: the reply is never taken; another channel reads the result."""
    driver = started(start, 1)
    header = driver.submit_header(1)
    driver.publish(3, join(header, HELLO))
    driver.step()
    driver.play(driver.opens()[0], [b"x"])
    driver.step()

    reply, data = driver.send(
        driver.header(Operation.READ, epoch=header.epoch, id=header.id), channel=4
    )

    assert (reply.phase, data) == (Phase.COMPLETED, b"x")
    assert not driver.device.is_free(3)


def test_order_that_nobody_took(start: Start) -> None:
    """An open order waits until the host has taken the slot's last one."""
    driver = started(start, 1)
    driver.submit(1)
    driver.cancel(1)
    driver.submit(2)
    driver.step()
    driver.cancel(2)
    driver.submit(3)
    driver.step()

    orders = [(o.slot, o.generation, attrs.has(type(o))) for o in driver.take_orders()]
    assert [(slot, generation) for slot, generation, _ in orders] == [(1, 1), (1, 1)]
    assert driver.phase(3) == Phase.PREPARING
    (order,) = driver.opens()
    assert (order.slot, order.generation) == (1, 3)


def test_order_is_kept_from_the_kernels_that_have_its_slot_next(start: Start) -> None:
    """An order that waits for the host is neither lost nor taken by another engine."""
    tokens = SMALL.sequence_tokens
    driver = start(
        engines=[
            played_engine(2, capacity=1, sequence_tokens=tokens),
            kernel_engine(4, capacity=1, sequence_tokens=tokens),
        ]
    )
    driver.install(grant(models=0b10100))
    driver.submit(1, limit=3)
    driver.cancel(1)
    driver.submit(2, role=4, limit=5)
    driver.step()
    assert driver.phase(2) == Phase.PREPARING

    order, stop = driver.take_orders()
    driver.step()
    driver.step()

    assert isinstance(order, OpenOrder)
    assert (order.slot, order.generation, order.role, order.limit) == (1, 1, 2, 3)
    assert order.rendered == b"PUhellouG()"
    assert (stop.slot, stop.generation) == (1, 1)
    assert driver.phase(2) == Phase.COMPLETED


def test_seeds_differ_per_admission(start: Start) -> None:
    """`device.md` §10: from the secret and the admission sequence number alone."""
    driver = started(start, SMALL.slots - 1)
    for number in (5, 3, 4):
        driver.submit(number)
    seeds = [order.seed for order in driver.opens()]
    assert len(set(seeds)) == 3

    other = started(start, SMALL.slots - 1)
    for number in (1, 2, 3):
        other.submit(number, P2, limit=5)
    assert [order.seed for order in other.opens()] == seeds
