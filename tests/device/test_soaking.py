"""
What `bin/soak device` relies on: examples that come again, failures made short, counts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.device.machine.worlds import MACHINES, DeviceMachine
from tests.device.soaking.example import Example
from tests.device.soaking.tally import CountedPair, Tally
from tests.device.soaking.wanted import PAIRS, TRANSITIONS

STEPS = range(40)


@pytest.mark.parametrize("machine", dict.fromkeys(MACHINES))
def test_a_few_examples_of_each_machine(machine: type[DeviceMachine]) -> None:
    """Nothing diverges, and nothing happens that the lists do not know."""
    tally = Tally()
    for number in range(2):
        failure = Example(7, number, (machine,)).run(STEPS, tally)
        assert failure is None, failure
    assert tally.counts["steps"] == 2 * len(STEPS)
    assert list(tally.unlisted()) == []


def test_an_example_is_the_same_again() -> None:
    first, second = Tally(), Tally()
    for tally in (first, second):
        assert Example(3, 5).run(STEPS, tally) is None
    assert first == second


class HeldPair(CountedPair):
    """Takes the hold for a fault."""

    def invariants(self) -> list[str]:
        return ["planted"] if self.oracle.state.held else []


def test_a_failure_is_made_short() -> None:
    """One step sets the hold, one ticks; no other is needed."""
    for number in range(50):
        example = Example(11, number, pair=HeldPair)
        failure = example.run(range(20), Tally())
        if failure is not None:
            break
    assert failure is not None
    kept = example.shortest(range(failure.step + 1), 100)
    assert len(kept) == 2
    assert example.run(kept, Tally()) is not None


def test_totals_add_up(tmp_path: Path) -> None:
    tally, twice = Tally(), Tally()
    assert Example(3, 5).run(STEPS, tally) is None
    tally.save(tmp_path / "totals.json")
    for _ in range(2):
        twice.load(tmp_path / "totals.json")
    assert twice.counts["steps"] == 2 * tally.counts["steps"]
    assert twice.pairs == tally.pairs + tally.pairs
    assert twice.transitions == tally.transitions + tally.transitions
    assert twice.accepted == tally.accepted


def test_what_is_rare_is_told() -> None:
    """Everything is, before anything has happened."""
    rows = len(PAIRS) + len(TRANSITIONS)
    *_, last = Tally().lines(1)
    assert last.split()[0] == str(rows)
    *_, last = Tally().lines(0)
    assert last.split()[0] == "0"
