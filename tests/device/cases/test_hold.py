"""
cases E: hold and restoring (`device.md` §1, §8).
"""

from __future__ import annotations

import struct

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    DONE,
    EMIT,
    EPOCH,
    P1,
    P2,
    P3,
    SECOND,
    grant,
    played_engine,
    request_id,
)
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.numbers import Operation, Phase
from twisted_aotx.wire.packet import join, split_reply

#: Infer, upload, telemetry, shared write, policy.
MOST = 1 | 2 | 8 | 32 | 128


@pytest.fixture
def driver(start: Start) -> Driver:
    """P1 may do most, P2 nothing that a hold touches; capacity 2."""
    driver = start(engines=[played_engine(capacity=2, sequence_tokens=8192)])
    rows = (
        grant(P1, actions=MOST, requests=SMALL.requests),
        grant(P2, actions=8),
    )
    assert driver.install(*rows) == 200
    return driver


def metrics(driver: Driver) -> Information:
    reply, data = driver.send(driver.header(Operation.METRICS))
    assert reply.status == 200
    return Information.unpack(data)


def fill(driver: Driver) -> None:
    """A running request with output, a preparing one and a queued one."""
    for number in (1, 2, 3):
        assert driver.submit(number) == 202
    first, _ = driver.opens()
    driver.open_one(first)
    driver.report(first, EMIT, 1, b"partial")
    driver.step()


def test_hold_answers_what_only_reads(driver: Driver) -> None:
    """cases E 79: with exact bytes; the clock moves, nothing else."""
    fill(driver)
    before = [driver.read(number) for number in (1, 2, 3)]
    driver.device.set_hold(True)

    for step in range(3):
        driver.step(SECOND * step)
        measured = metrics(driver)
        assert measured.clock_ns == driver.now
        assert driver.info().slots == SMALL.slots
        assert [driver.read(number) for number in (1, 2, 3)] == before
        reply, data = driver.read(1, cursor=3)
        assert (reply.status, reply.cursor, data) == (200, 3, b"tial")
        assert driver.read(1, cursor=8)[0].status == 409
        assert driver.status(driver.header(Operation.MEDIA_READ)) == 404
        assert driver.status(driver.header(Operation.MEDIA_LIST)) == 200
        assert driver.status(driver.header(11)) == 503
    assert list(driver.take_orders()) == []


def test_hold_refuses_what_changes(driver: Driver) -> None:
    """cases E 80: 429 with the bit, 403 without it."""
    fill(driver)
    before = driver.read(1)
    driver.device.set_hold(True)

    for principal, status in ((P1, 429), (P2, 403)):
        assert driver.submit(9, principal) == status
        assert driver.cancel(1, principal)[0].status == status
        assert driver.cancel(1, principal, cursor=9)[0].status == status
        for operation in (Operation.MEDIA, 10):
            assert driver.status(driver.header(operation, principal)) == status
    # Before the payload, the epoch or the id is looked at.
    assert driver.status(driver.header(Operation.SUBMIT), b"?") == 429

    driver.device.set_hold(False)
    assert driver.read(1) == before
    assert driver.read(9)[0].status == 404


def test_shape_comes_before_the_hold(driver: Driver) -> None:
    """`device.md` §3: rows 5 and 6 before row 8."""
    driver.device.set_hold(True)
    wrong = struct.pack("<I", 1)
    packet = join(driver.header(Operation.CANCEL, epoch=EPOCH, id=request_id(1)))
    packet = packet[:76] + wrong + packet[80:]

    assert split_reply(driver.raw(packet))[0].status == 400
    late = driver.header(Operation.CANCEL, revision=7)
    assert driver.status(late) == 403


def test_nothing_is_started_or_handled_while_held(driver: Driver) -> None:
    """cases E 82."""
    for number in (1, 2, 3, 4):
        driver.submit(number)
    first, second = driver.opens()
    driver.play(first, [b"one"])
    driver.report(second, 1, 5)
    driver.device.set_hold(True)
    for _ in range(3):
        driver.step()
        assert [driver.phase(number) for number in (1, 2, 3, 4)] == [2, 2, 1, 1]
    assert list(driver.device.orders()) == []

    driver.device.set_hold(False)
    driver.step()
    assert driver.opens() == []
    driver.step()

    assert [(order.slot, order.generation) for order in driver.opens()] == [(1, 2)]
    assert [driver.phase(number) for number in (1, 2, 3, 4)] == [4, 3, 2, 1]


def test_overdue_after_the_hold(driver: Driver) -> None:
    """`device.md` §8: cancelled in the next work step, 504, and the slots are free."""
    fill(driver)
    driver.device.set_hold(True)
    driver.step(SMALL.request_seconds * SECOND * 2)
    assert [driver.phase(number) for number in (1, 2, 3)] == [3, 2, 1]

    driver.device.set_hold(False)
    driver.step()

    for number in (1, 2, 3):
        reply = driver.read(number)[0]
        assert (reply.phase, reply.failure_status) == (Phase.CANCELLED, 504)
    assert len(driver.take_orders()) == 2
    assert driver.submit(4) == 202
    assert driver.opens()[0].generation == 2


def test_grants_are_replaced_while_held(driver: Driver) -> None:
    """cases B 31."""
    fill(driver)
    driver.device.set_hold(True)

    assert driver.install(grant(P1, requests=2), grant(P3)) == 200
    assert driver.read(1)[0].status == 404
    assert driver.submit(5, P3) == 429
    driver.step()
    assert list(driver.take_orders()) == []

    driver.device.set_hold(False)
    driver.step()
    assert len(driver.take_orders()) == 2
    assert driver.submit(1, P3) == 202
    assert len(driver.opens()) == 1


def test_restoring(driver: Driver) -> None:
    """cases E 83: nothing is copied, not even the operator's table."""
    measured = metrics(driver)
    info = join(driver.header(Operation.INFO))
    table = GrantTable(driver.revision + 1, ()).pack()
    driver.device.set_restoring(True)
    driver.publish(0, table)
    driver.publish(1, info)
    for _ in range(3):
        driver.step(SECOND)
        assert list(driver.device.collect()) == []
    assert not driver.device.is_free(0)

    driver.now -= 3 * SECOND
    driver.device.set_restoring(False)
    driver.step()

    assert sorted(driver.device.collect()) == [0, 1]
    assert split_reply(driver.take(0))[0].status == 200
    # The frame was examined after the new table had come.
    assert split_reply(driver.take(1))[0].status == 403
    assert measured.clock_ns < driver.now


def test_clock_stands_while_restoring(driver: Driver) -> None:
    """cases E 83: no deadline falls due."""
    driver.submit(1)
    driver.device.set_restoring(True)
    driver.step(SMALL.request_seconds * SECOND * 2)
    driver.device.set_restoring(False)
    driver.now -= SMALL.request_seconds * SECOND * 2
    driver.step()

    assert driver.phase(1) == Phase.PREPARING


def test_late_report_after_the_hold(driver: Driver) -> None:
    """`device.md` §8: reports wait through the hold, then count in order."""
    fill(driver)
    driver.device.set_hold(True)
    driver.report(driver.leases[1], EMIT, 1, b" more")
    driver.end(driver.leases[1], DONE, 2)
    driver.step()
    assert driver.read(1)[1] == b"partial"

    driver.device.set_hold(False)
    driver.step()
    reply, data = driver.read(1)
    assert (reply.phase, reply.finish, data) == (Phase.COMPLETED, 2, b"partial more")
