"""
One example of a soak: a machine, some of its rules, a number of steps.

What a step does follows from the seed, the example's number and the step's own, and
from the state that it finds. So any steps may be left out, and the others stay what
they were: that is how a failure is made short.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import attrs
from hypothesis.errors import StopTest

from tests.device.machine.rules import DeviceRules
from tests.device.machine.worlds import MACHINES, DeviceMachine
from tests.device.model import Oracle
from tests.device.pair import Pair
from tests.device.soaking.draws import Draws, Unlucky
from tests.device.soaking.tally import CountedPair, Tally
from twisted_aotx.device.host import Device

#: How likely a rule is within one example; in some it does not happen at all.
_WEIGHTS = (0, 1, 1, 2, 3, 6)
#: What would end most examples early or stand in everybody's way is rarer.
_RARE = {"restart": 0.05, "flush": 0.1, "audit": 0.3, "flood": 0.3, "set_hold": 0.5}
#: Rules drawn for one step at most, until one applies.
_RULES_DRAWN_MAX = 32
#: Without these nothing moves.
_NEEDED = ("install", "submit", "open", "serve", "tick_and_take", "save")


@attrs.frozen
class Failure:
    """Why an example ended, and after which of its steps."""

    step: int
    error: BaseException


@attrs.frozen
class Example:
    """Number *number* of the run from *seed*; *machines* are those that it may be."""

    seed: int
    number: int
    machines: Sequence[type[DeviceMachine]] = MACHINES
    pair: Callable[[Device, Oracle, Tally], CountedPair] = CountedPair

    def _random(self, what: object) -> Random:
        return Random(f"{self.seed}/{self.number}/{what}")

    @property
    def machine(self) -> type[DeviceMachine]:
        return self._random("machine").choice(self.machines)

    def weights(self) -> dict[str, float]:
        """By rule."""
        random = self._random("weights")
        weights = {}
        for name in sorted(_rules(self.machine)):
            weight = random.choice(_WEIGHTS) * _RARE.get(name, 1)
            weights[name] = max(weight, 1) if name in _NEEDED else weight
        return weights

    def run(
        self, steps: Sequence[int], tally: Tally, *, shown: bool = False
    ) -> Failure | None:
        """
        Do *steps* and wind up. *shown*: each is printed before it is done.
        """
        machine = _counted(self.machine, self.pair)(tally)
        played = _Played(machine, self.weights(), tally, shown=shown)
        step = -1
        try:
            for rule in machine.setup_state().initializers:
                played.play(rule, self._random("begin"), "begin")
            for step in steps:
                played.step(self._random(step), str(step))
            step = steps[-1] + 1 if steps else 0
            machine.wind_up()
        except Exception as error:
            return Failure(step, error)
        finally:
            machine.pair.close()
            machine.pair.free()
        tally.counts["examples"] += 1
        return None

    def shortest(self, steps: Sequence[int], runs_max: int) -> list[int]:
        """
        As few of *steps* as still fail, found by leaving out ever smaller pieces.
        """
        kept = list(steps)
        runs = 0
        size = max(1, len(kept) // 2)
        while runs < runs_max:
            before = len(kept)
            for start in range(len(kept) - size, -1, -size):
                fewer = kept[:start] + kept[start + size :]
                runs += 1
                if self.run(fewer, Tally()) is not None:
                    kept = fewer
                if runs == runs_max:
                    break
            if size == 1 and len(kept) == before:
                break
            size = max(1, size // 2)
        return kept


def _rules(machine: type[DeviceRules]) -> dict[str, Any]:
    return {rule.function.__name__: rule for rule in machine.setup_state().rules}


@functools.cache
def _counted(
    machine: type[DeviceMachine], pair: Callable[[Device, Oracle, Tally], CountedPair]
) -> Callable[[Tally], DeviceMachine]:
    """One class for each: Hypothesis keeps what it knows of a class for good."""

    class Counted(machine):  # type: ignore[valid-type, misc]
        def __init__(self, tally: Tally) -> None:
            self._tally = tally
            super().__init__()

        def make_pair(self, device: Device, oracle: Oracle) -> Pair:
            return pair(device, oracle, self._tally)

    return Counted


class _Played:
    """A machine with the likelihood of its rules."""

    def __init__(
        self,
        machine: DeviceMachine,
        weights: dict[str, float],
        tally: Tally,
        *,
        shown: bool,
    ) -> None:
        self._machine = machine
        self._rules = _rules(type(machine))
        self._weights = weights
        self._tally = tally
        self._shown = shown

    def step(self, random: Random, label: str) -> None:
        """
        The first rule drawn that applies: where it always does, whatever came before.
        """
        names, weights = list(self._weights), list(self._weights.values())
        for name in random.choices(names, weights, k=_RULES_DRAWN_MAX):
            if self._applies(name):
                break
        else:
            return
        self.play(self._rules[name], random, label)
        self._tally.counts["steps"] += 1
        self._tally.rules[name] += 1

    def _applies(self, name: str) -> bool:
        return all(holds(self._machine) for holds in self._rules[name].preconditions)

    def play(self, rule: Any, random: Random, label: str) -> None:
        """Draw the arguments of *rule* and do it; one that finds none is left out."""
        with Draws(random, shown=self._shown) as draws:
            try:
                values = {
                    name: draws.of(strategy)
                    for name, strategy in rule.arguments_strategies.items()
                }
                if self._shown:
                    sys.stdout.write(f"{label}: {rule.function.__name__}({values})\n")
                rule.function(self._machine, **values)
            except (Unlucky, StopTest):
                return
