"""
Usage records, their review and the ledger (`device.md` §14, D11).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.making import (
    P1,
    P2,
    REFUSED,
)
from tests.device.storing import (
    Storing,
    cancelled,
    make_world,
    model,
    nobody,
    numbers,
    reviewed,
    row,
    use,
)
from twisted_aotx.limits import BATCH_RECORDS_MAX
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
    LedgerRow,
    StoredPolicy,
)
from twisted_aotx.wire.numbers import (
    Phase,
    PolicyAction,
    PolicyReason,
    PolicyResult,
    PolicyState,
)


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


class TestRecords:
    """
    What leaves a record.
    """

    def test_every_end_counts(self, world: Storing) -> None:
        """Completed, refused, failed, cancelled while queued, preparing, running."""
        driver = world.driver
        driver.submit(1)
        driver.submit(2)
        for number in range(3, 11):
            driver.submit(number, P2, role=3)
        orders = {order.role: order for order in driver.opens()}
        assert len(orders) == 2
        driver.play(orders[2], [b"a", b"b"])
        driver.step()
        assert world.read().pending == 1
        driver.cancel(1)
        driver.step()
        assert world.read().pending == 2
        waiting = [n for n in range(3, 11) if driver.phase(n, P2) == Phase.QUEUED]
        driver.cancel(waiting[0], P2)
        assert world.read().pending == 3
        driver.report(orders[3], REFUSED, 400)
        driver.step()
        assert world.read().pending == 4
        world.device.set_engine(3, False)
        driver.step()
        assert world.read().pending == 10
        assert world.device.stats().usage_pending == 10

        world.device.flush()
        driver.step()
        driver.step()
        (record,) = world.save()

        assert record == LedgerRecord(
            frontier=10,
            saved_generation=1,
            rows=(
                row(P1, 2, 2, len(orders[2].rendered), 2),
                row(P2, 3, 8, 0, 0),
            ),
        )

    def test_a_reclaimed_result_loses_nothing(self, reviewing: Storing) -> None:
        """More requests than the table has entries, before any review."""
        reviewing.write(PolicyAction.PAUSE, 2)
        for _ in range(SMALL.requests + 4):
            use(reviewing)
        assert reviewing.read().pending == SMALL.requests + 4

        reviewing.write(PolicyAction.RESUME, 3)
        reviewing.driver.step()
        reviewing.driver.step()
        reviewing.save()

        (batch,) = reviewing.batches()
        count = SMALL.requests + 4
        assert batch.rows == (row(P1, 2, count, 5 * count, 3 * count),)


class TestReview:
    """
    Batches of an idle device.
    """

    def test_one_batch_tick_by_tick(self, reviewing: Storing) -> None:
        """Begun, committed in the next tick, visible when the store has it."""
        world = reviewing
        use(world, P2, prompt=7, sampled=2)

        # The request ended in the commit of that tick, so its review began there.
        active = world.read()
        assert active.state == PolicyState.ACTIVE
        assert active.reason == PolicyReason.ACTIVE
        assert (active.active_rows, active.pending) == (1, 1)
        began = world.driver.now - 1
        recording = world.read()
        assert recording.state == PolicyState.RECORDING
        assert recording.reason == PolicyReason.QUIET
        assert (recording.active_rows, recording.pending) == (0, 1)
        assert (recording.source_frontier, recording.saved_generation) == (0, 0)

        (record,) = world.save()

        assert record == LedgerRecord(
            frontier=1, saved_generation=1, rows=(row(P2, 2, 1, 7, 2),)
        )
        taken_ns = world.driver.now - began
        done = world.read()
        assert done.state == PolicyState.QUIET
        assert (done.pending, done.source_frontier, done.saved_generation) == (0, 1, 1)
        assert (done.completed, done.decision, done.refused) == (1, 1, 0)
        assert (done.last_ns, done.maximum_ns) == (taken_ns, taken_ns)
        assert (done.written_bytes, done.result_bytes) == (0, 0)
        stats = world.device.stats()
        assert (stats.usage_pending, stats.usage_reviewed) == (0, 1)

    def test_the_longest_batch(self, reviewing: Storing) -> None:
        """Maximum and last differ once a shorter one follows."""
        for wait in (50, 3):
            use(reviewing)
            reviewing.driver.step()
            reviewing.driver.step(wait)
            reviewing.save()
        report = reviewing.read()

        assert report.maximum_ns == report.last_ns + 47
        assert report.decision == 2

    def test_rows_are_per_principal_and_model(self, reviewing: Storing) -> None:
        """In order of appearance; one record each."""
        reviewing.write(PolicyAction.PAUSE, 2)
        for principal, role in ((P2, 3), (P1, 2), (P2, 2), (P2, 3), (P1, 2)):
            use(reviewing, principal, role)
        reviewing.write(PolicyAction.RESUME, 3)
        reviewing.driver.step()
        reviewing.driver.step()
        reviewing.save()

        (batch,) = reviewing.batches()
        assert batch.rows == (
            row(P2, 3, 2, 10, 6),
            row(P1, 2, 2, 10, 6),
            row(P2, 2, 1, 5, 3),
        )

    @pytest.mark.parametrize("count", [BATCH_RECORDS_MAX, BATCH_RECORDS_MAX + 1])
    def test_at_most_64(self, world: Storing, count: int) -> None:
        cancelled(world, count)
        world.write(PolicyAction.REVIEW_ON, 1)
        for _ in range(6):
            world.driver.step()
            world.save()

        sizes = [batch.rows[0].requests for batch in world.batches()]
        assert sizes == [64, 1][: count - 63]
        assert [batch.frontier for batch in world.batches()] == [64, 65][: count - 63]
        assert [batch.saved_generation for batch in world.batches()] == [1, 2][
            : count - 63
        ]

    def test_one_batch_at_the_store(self, reviewing: Storing) -> None:
        """The next one begins when the first one's result is there."""
        use(reviewing)
        reviewing.driver.step()
        reviewing.driver.step()
        use(reviewing)
        for _ in range(5):
            reviewing.driver.step()
        assert len(reviewing.take()) == 1

        reviewing.finish()
        for _ in range(3):
            reviewing.driver.step()
        assert len(reviewing.take()) == 1

    def test_a_save_that_fails(self, reviewing: Storing) -> None:
        """Nothing counts, and the same records are taken again."""
        use(reviewing)
        reviewing.driver.step()
        reviewing.driver.step()
        (first,) = reviewing.save(False)
        report = reviewing.read()
        assert (report.source_frontier, report.completed, report.decision) == (0, 0, 0)
        assert report.last_ns == 0

        reviewing.driver.step()
        reviewing.driver.step()
        assert reviewing.save() == [first]
        assert reviewing.read().source_frontier == 1


class TestForeground:
    """
    Work of clients comes first.
    """

    def test_it_drops_a_batch(self, reviewing: Storing) -> None:
        """Interrupted by 1; the same records are taken when it is over."""
        world = reviewing
        use(world)
        assert world.driver.submit(next(numbers)) == 202

        report = world.read()
        assert (report.interrupted, report.state) == (1, PolicyState.QUIET)
        assert report.reason == PolicyReason.FOREGROUND
        assert report.pending == 1
        assert world.take() == []

        (order,) = world.driver.opens()
        world.driver.play(order)
        for _ in range(3):
            world.driver.step()
        (record,) = world.take()
        assert isinstance(record, LedgerRecord)
        assert record.frontier == 2
        assert world.read().interrupted == 1

    def test_a_commit_under_way_is_none(self, reviewing: Storing) -> None:
        """What is at the store is not interrupted."""
        use(reviewing)
        reviewing.driver.step()
        assert reviewing.driver.submit(next(numbers)) == 202
        reviewing.save()

        report = reviewing.read()
        assert (report.interrupted, report.completed) == (0, 1)

    @pytest.mark.parametrize(
        "action", [PolicyAction.PAUSE, PolicyAction.STOP, PolicyAction.REVIEW_OFF]
    )
    def test_halted_takes_nothing(self, reviewing: Storing, action: int) -> None:
        """Nor does it count as interrupted."""
        reviewing.write(action, 2)
        use(reviewing)
        for _ in range(5):
            reviewing.driver.step()

        assert [x for x in reviewing.take() if isinstance(x, LedgerRecord)] == []
        assert reviewing.read().interrupted == 0
        assert reviewing.read().pending == 1

    def test_a_commit_finishes_after_a_stop(self, reviewing: Storing) -> None:
        """And the stop is visible at once when its own record is saved."""
        use(reviewing)
        reviewing.driver.step()
        reviewing.publish(1, PolicyAction.STOP, 2)
        reviewing.driver.step()
        first, second = reviewing.take()
        assert isinstance(first, LedgerRecord)
        assert isinstance(second, ControlRecord)

        reviewing.finish()
        reviewing.driver.step()

        reviewing.device.collect()
        reviewing.driver.take(1)
        report = reviewing.read()
        assert (report.state, report.completed) == (PolicyState.STOPPED, 1)

    def test_an_accepted_action_drops_a_batch(self, reviewing: Storing) -> None:
        """One that was begun in the tick in which the store has the action."""
        driver = reviewing.driver
        driver.submit(next(numbers))
        (order,) = driver.opens()
        driver.open_one(order)
        reviewing.publish(5, PolicyAction.REVIEW_ON, 2)
        driver.step()
        reviewing.take()
        reviewing.finish()
        driver.end(order, 4, 1)
        driver.step()
        assert list(reviewing.device.collect()) == [5]
        driver.take(5)

        report = reviewing.read()
        assert (report.state, report.pending) == (PolicyState.QUIET, 1)
        assert (report.control_revision, report.interrupted) == (3, 0)
        assert reviewing.read().state == PolicyState.ACTIVE

    def test_held_does_nothing(self, reviewing: Storing) -> None:
        """A batch in work stays in work, and is committed after the hold."""
        use(reviewing)
        reviewing.device.set_hold(True)
        report = reviewing.read()
        assert (report.state, report.reason) == (
            PolicyState.ACTIVE,
            PolicyReason.ACTIVE,
        )
        assert reviewing.take() == []

        reviewing.device.set_hold(False)
        reviewing.driver.step()
        assert len(reviewing.take()) == 1


class TestFullLedger:
    """
    4 rows per principal of the table; what finds none is principal zero's.
    """

    def stored(self, rows: int) -> StoredPolicy:
        ledger = tuple(
            LedgerRow(
                principal=number.to_bytes(16, "big"),
                model_sha256=model(2),
                requests=1,
                prompt_tokens=1,
                sampled_tokens=1,
            )
            for number in range(1000, 1000 + rows)
        )
        return StoredPolicy(
            control=ControlRecord(
                control_revision=3, review=True, paused=False, stopped=False
            ),
            frontier=rows,
            saved_generation=1,
            ledger=ledger,
        )

    @pytest.mark.parametrize("known", [63, 64, 70])
    def test_the_last_row(self, known: int) -> None:
        """One more fits with 63 rows; with 64, and with more than fit, none does."""
        world = make_world(self.stored(known))
        world.write(PolicyAction.PAUSE, 3)
        use(world, P1)
        use(world, P2)
        use(world, P1, 3)
        use(world, P1)
        world.write(PolicyAction.RESUME, 4)
        for _ in range(2):
            world.driver.step()
        world.save()

        (batch,) = world.batches()
        report = world.read()
        assert batch.frontier == known + 4
        if known == 63:
            assert batch.rows == (row(P1, 2, 2, 10, 6), nobody(2, 10, 6))
            assert (report.completed, report.refused) == (2, 2)
        else:
            assert batch.rows == (nobody(4, 20, 12),)
            assert (report.completed, report.refused) == (0, 4)
        assert report.result_status == PolicyResult.CAPACITY
        world.device.free()

    def test_the_next_good_batch_is_ok(self) -> None:
        """The last result is that of the last batch; rows that exist go on."""
        world = make_world(self.stored(63))
        for principal in (P1, P2, P1):
            use(world, principal)
            world.driver.step()
            world.save()
            world.driver.step()
        report = world.read()

        assert [batch.rows for batch in world.batches()] == [
            (row(P1, 2, 1, 5, 3),),
            (nobody(1, 5, 3),),
            (row(P1, 2, 1, 5, 3),),
        ]
        assert report.result_status == PolicyResult.OK
        assert (report.completed, report.refused) == (2, 1)
        world.device.free()


def test_numbers_go_on_after_a_restart() -> None:
    """D13: completion order goes on from the frontier."""
    stored = StoredPolicy(
        control=ControlRecord(
            control_revision=9, review=True, paused=False, stopped=False
        ),
        frontier=1000,
        saved_generation=17,
        ledger=(row(P1, 2, 1000, 5, 5),),
    )
    world = make_world(stored)
    use(world)
    world.driver.step()
    world.save()

    (batch,) = world.batches()
    assert (batch.frontier, batch.saved_generation) == (1001, 18)
    assert attrs.asdict(batch.rows[0]) == attrs.asdict(row(P1, 2, 1, 5, 3))
    assert world.read().completed == 1
    world.device.free()
