"""
Every state that a small model can reach, and whether one of them breaks a promise.

A model is a start, the steps out of a state, what is wrong in a state, and which states
are *settled*: nothing is owed to anybody. A step is the program's *own*, which it takes
sooner or later, or comes from outside (a peer sends, an engine dies) and may never be.

`explore` goes breadth first, so a trace that refutes a model is as short as one can be.
Besides faults it looks for states from which own steps alone lead to no settled state:
a wake-up was lost there, or a packet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import attrs

S = TypeVar("S", bound=Hashable)

#: More states than any model of this folder has; one that grows past it is a mistake.
STATES_MAX: Final = 200_000
#: The promise that is broken where own steps lead to no settled state.
STUCK: Final = "it never settles again"


class Step(NamedTuple, Generic[S]):
    """
    One thing that can happen, and the state after it.
    """

    action: str
    state: S
    #: Whether the program itself does it, sooner or later.
    own: bool = True


class Model(Protocol[S]):
    """
    What is explored.
    """

    def start(self) -> S:
        """Where everything begins."""

    def steps(self, state: S) -> Iterable[Step[S]]:
        """What can happen next; every possible order of it is tried."""

    def fault(self, state: S) -> str:
        """The promise that *state* breaks; empty if none."""

    def is_settled(self, state: S) -> bool:
        """Whether nothing is owed to anybody."""


@attrs.frozen
class Explored:
    """
    What there was to see.
    """

    states: int
    steps: int
    #: States in which nothing is owed.
    settled: int
    #: Names of the actions that happened; a model may never get to some of them.
    actions: frozenset[str]


class Refuted(AssertionError):
    """
    A promise does not hold; the trace leads there from the start.

    Attributes:
        promise: which one.
        trace: actions in their order.
    """

    def __init__(self, promise: str, trace: list[tuple[str, object]]) -> None:
        self.promise = promise
        self.trace = [action for action, _ in trace]
        lines = [promise]
        before: object = None
        for number, (action, state) in enumerate(trace):
            lines.append(f"  {number:2}. {action:<36} {_changes(before, state)}")
            before = state
        super().__init__("\n".join(lines))


def explore(model: Model[S], states_max: int = STATES_MAX) -> Explored:
    """
    Visit every state of *model*.

    Raises:
        Refuted: a state is at fault, or nothing that the program does by itself leads
            from it to a settled one.
    """
    start = model.start()
    came: dict[S, tuple[S, str] | None] = {start: None}
    before: dict[S, list[S]] = {}
    queue, actions, count = deque([start]), set(), 0
    while queue:
        state = queue.popleft()
        fault = model.fault(state)
        if fault:
            raise Refuted(fault, _trace(came, state))
        for action, after, own in model.steps(state):
            count += 1
            actions.add(action)
            if own:
                before.setdefault(after, []).append(state)
            if after not in came:
                came[after] = (state, action)
                queue.append(after)
        assert len(came) <= states_max, f"more than {states_max} states"
    settled = [state for state in came if model.is_settled(state)]
    _check_progress(came, before, settled)
    return Explored(len(came), count, len(settled), frozenset(actions))


def _check_progress(
    came: dict[S, tuple[S, str] | None], before: dict[S, list[S]], settled: list[S]
) -> None:
    """Own steps lead from every state to a settled one."""
    reaching, queue = set(settled), deque(settled)
    while queue:
        for earlier in before.get(queue.popleft(), ()):
            if earlier not in reaching:
                reaching.add(earlier)
                queue.append(earlier)
    stuck = [state for state in came if state not in reaching]
    if stuck:
        # Where nothing goes on any more is told rather than how it came to that.
        moving = {
            earlier
            for state, those in before.items()
            for earlier in those
            if earlier != state
        }
        ends = [state for state in stuck if state not in moving]
        raise Refuted(STUCK, _trace(came, (ends or stuck)[0]))


def _trace(came: dict[S, tuple[S, str] | None], state: S) -> list[tuple[str, object]]:
    trace: list[tuple[str, object]] = []
    while (step := came[state]) is not None:
        trace.append((step[1], state))
        state = step[0]
    return [("start", state), *reversed(trace)]


def _changes(before: object, after: object) -> str:
    """The fields of a named tuple that are not as they were."""
    fields = getattr(after, "_fields", None)
    if fields is None or before is None:
        return str(after)
    changed = [
        f"{name}={getattr(after, name)!r}"
        for name in fields
        if getattr(after, name) != getattr(before, name)
    ]
    return " ".join(changed)
