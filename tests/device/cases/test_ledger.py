"""
The ring of usage records and the rows of the ledger (`device.md` §14, D11).
"""

from __future__ import annotations

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.cases.policing import (
    ON,
    RESUME,
    SHA,
    STOP,
    install,
    new_driver,
    review,
    status,
    use,
    write,
)
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    HELLO,
    P1,
    P2,
    played_engine,
)
from twisted_aotx.limits import BATCH_RECORDS_MAX, USAGE_RECORDS
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRow,
    StoredPolicy,
)
from twisted_aotx.wire.numbers import (
    Operation,
)
from twisted_aotx.wire.packet import join


@pytest.fixture
def driver(start: Start) -> Driver:
    return new_driver(start)


def cancel_many(driver: Driver, count: int, first: int = 1000) -> None:
    """So many requests that are cancelled while queued, three a tick."""
    assert count % 3 == 0
    # The scan goes on after the channel that was served last (`device.md` §3).
    driver.raw(join(driver.header(Operation.INFO)), channel=SMALL.channels - 1)
    for number in range(first, first + count, 3):
        exchanges = []
        for n in range(number, number + 3):
            submit = driver.submit_header(n)
            exchanges.append((submit, HELLO))
            cancel = attrs.evolve(
                driver.header(Operation.CANCEL, epoch=EPOCH), id=submit.id
            )
            exchanges.append((cancel, b""))
        replies = driver.send_together(exchanges)
        assert [reply.status for reply, _ in replies] == [202, 200] * 3


def test_batches(driver: Driver) -> None:
    """D11: at most 64 records each, in completion order."""
    cancel_many(driver, 66)
    write(driver, ON)
    first = review(driver)
    driver.device.finish_record(True)
    second = review(driver)
    driver.device.finish_record(True)
    driver.step()

    assert (first.frontier, second.frontier) == (BATCH_RECORDS_MAX, 66)
    assert [row.requests for row in first.rows] == [64]
    assert [row.requests for row in second.rows] == [2]
    assert (first.saved_generation, second.saved_generation) == (1, 2)
    assert status(driver).decision == 2


def test_flush(driver: Driver) -> None:
    """D11: an orderly stop writes out what waits, whatever the review's state."""
    write(driver, STOP)
    use(driver, 1)
    driver.device.flush()
    record = review(driver)
    driver.device.finish_record(True)
    driver.step()

    assert record.frontier == 1
    assert status(driver).pending == 0


def test_three_quarters(driver: Driver) -> None:
    """D11: batches run in the foreground too, also while review is off."""
    full = USAGE_RECORDS * 3 // 4
    assert full % 3 == 0
    driver.submit(1)
    cancel_many(driver, full - 3)
    for _ in range(3):
        driver.step()
    assert list(driver.device.records()) == []
    assert status(driver).pending == full - 3

    cancel_many(driver, 3, first=50)
    record = review(driver)
    driver.device.finish_record(True)
    driver.step()
    assert record.frontier == BATCH_RECORDS_MAX
    told = status(driver)
    assert told.pending == full - BATCH_RECORDS_MAX
    assert (told.interrupted, told.decision) == (0, 1)
    for _ in range(3):
        driver.step()
    assert list(driver.device.records()) == []


def stored(*rows: LedgerRow) -> StoredPolicy:
    return StoredPolicy(
        control=ControlRecord(
            control_revision=7, review=True, paused=True, stopped=False
        ),
        frontier=40,
        saved_generation=5,
        ledger=rows,
    )


def row_of(n: int) -> LedgerRow:
    return LedgerRow(
        principal=n.to_bytes(16, "little"),
        model_sha256=SHA,
        requests=1,
        prompt_tokens=2,
        sampled_tokens=3,
    )


def test_ledger_without_a_free_row(start: Start) -> None:
    """`device.md` §14: folded into principal zero's row, refused + 1, status 2."""
    driver = start(engines=[played_engine(capacity=7, sequence_tokens=8192)])
    rows = [row_of(n) for n in range(100, 100 + 4 * SMALL.principals)]
    rows[0] = attrs.evolve(rows[0], principal=P1)
    driver.device.restore_policy(stored(*rows))
    install(driver)
    use(driver, 1, P1)
    use(driver, 2, P2)
    write(driver, RESUME)
    record = review(driver)
    driver.device.finish_record(True)
    driver.step()

    assert {row.principal for row in record.rows} == {P1, bytes(16)}
    (folded,) = (row for row in record.rows if row.principal == bytes(16))
    assert (folded.model_sha256, folded.requests) == (bytes(32), 1)
    told = status(driver)
    assert (told.completed, told.refused, told.result_status) == (1, 1, 2)
    assert told.source_frontier == 42


def test_full_ring_in_state_error(start: Start) -> None:
    """D11: the oldest record is passed over, refused + 1, and the frontier follows."""
    driver = start(engines=[played_engine(capacity=7, sequence_tokens=8192)])
    driver.device.break_policy()
    install(driver)
    cancel_many(driver, USAGE_RECORDS + 2)
    told = status(driver)

    assert (told.pending, told.refused, told.source_frontier) == (USAGE_RECORDS, 2, 2)
