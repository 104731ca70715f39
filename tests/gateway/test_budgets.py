"""
Budgets on a clock that stands still: what is taken is given back, who waits is served.
"""

from __future__ import annotations

import random

import pytest
from twisted.internet.defer import CancelledError, Deferred

from tests.clocks import standing_clock
from twisted_aotx.errors import Problem
from twisted_aotx.gateway.budgets import Budgets, Counter, FairCounter, Hold
from twisted_aotx.gateway.settings import Limits


class Readers:
    """
    A fair counter with everything that was asked of it, by name like `a1`.
    """

    def __init__(self, limit: int, waiters_max: int = 100) -> None:
        self.clock = standing_clock()
        self.counter = FairCounter(
            limit, waiters_max=waiters_max, wait_seconds=5, reactor=self.clock
        )
        self.asked: dict[str, Deferred[None]] = {}
        self.granted: dict[str, Hold] = {}
        self.refused: dict[str, BaseException] = {}
        #: Names in the order in which they were granted.
        self.order: list[str] = []

    def ask(self, *names: str) -> None:
        for name in names:
            self.asked[name] = Deferred.fromCoroutine(self._take(name))

    async def _take(self, name: str) -> None:
        try:
            self.granted[name] = await self.counter.take(name[0].encode())
        except (Problem, CancelledError) as error:
            self.refused[name] = error
        else:
            self.order.append(name)

    def free(self, *names: str) -> None:
        for name in names:
            self.granted.pop(name).release()


def test_a_counter_counts() -> None:
    counter = Counter(10)
    first, second = counter.take(4), counter.take(6)
    with pytest.raises(Problem) as caught:
        counter.take(1)
    assert (caught.value.status, caught.value.code) == (429, "transport_limit")
    assert counter.held == 10

    first.shrink(9)
    assert counter.held == 10
    first.shrink(1)
    assert counter.held == 7
    first.release()
    first.release()
    assert counter.held == 6
    second.release()
    assert counter.held == 0


@pytest.mark.parametrize(("limit", "share"), [(1, 1), (2, 1), (3, 2), (8, 4), (9, 5)])
def test_one_principal_holds_half_rounded_up(limit: int, share: int) -> None:
    """
    D29.
    """
    readers = Readers(limit)
    readers.ask(*(f"a{i}" for i in range(limit + 1)))
    assert len(readers.order) == share

    readers.ask(*(f"b{i}" for i in range(limit + 1)))
    assert readers.counter.held == limit


def test_waiters_are_served_in_turn_per_principal() -> None:
    """
    D29: first come first served within one principal.
    """
    readers = Readers(2)
    readers.ask("x1", "y1", "a1", "a2", "a3", "b1", "c1", "b2")
    assert readers.order == ["x1", "y1"]

    readers.free("x1")
    while len(readers.order) < 8:
        readers.free(readers.order[-1])

    # a holds its share when its second turn comes, so b and c go first.
    assert readers.order[2:] == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_who_may_not_hold_more_does_not_stand_in_the_way() -> None:
    readers = Readers(4)
    readers.ask("a1", "a2", "a3", "b1", "b2", "b3", "c1")
    assert readers.order == ["a1", "a2", "b1", "b2"]

    readers.free("b1")

    # The first in turn, a, holds its half already.
    assert readers.order[4:] == ["b3"]
    readers.free("a1")
    assert readers.order[5:] == ["a3"]
    readers.free("b2", "b3")
    assert readers.order[6:] == ["c1"]


def test_a_newcomer_does_not_overtake_its_own_waiters() -> None:
    readers = Readers(2)
    readers.ask("a1", "b1", "a2")
    readers.free("b1")
    readers.ask("a3")
    assert readers.order == ["a1", "b1"]

    readers.free("a1")

    assert readers.order == ["a1", "b1", "a2"]


def test_a_wait_ends_after_five_seconds() -> None:
    """
    D29: 429, and nothing is held.
    """
    readers = Readers(1)
    readers.ask("a1", "b1")
    readers.clock.advance(3)
    readers.ask("c1")
    readers.clock.advance(1.999)
    assert readers.refused == {}

    readers.clock.advance(0.001)

    error = readers.refused.pop("b1")
    assert isinstance(error, Problem)
    assert (error.status, error.code) == (429, "transport_limit")
    readers.free("a1")
    assert readers.order == ["a1", "c1"]
    readers.clock.advance(5)
    assert readers.clock.getDelayedCalls() == []


def test_all_waits_share_one_timer() -> None:
    readers = Readers(1)
    readers.ask("a1", "b1", "c1", "d1")

    assert len(readers.clock.getDelayedCalls()) == 1
    readers.counter.close()
    assert readers.clock.getDelayedCalls() == []


def test_waiters_are_bounded() -> None:
    readers = Readers(1, waiters_max=2)
    readers.ask("a1", "b1", "c1")
    assert readers.refused == {}

    readers.ask("d1")

    assert list(readers.refused) == ["d1"]
    assert readers.counter.waiters == 2


def test_a_waiter_that_is_cancelled_holds_nothing() -> None:
    readers = Readers(1)
    readers.ask("a1", "b1", "c1")

    readers.asked["b1"].cancel()
    readers.free("a1")

    assert isinstance(readers.refused["b1"], CancelledError)
    assert readers.order == ["a1", "c1"]
    readers.free("c1")
    assert (readers.counter.held, readers.counter.waiters) == (0, 0)
    readers.clock.advance(5)
    assert readers.clock.getDelayedCalls() == []


def test_whatever_happens_the_count_is_right() -> None:
    """
    Random takes, releases, cancels and steps of time: never over the limit or a share,
    never a free reader that somebody could have, all free at the end.
    """
    chance = random.Random(1)
    readers = Readers(5, waiters_max=9)
    for number in range(3000):
        match chance.randrange(4):
            case 0 | 1:
                readers.ask(f"{chance.choice('abcd')}{number}")
            case 2 if readers.granted:
                readers.free(chance.choice(list(readers.granted)))
            case _:
                readers.clock.advance(chance.choice([0, 0.1, 2]))
        waiting = [n for n in readers.asked if _waits(readers, n)]
        if waiting and chance.random() < 0.05:
            readers.asked[chance.choice(waiting)].cancel()
            waiting = [n for n in readers.asked if _waits(readers, n)]
        held = [name[0] for name in readers.granted]
        counter = readers.counter
        assert counter.held == len(held) <= 5
        assert counter.waiters == len(waiting) <= 9
        assert all(held.count(name) <= 3 for name in held)
        assert len(held) == 5 or all(held.count(name[0]) == 3 for name in waiting)
    readers.clock.advance(5)
    readers.free(*list(readers.granted))
    assert (readers.counter.held, readers.counter.waiters) == (0, 0)
    assert len(readers.order) > 300


def _waits(readers: Readers, name: str) -> bool:
    return not readers.asked[name].called


def test_more_places_go_to_those_that_wait() -> None:
    readers = Readers(1)
    readers.ask("a1", "a2", "b1", "c1")
    assert readers.order == ["a1"]

    readers.counter.resize(3)

    # Half of three, rounded up, for one principal.
    assert readers.order == ["a1", "a2", "b1"]
    assert (readers.counter.limit, readers.counter.share) == (3, 2)
    readers.free("a1")
    assert readers.order[-1] == "c1"


def test_fewer_places_are_reached_as_they_are_given_back() -> None:
    readers = Readers(4)
    readers.ask("a1", "a2", "b1", "c1", "d1")

    readers.counter.resize(2)
    readers.free("a1", "a2")
    assert readers.order == ["a1", "a2", "b1", "c1"]
    readers.free("b1")

    assert readers.order[-1] == "d1"
    assert readers.counter.held == 2


class Reading:
    """A request whose body has not come."""

    def __init__(self) -> None:
        self.faults: list[Problem] = []

    def fail_body(self, problem: Problem) -> None:
        self.faults.append(problem)


def test_a_resize_reaches_every_budget() -> None:
    """Also what is under way: a body that is being read has the new time."""
    clock = standing_clock()
    budgets = Budgets(Limits(body_seconds=60), clock)
    reading = Reading()
    budgets.body_deadlines.start(reading)  # type: ignore[arg-type]  # only its face

    budgets.resize(
        Limits(
            work=1,
            fetches=2,
            connections=3,
            body_credit=4,
            body_readers=5,
            body_seconds=6,
        )
    )

    counters = (budgets.work, budgets.fetches, budgets.bodies, budgets.body_credit)
    assert [each.limit for each in counters] == [1, 2, 3, 4]
    assert (budgets.readers.limit, budgets.readers.share) == (5, 3)
    clock.advance(5.9)
    assert reading.faults == []
    clock.advance(0.1)
    assert [problem.code for problem in reading.faults] == ["body_timeout"]
    budgets.close()
    assert clock.getDelayedCalls() == []
