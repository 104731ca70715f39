"""
cases D: leases, engines, READ and CANCEL (`device.md` §6, §7, §9, D2, D4, D5, D8).
"""

from __future__ import annotations

import attrs
import pytest

from tests.device.capacities import DEFAULT, SMALL, WIDE
from tests.device.cases.starting import Start
from tests.device.driver import (
    DONE,
    EMIT,
    FAILED,
    HELLO,
    OPENED,
    P1,
    P2,
    REFUSED,
    SECOND,
    Driver,
    grant,
    played_engine,
)
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.wire.numbers import Operation, Phase
from twisted_aotx.wire.packet import ReplyHeader, join

TOKENS = SMALL.sequence_tokens


def started(start: Start, *capacities: int) -> Driver:
    """Roles 2, 3, … with these engine capacities; P1 and P2 may use them all."""
    engines = [
        played_engine(role, capacity=capacity, sequence_tokens=TOKENS)
        for role, capacity in enumerate(capacities, start=2)
    ]
    driver = start(engines=engines)
    rows = (
        grant(principal, models=0b11100, requests=SMALL.requests, tokens=TOKENS - 1)
        for principal in (P1, P2)
    )
    assert driver.install(*rows) == 200
    return driver


def result(reply: ReplyHeader) -> tuple[int, int, int, int]:
    """Phase, failure status, cancel flag, finish."""
    return reply.phase, reply.failure_status, reply.cancel_requested, reply.finish


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


def test_reading_along(start: Start) -> None:
    """cases D 64."""
    driver = started(start, 1)
    driver.submit(1)
    (order,) = driver.opens()
    assert driver.phase(1) == Phase.PREPARING
    driver.open_one(order, 5)
    seen = b""
    for index in range(6):
        driver.report(order, EMIT, 1, b"piece %d; " % index)
        driver.step()
        reply, window = driver.read(1, cursor=len(seen))
        seen += window
        assert (reply.phase, reply.total_bytes) == (Phase.RUNNING, len(seen))
        assert (reply.prompt_tokens, reply.sampled_tokens) == (5, index + 1)
    driver.end(order, DONE, 2)
    driver.step()

    reply, whole = driver.read(1)
    assert result(reply) == (Phase.COMPLETED, 0, 0, 2)
    assert seen == whole == b"".join(b"piece %d; " % index for index in range(6))
    assert driver.read(1, cursor=len(whole))[1] == b""
    reply, data = driver.read(1, cursor=len(whole) + 1)
    assert (reply.status, reply.phase, data) == (409, Phase.COMPLETED, b"")
    assert driver.read(1, cursor=2**63)[0].status == 409


@pytest.mark.slow
def test_more_output_than_a_window(start: Start) -> None:
    """cases D 65, with the most output that the default capacities hold."""
    driver = start(DEFAULT)
    driver.install(grant(tokens=64))
    driver.submit(1, limit=20)
    (order,) = driver.opens()
    driver.open_one(order)
    whole = b""
    for index in range(16):
        piece = bytes([65 + index]) * 4096
        driver.report(order, EMIT, 1, piece)
        driver.step()
        whole += piece
    driver.end(order, DONE, 1)
    driver.step()
    assert len(whole) == DEFAULT.output_bytes

    reply, first = driver.read(1)
    assert (reply.phase, reply.total_bytes) == (Phase.COMPLETED, len(whole))
    assert len(first) == PAYLOAD_BYTES_MAX == 65408
    assert first + driver.read(1, cursor=len(first))[1] == whole
    assert driver.cancel(1)[1] == first


def test_foreign_requests(start: Start) -> None:
    """cases D 67 [D22]: a foreign id answers what an unknown one answers."""
    driver = started(start, 1)
    driver.submit(1)

    for cursor in (0, 99):
        assert driver.read(1, P2, cursor=cursor)[0].status == 404
        assert driver.cancel(1, P2, cursor=cursor)[0].status == 404
        assert driver.read(77, P2, cursor=cursor)[0].status == 404
        assert driver.cancel(77, P2, cursor=cursor)[0].status == 404
    assert result(driver.read(1)[0]) == (Phase.PREPARING, 0, 0, 0)
    assert len(driver.opens()) == 1


@pytest.mark.parametrize(
    ("tokens", "finish"), [(3, 1), (8, 2), (8, 1)], ids=["stop", "length", "both"]
)
def test_finish(start: Start, tokens: int, finish: int) -> None:
    """cases D 68: the end token counts as sampled and gives no bytes."""
    driver = started(start, 1)
    driver.submit(1, limit=8)
    (order,) = driver.opens()
    driver.report(order, OPENED, 5)
    for index in range(tokens):
        is_end = finish == 1 and index == tokens - 1
        driver.report(order, EMIT, 1, b"" if is_end else b"x")
    driver.end(order, DONE, finish)
    driver.step()

    reply, data = driver.read(1)
    assert result(reply) == (Phase.COMPLETED, 0, 0, finish)
    assert reply.sampled_tokens == tokens
    assert data == b"x" * (tokens - (finish == 1))


def running(driver: Driver, output: bytes = b"partial") -> None:
    driver.submit(1)
    (order,) = driver.opens()
    driver.open_one(order)
    driver.report(order, EMIT, 1, output)
    driver.step()


def test_cancel_running(start: Start) -> None:
    """cases D 70."""
    driver = started(start, 1)
    running(driver)

    reply, data = driver.cancel(1)

    assert result(reply) == (Phase.RUNNING, 409, 1, 0)
    assert data == b"partial"
    (stop,) = driver.take_orders()
    assert (stop.slot, stop.generation) == (1, 1)
    reply, data = driver.read(1)
    assert result(reply) == (Phase.CANCELLED, 409, 1, 0)
    assert (data, reply.sampled_tokens, reply.prompt_tokens) == (b"partial", 1, 5)
    assert result(driver.cancel(1)[0]) == (Phase.CANCELLED, 409, 1, 0)
    assert list(driver.take_orders()) == []


def test_cancel_queued_and_preparing(start: Start) -> None:
    """`device.md` §7."""
    driver = started(start, 1)
    driver.submit(1)
    driver.submit(2)

    assert result(driver.cancel(2)[0]) == (Phase.CANCELLED, 409, 1, 0)
    assert result(driver.cancel(1)[0]) == (Phase.PREPARING, 409, 1, 0)
    assert result(driver.read(1)[0]) == (Phase.CANCELLED, 409, 1, 0)
    assert len(driver.take_orders()) == 2


def test_cancel_of_a_result(start: Start) -> None:
    """`device.md` §7: no effect."""
    driver = started(start, 1)
    running(driver)
    driver.end(driver.leases[1], DONE, 2)
    driver.step()

    reply, data = driver.cancel(1)

    assert (reply.status, *result(reply)) == (200, Phase.COMPLETED, 0, 0, 2)
    assert data == b"partial"


def test_cancel_with_a_cursor(start: Start) -> None:
    """cases D 71."""
    driver = started(start, 1)
    running(driver)

    reply, data = driver.cancel(1, cursor=99)

    assert (reply.status, reply.phase, data) == (409, Phase.RUNNING, b"")
    assert result(driver.read(1)[0]) == (Phase.RUNNING, 0, 0, 0)
    assert list(driver.take_orders()) == []


def test_cancel_beats_an_end_in_its_tick(start: Start) -> None:
    """`device.md` §7: what ends in the tick of an accepted cancel is cancelled."""
    driver = started(start, 1)
    running(driver)
    driver.end(driver.leases[1], DONE, 1)

    driver.cancel(1)

    assert result(driver.read(1)[0]) == (Phase.CANCELLED, 409, 1, 0)


def test_cancel_after_the_slot_was_leased_again(start: Start) -> None:
    """cases D 73 [D4]."""
    driver = started(start, 1)
    running(driver)
    old = driver.leases[1]
    driver.cancel(1)
    driver.submit(2)
    driver.step()
    (order,) = driver.opens()
    assert (order.slot, order.generation) == (old.slot, old.generation + 1)
    driver.open_one(order)

    driver.cancel(1)
    for kind, value, data in ((EMIT, 1, b"stale"), (DONE, 1, b""), (FAILED, 500, b"")):
        driver.report(old, kind, value, data)
    driver.report(order, EMIT, 1, b"fresh")
    driver.step()

    assert driver.read(2)[1] == b"fresh"
    assert driver.phase(2) == Phase.RUNNING
    assert driver.read(1)[1] == b"partial"
    assert list(driver.take_orders()) == []


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
    """cases D 76: queued and preparing fail, running is cancelled; no stop."""
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
    assert list(driver.take_orders()) == []
    assert driver.submit(5) == 404
    assert [row.role for row in driver.info().models] == [3]

    driver.device.set_engine(2, True)
    driver.step()
    assert driver.submit(5) == 202
    assert driver.opens()[0].generation == 2


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
