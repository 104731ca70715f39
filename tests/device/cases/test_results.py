"""
cases D: READ and CANCEL (`device.md` §6, §7).
"""

from __future__ import annotations

import pytest

from tests.device.capacities import DEFAULT, SMALL
from tests.device.cases.starting import Start, result, started
from tests.device.driver import Driver
from tests.device.making import (
    DONE,
    EMIT,
    FAILED,
    OPENED,
    P2,
    grant,
    request_id,
)
from twisted_aotx.limits import PAYLOAD_BYTES_MAX
from twisted_aotx.wire.numbers import Phase


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


def test_many_foreign_requests(start: Start) -> None:
    """As above, whatever buckets of the index principals and ids share."""
    driver = started(start, 1)
    others = [request_id(number) for number in range(1, SMALL.principals)]
    rows = [grant(each, requests=SMALL.requests) for each in others]
    assert driver.install(*rows) == 200
    for number in range(SMALL.requests):
        assert driver.submit(number + 1, others[0]) == 202

    for other in others[1:]:
        for number in range(SMALL.requests):
            assert driver.read(number + 1, other)[0].status == 404
    assert driver.submit(1, others[1]) == 429


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
