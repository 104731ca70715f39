"""
The judge of ledgers finds what is counted twice, not at all, or for somebody else.
"""

from __future__ import annotations

from tests.torture.expected import RECITED, RECITING, Oracle, Task
from tests.torture.histories import History, Life, Reading, State
from tests.torture.ledgers import Ledger, Sums, judge_ledger

ORACLE = Oracle()
TASK = Task(RECITING, "Say it.", 100)
PROMPT = len(TASK.rendered)
LIFE = Life(1, 0.0, 1.0, 50.0, 51.0)
BEFORE = {3: Sums(5, 500, 50)}
ONE = Sums(1, PROMPT, 100)


def ended(number: int) -> History:
    """A request that was seen to complete."""
    end = State("completed", False, 0, PROMPT, 100, "length")
    reading = Reading("read", 3.0, 0, 3.1, pieces=[(0, RECITED[:100])], states=[end])
    handle = f"req-{1:016x}-{number:032x}"
    return History(3, TASK, 2.0, 2.1, handle, [reading])


def lost() -> History:
    """One whose admission nobody knows of."""
    return History(3, TASK, 2.0, 2.1)


def wrong(after: Ledger, *histories: History, complete: bool = True) -> bool:
    found = judge_ledger(BEFORE, after, histories, LIFE, ORACLE, complete=complete)
    return bool(found)


def test_what_ended_is_counted_once() -> None:
    two = [ended(1), ended(2)]
    assert not wrong({3: BEFORE[3] + ONE + ONE}, *two)
    assert wrong({3: BEFORE[3] + ONE}, *two)
    assert wrong({3: BEFORE[3] + ONE + ONE + ONE}, *two)
    assert wrong({3: BEFORE[3] + ONE + ONE + Sums(0, 0, 1)}, *two)
    assert wrong({3: BEFORE[3] + ONE + ONE, 4: Sums(1)}, *two)


def test_a_killed_runtime_may_lack_something_and_never_has_more() -> None:
    two = [ended(1), ended(2)]
    assert not wrong({3: BEFORE[3] + ONE}, *two, complete=False)
    assert wrong({3: BEFORE[3] + ONE + ONE + ONE}, *two, complete=False)
    assert wrong({3: Sums(4, 500, 50)}, *two, complete=False)


def test_what_was_never_answered_may_count() -> None:
    assert not wrong(BEFORE, lost())
    assert not wrong({3: BEFORE[3] + ONE}, lost())
    assert wrong({3: BEFORE[3] + ONE + ONE}, lost())


def test_what_another_life_admitted_does_not_count() -> None:
    other = ended(1)
    other.handle = f"req-{2:016x}-{1:032x}"
    assert wrong({3: BEFORE[3] + ONE}, other)
