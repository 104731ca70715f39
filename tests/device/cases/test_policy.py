"""
cases L: operation 12, review of usage, ledger (`device.md` §14, `wire.md` §11, D11).
"""

from __future__ import annotations

import struct

import attrs
import pytest

from tests.device.cases.policing import (
    OFF,
    ON,
    PAUSE,
    RESUME,
    STOP,
    install,
    new_driver,
    post,
    refused,
    review,
    status,
    use,
    write,
    write_header,
)
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    P1,
    P2,
    P3,
    grant,
    played_engine,
)
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRow,
    StoredPolicy,
)
from twisted_aotx.wire.numbers import (
    Operation,
    PolicyReason,
    PolicyState,
)
from twisted_aotx.wire.packet import split_reply
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite


@pytest.fixture
def driver(start: Start) -> Driver:
    return new_driver(start)


def test_first_activation(driver: Driver) -> None:
    """`device.md` §14: control revision 1, review off, not paused, not stopped."""
    told = status(driver)

    assert (told.control_revision, told.review_enabled) == (1, 0)
    assert (told.state, told.reason) == (PolicyState.QUIET, PolicyReason.DISABLED)
    assert told == PolicyReport(
        state=PolicyState.QUIET, control_revision=1, reason=PolicyReason.DISABLED
    )


def test_actions(driver: Driver) -> None:
    """cases L 172: each advances the revision by 1, also when repeated."""
    flags = [
        (PAUSE, 0, PolicyState.PAUSED),
        (PAUSE, 0, PolicyState.PAUSED),
        (RESUME, 0, PolicyState.QUIET),
        (RESUME, 0, PolicyState.QUIET),
        (ON, 1, PolicyState.QUIET),
        (STOP, 1, PolicyState.STOPPED),
        (PAUSE, 1, PolicyState.STOPPED),
        (OFF, 0, PolicyState.STOPPED),
        (RESUME, 0, PolicyState.QUIET),
    ]
    for revision, (action, reviewed, state) in enumerate(flags, start=2):
        told = write(driver, action)
        assert told is not None
        assert (told.control_revision, told.review_enabled) == (revision, reviewed)
        assert told.state == state
        assert status(driver, P2) == told


@pytest.mark.parametrize(
    ("action", "flags"),
    [
        (PAUSE, (False, True, False)),
        (STOP, (False, True, True)),
        (ON, (True, False, False)),
    ],
)
def test_control_record(
    driver: Driver, action: int, flags: tuple[bool, bool, bool]
) -> None:
    """`device.md` §14: what the store keeps."""
    post(driver, action, 1, channel=3)
    driver.step()
    (record,) = driver.store()
    reviewed, paused, stopped = flags

    assert record == ControlRecord(
        control_revision=2, review=reviewed, paused=paused, stopped=stopped
    )


def test_old_body_again(driver: Driver) -> None:
    """cases L 172: 409 for a revision that is not current, 410 for another epoch."""
    write(driver, PAUSE)

    for revision in (1, 0, 3, 2**64 - 1):
        assert refused(driver, PAUSE, revision) == 409
    assert refused(driver, PAUSE, 2, epoch=EPOCH - 1) == 410
    assert refused(driver, PAUSE, 2, epoch=0) == 410
    assert status(driver).control_revision == 2


def test_permissions(driver: Driver) -> None:
    """`device.md` §14: read 8 or 128, write 128."""
    read = Operation.POLICY
    assert driver.status(driver.header(read, P3)) == 403
    assert driver.status(driver.header(read, P2)) == 200
    body = PolicyWrite(PAUSE, 1).pack()
    for principal in (P2, P3):
        assert driver.status(write_header(driver, principal), body) == 403
    # Before its shape is looked at.
    assert driver.status(write_header(driver, P2), b"?") == 403
    assert status(driver).control_revision == 1


def test_wrong_shapes(driver: Driver) -> None:
    """`device.md` §14: 400, before the epoch."""
    good = PolicyWrite(PAUSE, 1).pack()
    for body in (
        good[:-1],
        good + b"\0",
        struct.pack("<IIQ", 0, 1, 1),
        struct.pack("<IIQ", 2, 1, 1),
        struct.pack("<IIQ", 1, 0, 1),
        struct.pack("<IIQ", 1, 6, 1),
    ):
        assert driver.status(write_header(driver, epoch=9), body) == 400
    for change in ({"id": b"\1" * 16}, {"cursor": 1}):
        assert driver.status(attrs.evolve(write_header(driver), **change), good) == 400
        wrong = attrs.evolve(driver.header(Operation.POLICY), **change)
        assert driver.status(wrong) == 400
    assert driver.status(write_header(driver)) == 400


def test_hold(driver: Driver) -> None:
    """cases L 172: a write is 429; a read is answered, with reason capacity."""
    write(driver, ON)
    driver.device.set_hold(True)

    assert refused(driver, PAUSE, 2) == 429
    # After epoch, before the control check.
    assert refused(driver, PAUSE, 7) == 429
    assert refused(driver, PAUSE, 2, epoch=3) == 410
    told = status(driver)
    assert (told.control_revision, told.reason) == (2, PolicyReason.CAPACITY)


def test_write_that_is_not_saved(driver: Driver) -> None:
    """D12: 429, and the state that was before."""
    before = status(driver)
    assert write(driver, STOP, saved=False) is None

    assert status(driver) == before
    assert write(driver, STOP) is not None


def test_visible_after_the_store(driver: Driver) -> None:
    """D12: not before."""
    before = status(driver)
    post(driver, PAUSE, 1, channel=3)
    driver.step()
    for _ in range(3):
        assert status(driver) == before
    driver.store()
    assert driver.answer(3)[0].status == 200
    assert status(driver).state == PolicyState.PAUSED


def test_writes_beside_each_other(driver: Driver) -> None:
    """D12: later ones wait; the first was accepted, so their revision is old."""
    for channel in (3, 4, 5):
        post(driver, PAUSE, 1, channel=channel)
        driver.step()
    assert list(driver.device.collect()) == []
    (record,) = driver.store()
    assert isinstance(record, ControlRecord)
    driver.step()

    assert sorted(driver.device.collect()) == [3, 4, 5]
    statuses = [split_reply(driver.take(channel))[0].status for channel in (3, 4, 5)]
    assert statuses == [200, 409, 409]
    assert status(driver).control_revision == 2


def test_write_behind_one_that_is_not_saved(driver: Driver) -> None:
    """D12: its revision is still current, so it has its turn."""
    post(driver, PAUSE, 1, channel=3)
    driver.step()
    post(driver, STOP, 1, channel=4)
    driver.step()
    driver.store(saved=False)
    driver.step()
    assert split_reply(driver.take(3))[0].status == 429
    (record,) = driver.store()

    assert record == ControlRecord(
        control_revision=2, review=False, paused=True, stopped=True
    )
    driver.device.collect()
    assert split_reply(driver.take(4))[0].status == 200


def stored(*rows: LedgerRow) -> StoredPolicy:
    return StoredPolicy(
        control=ControlRecord(
            control_revision=7, review=True, paused=True, stopped=False
        ),
        frontier=40,
        saved_generation=5,
        ledger=rows,
    )


def test_restart(start: Start) -> None:
    """cases L 173: control state, frontier and generation; counters start at 0."""
    driver = start(engines=[played_engine(capacity=7, sequence_tokens=8192)])
    driver.device.restore_policy(stored())
    install(driver)

    told = status(driver)
    assert (told.control_revision, told.review_enabled) == (7, 1)
    assert (told.state, told.source_frontier) == (PolicyState.PAUSED, 40)
    assert (told.saved_generation, told.completed, told.decision) == (5, 0, 0)
    assert refused(driver, RESUME, 1) == 409
    use(driver, 1)
    resumed = write(driver, RESUME)
    assert resumed is not None
    assert resumed.control_revision == 8
    record = review(driver)
    assert (record.frontier, record.saved_generation) == (41, 6)


def test_state_error(start: Start) -> None:
    """cases L 172: only pause and stop are accepted; nothing is reviewed."""
    driver = start(engines=[played_engine(capacity=7, sequence_tokens=8192)])
    driver.device.break_policy()
    install(driver)
    revision = status(driver).control_revision
    assert status(driver).state == PolicyState.ERROR

    for action in (RESUME, ON, OFF):
        assert refused(driver, action, revision) == 409
    for action in (PAUSE, STOP):
        told = write(driver, action)
        assert told is not None
        assert told.state == PolicyState.ERROR
    use(driver, 1)
    for _ in range(3):
        driver.step()
    assert list(driver.device.records()) == []
    assert status(driver).pending == 1


def test_last_revision(start: Start) -> None:
    """`device.md` §14: a counter at its maximum is 409."""
    driver = start(engines=[played_engine(capacity=7, sequence_tokens=8192)])
    last = stored()
    control = attrs.evolve(last.control, control_revision=2**64 - 1)
    driver.device.restore_policy(attrs.evolve(last, control=control))
    install(driver)

    assert status(driver).control_revision == 2**64 - 1
    assert refused(driver, PAUSE, 2**64 - 1) == 409


def test_write_that_waited_under_another_table(driver: Driver) -> None:
    """D12: a frame that waits is examined when its turn comes, with what holds then."""
    for channel in (3, 4):
        post(driver, PAUSE, 1, channel=channel)
        driver.step()
    assert driver.install(grant(P1, actions=1)) == 200
    driver.store(saved=False)
    driver.step()

    statuses = [split_reply(driver.take(channel))[0].status for channel in (3, 4)]
    assert statuses == [429, 403]
