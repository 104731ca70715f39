"""
The usage ledger against what an observer of every request wrote down [D11].

`AOTX_FULL=1` makes 10,000 requests in each test, with ten kills.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.asynchronous import asynchronous
from tests.endtoend.accounts import (
    FEW_PAGES,
    OVERHEAD,
    PRINCIPALS,
    ROLES,
    TOKENS,
    Key,
    Observer,
    Sums,
    Task,
    ledger,
    make_accounts,
    make_models,
    principal,
)
from tests.endtoend.activations import Activation, activation, together
from twisted_aotx.wire.numbers import Phase

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FULL = "AOTX_FULL" in os.environ
REQUESTS = 10_000 if FULL else 1_000
KILLS = 10 if FULL else 1
#: Prompts of UNIT << n tokens, n below POWERS: any sum of different ones tells which.
UNIT = 72
POWERS = 10 if FULL else 4
FEW_IDS = {principal(number) for number in FEW_PAGES}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(make_models(tmp_path / "models")))
    return make_accounts(tmp_path)


def random_task(chance: random.Random, numbers: Sequence[int]) -> Task:
    """Prompts and limits of any size; some fail, some are cancelled."""
    text = "x" * chance.choice((chance.randint(0, 300), chance.randint(0, 6000)))
    if chance.random() < 0.05:
        # `device.md` §5: admitted, and failed with 400 once leased.
        text += "<|image_pad|>"
    return Task(
        number=chance.choice(numbers),
        role=chance.choice(list(ROLES)),
        text=text,
        limit=chance.randint(1, TOKENS // 4),
        cancel=chance.choice((None, None, None, "at once", "running")),
    )


def sums_of(observer: Observer) -> dict[Key, Sums]:
    found: dict[Key, Sums] = {}
    for task, prompt, sampled in observer.seen:
        found[task.key] = found.get(task.key, Sums()) + Sums(1, prompt, sampled)
    return found


def plus(one: dict[Key, Sums], other: dict[Key, Sums]) -> dict[Key, Sums]:
    return {
        key: one.get(key, Sums()) + other.get(key, Sums()) for key in {*one, *other}
    }


@asynchronous
async def test_the_ledger_is_what_an_observer_wrote_down(state: Path) -> None:
    """Three activations; what was pending at an orderly end is in the ledger, too."""
    chance = random.Random(11)
    wanted: dict[Key, Sums] = {}
    ends: Counter[tuple[int, int]] = Counter()
    made = 0
    for number in range(3):
        count = REQUESTS // 3 + (number < REQUESTS % 3)
        tasks = [random_task(chance, range(1, PRINCIPALS + 1)) for _ in range(count)]
        async with activation(state, chance) as life:
            if number == 0:
                # Review is off at first: only a ring that fills up is committed.
                await life.play(tasks)
            else:
                await together(life.play(tasks), life.control())
            await life.stop()
            if number == 0:
                assert (life.completed > 0) == (count > 3072)
        wanted = plus(wanted, sums_of(life.observer))
        made += len(life.observer.seen)
        ends += life.observer.ends
        assert ledger(state) == wanted
    assert made == REQUESTS
    assert set(ends) == {
        (Phase.COMPLETED, 0),
        (Phase.FAILED, 400),
        (Phase.CANCELLED, 409),
    }
    assert min(ends.values()) > REQUESTS // 20


def marked_tasks(chance: random.Random) -> list[Task]:
    """
    Of some principals at most one request of each prompt size, so that a sum of prompt
    tokens tells which of them are in it; of the others any.
    """
    few = list(FEW_PAGES)
    marked = [
        Task(
            number=number,
            role=role,
            text="y" * ((UNIT << power) - OVERHEAD),
            limit=chance.randint(1, TOKENS // 4),
            cancel=chance.choice((None, "running")),
        )
        for number in range(1, PRINCIPALS + 1)
        if number not in few
        for role in ROLES
        for power in range(POWERS)
    ]
    count = REQUESTS // (KILLS + 1) - len(marked)
    tasks = marked + [random_task(chance, few) for _ in range(count)]
    chance.shuffle(tasks)
    return tasks


def lacking(life: Activation, added: dict[Key, Sums]) -> int:
    """
    How many requests that were seen to end are not in what was *added* to the ledger.

    None may be in it that was not made, none twice, none with other numbers.
    """
    count = 0
    keys = {task.key for task in life.observer.asked}
    assert {key for key, sums in added.items() if sums != Sums()} <= keys
    for key in keys:
        asked = [task for task in life.observer.asked if task.key == key]
        seen = [each for each in life.observer.seen if each[0].key == key]
        sums = added.get(key, Sums())
        if key[0] not in FEW_IDS:
            count += _lacking_marked(asked, seen, sums)
        else:
            assert sums.requests <= len(asked)
            assert sums.prompt <= sum(OVERHEAD + len(task.text) for task in asked)
            assert sums.sampled <= sum(task.limit for task in asked)
            count += max(0, len(seen) - sums.requests)
    return count


def _lacking_marked(
    asked: Sequence[Task], seen: Sequence[tuple[Task, int, int]], sums: Sums
) -> int:
    made = {OVERHEAD + len(task.text): task for task in asked}
    ended = {prompt: sampled for _, prompt, sampled in seen}
    assert set(ended) <= set(made)
    counted = {UNIT << n for n in range(POWERS) if sums.prompt // UNIT >> n & 1}
    # One of them twice would be a bit fewer, or one that is too high.
    assert sum(counted) == sums.prompt
    assert len(counted) == sums.requests
    assert counted <= set(made)
    known = sum(ended[prompt] for prompt in counted & set(ended))
    unknown = sum(made[prompt].limit for prompt in counted - set(ended))
    assert known <= sums.sampled <= known + unknown
    return len(set(ended) - counted)


@asynchronous
async def test_a_killed_runtime_counts_nothing_twice(state: Path) -> None:
    """What the ledger lacks, the metric had shown as pending, or it ended after."""
    chance = random.Random(12)
    before: dict[Key, Sums] = {}
    made = 0
    for _ in range(KILLS):
        tasks = marked_tasks(chance)
        async with activation(state, chance) as life:
            after = chance.randint(len(tasks) // 10, len(tasks) * 9 // 10)
            await together(
                life.play(tasks), life.control(), life.watch(), life.kill(after)
            )
        now = ledger(state)
        lost = lacking(life, {key: now[key] - before.get(key, Sums()) for key in now})
        seen_later = len(life.observer.seen) - life.seen_before
        assert lost <= life.pending + seen_later
        before = now
        made += len(life.observer.asked)
    # And what comes after the last of them is exact again.
    rest = [
        random_task(chance, range(1, PRINCIPALS + 1)) for _ in range(REQUESTS - made)
    ]
    async with activation(state, chance) as life:
        await together(life.play(rest), life.control())
        await life.stop()
    assert ledger(state) == plus(before, sums_of(life.observer))
