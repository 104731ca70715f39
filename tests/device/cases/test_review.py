"""
Usage, its review and the ledger (`device.md` §14, D11).
"""

from __future__ import annotations

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.cases.policing import (
    OFF,
    ON,
    PAUSE,
    RESUME,
    SHA,
    STOP,
    new_driver,
    post,
    review,
    status,
    use,
    write,
)
from tests.device.cases.starting import Start
from tests.device.cases.uploading import JPEG_FILE, settle, upload, with_media
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    HELLO,
    P1,
    P2,
    grant,
)
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRow,
)
from twisted_aotx.wire.numbers import (
    Operation,
    PolicyReason,
    PolicyState,
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


def test_usage_is_counted(driver: Driver) -> None:
    """D11: every terminal transition, whatever ended it."""
    use(driver, 1)
    driver.submit(2)
    driver.cancel(2)
    driver.step()
    assert driver.submit(3) == 202
    driver.device.set_engine(2, False)
    driver.step()

    assert status(driver).pending == 3
    assert list(driver.device.records()) == []


def test_review(driver: Driver) -> None:
    """`device.md` §14: a batch is begun, committed, and confirmed by the store."""
    use(driver, 1, P1, tokens=3)
    use(driver, 2, P2, tokens=4)
    use(driver, 3, P1, tokens=5)
    write(driver, ON)
    record = review(driver)
    told = status(driver)
    assert (told.state, told.pending, told.source_frontier) == (
        PolicyState.RECORDING,
        3,
        0,
    )
    driver.device.finish_record(True)
    driver.step()

    assert (record.frontier, record.saved_generation) == (3, 1)
    assert sorted(record.rows, key=lambda row: row.principal) == [
        LedgerRow(
            principal=principal,
            model_sha256=SHA,
            requests=requests,
            prompt_tokens=5 * requests,
            sampled_tokens=sampled,
        )
        for principal, requests, sampled in ((P1, 2, 8), (P2, 1, 4))
    ]
    told = status(driver)
    assert (told.state, told.reason) == (PolicyState.QUIET, PolicyReason.QUIET)
    assert (told.pending, told.source_frontier, told.saved_generation) == (0, 3, 1)
    assert (told.completed, told.refused, told.decision) == (3, 0, 1)
    assert told.maximum_ns == told.last_ns > 0


def test_state_active(driver: Driver) -> None:
    """`wire.md` §11: between begin and commit, with what is in work."""
    use(driver, 1)
    use(driver, 2)
    write(driver, ON)
    driver.step()
    told = status(driver)

    assert told.state == PolicyState.ACTIVE
    assert (told.active_rows, told.reason) == (2, PolicyReason.ACTIVE)
    assert told.pending == 2


def test_batch_that_is_not_saved(driver: Driver) -> None:
    """D11: the same records are taken again."""
    use(driver, 1)
    write(driver, ON)
    record = review(driver)
    driver.device.finish_record(False)
    driver.step()
    assert status(driver).source_frontier == 0

    assert review(driver) == record
    driver.device.finish_record(True)
    driver.step()
    told = status(driver)
    assert (told.source_frontier, told.saved_generation, told.decision) == (1, 1, 1)


def test_foreground(driver: Driver) -> None:
    """D11: active work drops the batch; its records are taken again."""
    use(driver, 1)
    write(driver, ON)
    driver.step()
    driver.submit(2)
    told = status(driver)
    assert (told.interrupted, told.reason) == (1, PolicyReason.FOREGROUND)
    for _ in range(3):
        driver.step()
    told = status(driver)
    assert (told.interrupted, told.pending, told.completed) == (1, 1, 0)
    assert list(driver.device.records()) == []

    (order,) = driver.opens()
    driver.play(order)
    driver.step()
    assert review(driver).frontier == 2


def test_action_drops_the_batch(driver: Driver) -> None:
    """`device.md` §14: an accepted action, which is no foreground."""
    use(driver, 1)
    write(driver, ON)
    post(driver, PAUSE, 2, channel=3)
    driver.step()
    driver.step()
    records = driver.device.records()
    for _ in records:
        driver.device.finish_record(True)
    driver.step()
    assert driver.answer(3)[0].status == 200
    told = status(driver)

    assert (told.state, told.interrupted) == (PolicyState.PAUSED, 0)
    assert told.completed + told.pending == 1


@pytest.mark.parametrize("action", [PAUSE, STOP, OFF])
def test_no_review(driver: Driver, action: int) -> None:
    """`device.md` §14: paused, stopped or off; what waits is not lost."""
    write(driver, ON)
    write(driver, action)
    use(driver, 1)
    for _ in range(4):
        driver.step()

    assert status(driver).pending == 1
    assert list(driver.device.records()) == []
    if action == OFF:
        write(driver, ON)
    else:
        write(driver, RESUME)
    assert review(driver).frontier == 1


def test_commit_after_a_pause(driver: Driver) -> None:
    """`device.md` §14: commits not yet confirmed finish after pause and stop."""
    use(driver, 1)
    write(driver, ON)
    review(driver)
    post(driver, STOP, 2, channel=3)
    driver.step()
    (record,) = driver.device.records()
    assert isinstance(record, ControlRecord)
    driver.device.finish_record(True)
    driver.device.finish_record(True)
    driver.step()

    assert driver.answer(3)[0].status == 200
    told = status(driver)
    assert (told.state, told.completed) == (PolicyState.STOPPED, 1)
    assert told.source_frontier == 1


def test_media_are_foreground(start: Start) -> None:
    """`device.md` §14: sources in phases 2 to 5."""
    driver = with_media(start)
    driver.install(
        grant(P1, actions=0b10001011, requests=16, media=4, media_bytes=10000)
    )
    driver.submit(1)
    driver.cancel(1)
    driver.step()
    driver.take_orders()
    upload(driver, 1, JPEG_FILE)
    settle(driver)
    write(driver, ON)
    for _ in range(4):
        driver.step()

    assert status(driver).reason == PolicyReason.FOREGROUND
    assert list(driver.device.records()) == []


def test_review_while_held(driver: Driver) -> None:
    """`device.md` §8: none; answers of the store are taken."""
    use(driver, 1)
    use(driver, 2)
    write(driver, ON)
    review(driver)
    driver.device.set_hold(True)
    driver.device.finish_record(True)
    for _ in range(3):
        driver.step()
    told = status(driver)

    assert (told.source_frontier, told.pending) == (2, 0)
    assert list(driver.device.records()) == []
