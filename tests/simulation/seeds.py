"""
Many seeds, one after the other, and what they came to together.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator

import attrs

from tests.simulation.simulation import Outcome, run
from tests.sources import ROOT
from twisted_aotx.wire.numbers import Operation, Phase

#: Faults that are told of at most.
_TOLD_MAX = 8


@attrs.define
class Tally:
    """
    What happened over all seeds so far.
    """

    seeds: int = 0
    events: int = 0
    counts: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    #: What each seed with a fault says, in order.
    failures: list[str] = attrs.field(factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        history = outcome.history
        self.seeds += 1
        self.events += len(history.events)
        self.counts.update(history.counts)
        for reply in history.of("reply"):
            operation = history.events[reply.frame].operation
            self.counts["reply", f"{operation} {reply.status}"] += 1
            is_window = operation in (Operation.READ, Operation.CANCEL)
            if is_window and reply.status == 200:
                name = f"{Phase(reply.phase).name.lower()} {reply.failure}"
                self.counts["seen", name] += 1
        if outcome.faults:
            self.failures.append(described(outcome))

    def __str__(self) -> str:
        lines = [f"{self.seeds} seeds, {self.events} events"]
        for (group, name), count in sorted(self.counts.items()):
            lines.append(f"{count:9} {group}: {name}")
        return "\n".join([*lines, *self.failures])


def commit() -> str:
    """What is checked out; with a star if files differ from it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"


def described(outcome: Outcome) -> str:
    """What is wrong with a seed, and how to have it again."""
    told = "\n".join(f"  {fault}" for fault in outcome.faults[:_TOLD_MAX])
    return (
        f"seed {outcome.seed}, commit {commit()}: {len(outcome.faults)} wrong\n{told}\n"
        f"  again: python -m tests.simulation {outcome.seed}"
    )


def tally(seeds: Iterator[int], goes_on: Callable[[int], bool]) -> Tally:
    """Run *seeds* while *goes_on* says so of how many were run."""
    found = Tally()
    for seed in seeds:
        if not goes_on(found.seeds):
            break
        found.add(run(seed))
    return found


def for_seconds(
    seconds: float, *, least: int = 0, most: int = 10**9
) -> Callable[[int], bool]:
    """To go on until *seconds* are over; never fewer than *least*, more than *most*."""
    end = time.monotonic() + seconds
    return lambda count: count < least or (count < most and time.monotonic() < end)
