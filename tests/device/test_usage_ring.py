"""
The ring of usage records as it fills, orderly stops, and when the policy asks for ticks
(`device.md` §14, D11).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.device.capacities import SMALL
from tests.device.making import P2
from tests.device.storing import (
    Storing,
    cancelled,
    install,
    make_world,
    numbers,
    reviewed,
    use,
)
from twisted_aotx.limits import BATCH_RECORDS_MAX, USAGE_RECORDS
from twisted_aotx.orders import LedgerRecord
from twisted_aotx.wire.numbers import PolicyAction, PolicyReason, PolicyState

#: Three quarters of the ring.
PRESSING = 3072


@pytest.fixture
def world() -> Iterator[Storing]:
    made = make_world()
    yield made
    made.device.close()
    made.device.free()


@pytest.fixture
def reviewing() -> Iterator[Storing]:
    """With the review on."""
    made = reviewed()
    yield made
    made.device.close()
    made.device.free()


class TestRing:
    """
    A ring that fills.
    """

    def test_three_quarters(self, world: Storing) -> None:
        """
        With the review off and while paused nothing is taken of 3,071 records; one more
        and batches are committed, in the foreground, too.
        """
        world.write(PolicyAction.PAUSE, 1)
        cancelled(world, PRESSING - 2)
        assert world.driver.submit(next(numbers), P2) == 202
        (busy,) = world.driver.opens()
        use(world)
        for _ in range(3):
            world.driver.step()
        assert world.read().pending == PRESSING - 1
        assert [x for x in world.take() if isinstance(x, LedgerRecord)] == []

        use(world)
        for _ in range(2):
            world.driver.step()
        assert world.read().reason == PolicyReason.DISABLED
        (record,) = world.take()
        assert isinstance(record, LedgerRecord)
        world.finish()
        world.driver.step()

        report = world.read()
        assert (report.source_frontier, report.pending) == (64, PRESSING - 64)
        assert (report.state, report.interrupted) == (PolicyState.PAUSED, 0)
        for _ in range(3):
            world.driver.step()
        assert world.take() == []
        world.driver.play(busy)

    def test_the_reason_is_capacity(self, reviewing: Storing) -> None:
        """With the review on; foreground work does not matter any more."""
        reviewing.write(PolicyAction.PAUSE, 2)
        cancelled(reviewing, PRESSING + 2 * BATCH_RECORDS_MAX)
        assert reviewing.driver.submit(next(numbers), P2) == 202
        reviewing.write(PolicyAction.RESUME, 3)

        report = reviewing.read()
        assert (report.state, report.reason) == (
            PolicyState.QUIET,
            PolicyReason.CAPACITY,
        )

    def test_in_state_error(self) -> None:
        """4,096 records are kept; the oldest is passed over for one more."""
        world = make_world(broken=True)
        cancelled(world, USAGE_RECORDS)
        report = world.read()
        assert (report.pending, report.refused, report.source_frontier) == (4096, 0, 0)
        assert world.take() == []

        use(world)
        use(world)
        report = world.read()
        assert (report.pending, report.refused, report.source_frontier) == (4096, 2, 2)
        assert report.state == PolicyState.ERROR
        assert report.completed == 0
        assert world.take() == []
        world.device.free()


class TestRoom:
    """
    The ring has room for USAGE_RECORDS, and one for each request entry besides, rounded
    up to a power of two; a store that does not answer costs no record.
    """

    ROOM = 8192

    def test_a_request_is_taken_if_its_record_has_room(self, world: Storing) -> None:
        """429 for the one whose record would find none; 202 once a batch is saved."""
        cancelled(world, self.ROOM - SMALL.requests)
        cancelled(world, SMALL.requests - 1)
        assert world.read().pending == self.ROOM - 1
        assert world.driver.submit(next(numbers)) == 202
        assert world.driver.submit(next(numbers)) == 429

        assert len(world.save()) == 1
        assert world.driver.submit(next(numbers)) == 202
        install(world)
        world.driver.step()
        assert world.read().pending == self.ROOM + 1 - BATCH_RECORDS_MAX


class TestFlush:
    """
    An orderly stop writes out what waits.
    """

    @pytest.mark.parametrize(
        "action", [None, PolicyAction.PAUSE, PolicyAction.STOP, PolicyAction.REVIEW_OFF]
    )
    def test_all_of_it(self, world: Storing, action: int | None) -> None:
        """Whatever the controls are, with a request that still runs."""
        cancelled(world, 2 * BATCH_RECORDS_MAX + 1)
        if action is not None:
            world.write(action, 1)
        world.driver.submit(next(numbers), P2)
        world.take()

        world.device.flush()
        for _ in range(12):
            world.driver.step()
            world.save()

        assert world.device.stats().usage_pending == 0
        assert [batch.frontier for batch in world.batches()] == [64, 128, 129]


class TestDue:
    """
    When the next tick has to run.
    """

    def test_a_batch_asks_for_its_tick(self, reviewing: Storing) -> None:
        """Begun: at once. At the store: nothing polls. Done: at the next heartbeat."""
        assert not reviewing.is_due()
        use(reviewing)
        assert reviewing.is_due()
        reviewing.driver.step()
        assert not reviewing.is_due()
        reviewing.save()
        assert not reviewing.is_due()

    def test_the_next_batch_follows_at_once(self, world: Storing) -> None:
        cancelled(world, BATCH_RECORDS_MAX + 1)
        assert not world.is_due()
        world.write(PolicyAction.REVIEW_ON, 1)
        assert world.is_due()
        world.driver.step()
        world.driver.step()
        world.save()
        assert world.is_due()

    def test_a_flush_asks_too(self, world: Storing) -> None:
        use(world)
        assert not world.is_due()
        world.device.flush()
        world.driver.step()
        assert world.is_due()

    def test_held_polls_nothing(self, reviewing: Storing) -> None:
        use(reviewing)
        reviewing.device.set_hold(True)
        reviewing.driver.step()
        assert not reviewing.is_due()

    def test_a_write_that_waits_polls_nothing(self, world: Storing) -> None:
        world.publish(1, PolicyAction.PAUSE, 1)
        world.publish(2, PolicyAction.PAUSE, 1)
        world.driver.step()
        assert not world.is_due()
