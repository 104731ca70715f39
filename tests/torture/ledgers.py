"""
What the usage ledger may say, from what was seen of every request [D11].

A runtime that is killed loses the records that were not committed, so of its life only
what is too much is wrong. One that has nothing pending has counted all that ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.torture.expected import Answers
from tests.torture.histories import History, Life
from twisted_aotx.journal.usage import read_usage


@attrs.frozen
class Sums:
    """
    Requests, prompt tokens and sampled tokens.
    """

    requests: int = 0
    prompt: int = 0
    sampled: int = 0

    def __add__(self, other: Sums) -> Sums:
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Sums(*(one + two for one, two in pairs))

    def __sub__(self, other: Sums) -> Sums:
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Sums(*(one - two for one, two in pairs))

    def within(self, least: Sums, most: Sums) -> bool:
        """Whether each of the three is."""
        return all(
            low <= value <= high
            for low, value, high in zip(
                attrs.astuple(least),
                attrs.astuple(self),
                attrs.astuple(most),
                strict=True,
            )
        )


NOTHING: Final = Sums()
#: By the number of the principal.
Ledger = Mapping[int, Sums]


def ledger_of(state: Path) -> dict[int, Sums]:
    """The totals in the store of a state directory, and that they agree among them."""
    report = read_usage(state / "state.sqlite3")
    found: dict[int, Sums] = {}
    for row in report.rows:
        number = int.from_bytes(row.principal, "big")
        sums = Sums(row.requests, row.prompt_tokens, row.sampled_tokens)
        found[number] = found.get(number, NOTHING) + sums
    counted = sum(sums.requests for sums in found.values())
    assert counted == report.frontier, (counted, report.frontier)
    return found


def bounds(history: History, answers: Answers) -> tuple[Sums, Sums]:
    """The least and the most that *history* may add to the ledger."""
    end = history.end
    if end is not None:
        exact = Sums(1, end.prompt_tokens, end.tokens)
        return exact, exact
    expected = answers(history.task)
    return NOTHING, Sums(1, expected.prompt_tokens, expected.tokens)


def _of_life(histories: Iterable[History], life: Life) -> Iterator[History]:
    """Those that may have been admitted in *life*."""
    for history in histories:
        if history.handle is not None:
            if history.epoch == life.epoch:
                yield history
        elif history.asked <= life.dead and history.answered >= life.began:
            yield history


def judge_ledger(
    before: Ledger,
    after: Ledger,
    histories: Sequence[History],
    life: Life,
    answers: Answers,
    *,
    complete: bool,
) -> list[str]:
    """
    What is wrong with what *life* added to the ledger, in words.

    Args:
        before: At the end of the life before.
        complete: Whether nothing is pending: what ended is in it.
    """
    least: dict[int, Sums] = {}
    most: dict[int, Sums] = {}
    for history in _of_life(histories, life):
        low, high = bounds(history, answers)
        least[history.owner] = least.get(history.owner, NOTHING) + low
        most[history.owner] = most.get(history.owner, NOTHING) + high
    found = []
    for number in sorted({*before, *after, *most}):
        added = after.get(number, NOTHING) - before.get(number, NOTHING)
        low = least.get(number, NOTHING) if complete else NOTHING
        high = most.get(number, NOTHING)
        if not added.within(low, high):
            found.append(
                f"principal {number}, epoch {life.epoch}: "
                f"the ledger has {added} more, not {low}..{high}"
            )
    return found
