"""
Deadlines of one length on one timer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clocks import BEGIN_SECONDS, standing_clock
from twisted_aotx.seqpacket import Deadlines


class Ended:
    """
    Deadlines of 10 s that note what fell due and when.
    """

    def __init__(self) -> None:
        self.clock = standing_clock()
        self.ended: list[tuple[str, float]] = []
        self.after: Callable[[str], None] = lambda key: None
        self.deadlines: Deadlines[str] = Deadlines(self.clock, 10.0, self._expired)

    def _expired(self, key: str) -> None:
        self.ended.append((key, self.clock.seconds() - BEGIN_SECONDS))
        self.after(key)


@pytest.fixture
def ended() -> Ended:
    return Ended()


def test_falls_due_at_the_limit(ended: Ended) -> None:
    """Nothing a moment before; due when the seconds are over."""
    ended.deadlines.start("a")

    ended.clock.advance(9.999)
    before = list(ended.ended)
    ended.clock.advance(0.001)

    assert before == []
    assert ended.ended == [("a", 10.0)]
    assert len(ended.deadlines) == 0


def test_restart_postpones(ended: Ended) -> None:
    """Only the last start counts, and one key does not hold back another."""
    ended.deadlines.start("a")
    ended.clock.advance(4)
    ended.deadlines.start("b")
    ended.clock.advance(4)
    ended.deadlines.start("a")

    ended.clock.pump([1.0] * 20)

    assert ended.ended == [("b", 14.0), ("a", 18.0)]


def test_stopped_does_not_fall_due(ended: Ended) -> None:
    """A stopped key is forgotten; stopping it again is fine."""
    ended.deadlines.start("a")
    ended.deadlines.start("b")
    ended.deadlines.stop("a")
    ended.deadlines.stop("a")

    ended.clock.pump([5.0] * 4)

    assert [key for key, _ in ended.ended] == ["b"]


def test_one_timer_and_none_when_idle(ended: Ended) -> None:
    """However many start, there is one timer; when all are done there is none."""
    for index in range(1000):
        ended.deadlines.start(str(index))
    timers = len(ended.clock.getDelayedCalls())

    ended.clock.advance(10)

    assert timers == 1
    assert len(ended.ended) == 1000
    assert ended.clock.getDelayedCalls() == []


def test_expired_may_start_and_stop(ended: Ended) -> None:
    """What falls due may start itself anew or stop one that is due as well."""
    ended.after = lambda key: (
        ended.deadlines.start("a") if key == "a" else ended.deadlines.stop("c")
    )
    for key in "abc":
        ended.deadlines.start(key)

    ended.clock.advance(10)
    ended.clock.advance(10)

    assert ended.ended == [("a", 10.0), ("b", 10.0), ("a", 20.0)]


def test_close_leaves_nothing(ended: Ended) -> None:
    """After close nothing falls due or starts, and no timer is left."""
    ended.deadlines.start("a")

    ended.deadlines.close()
    ended.deadlines.close()
    ended.deadlines.start("b")
    ended.clock.advance(60)

    assert ended.ended == []
    assert ended.clock.getDelayedCalls() == []


@pytest.mark.parametrize("seconds", [3.0, 25.0])
def test_another_length(ended: Ended, seconds: float) -> None:
    """What runs already counts from its own start; the order stays."""
    ended.deadlines.start("a")
    ended.clock.advance(2)
    ended.deadlines.start("b")
    ended.deadlines.change(seconds)
    ended.deadlines.start("c")
    ended.clock.pump([0.5] * 60)

    due = [("a", seconds), ("b", 2 + seconds), ("c", 2 + seconds)]
    assert ended.ended == due
    assert ended.clock.getDelayedCalls() == []


def test_shorter_than_what_has_passed(ended: Ended) -> None:
    """What would have been due falls due in the next turn, not within the call."""
    ended.deadlines.start("a")
    ended.clock.advance(9)

    ended.deadlines.change(5)
    before = list(ended.ended)
    ended.clock.advance(0)

    assert before == []
    assert ended.ended == [("a", 9.0)]


def test_another_length_of_nothing(ended: Ended) -> None:
    """Without keys there is no timer, and after the end there is none either."""
    ended.deadlines.change(3)
    assert ended.clock.getDelayedCalls() == []
    ended.deadlines.start("a")
    ended.deadlines.stop("a")
    ended.deadlines.change(4)
    assert ended.clock.getDelayedCalls() == []

    ended.deadlines.close()
    ended.deadlines.change(5)
    assert ended.clock.getDelayedCalls() == []
