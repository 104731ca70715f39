"""
Writers, one doorbell, and the two loops that wait for it: the device's (`device.loop`:
poll, take the counter if it was rung, tick) and the reactor's (`runtime.doorbell`: told
that it is readable, take the counter, look).

A loop that sleeps while something is published sleeps for ever: there is no heartbeat
here. The device may also wake because something is due; the reactor may be told of a
doorbell whose counter is gone, and does not look then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from tests.protocol.explorer import STUCK, Step

#: What a writer does for each of its items, and a loop when it wakes.
WRITER: Final = ("publish", "ring")
LOOP: Final = ("take", "look")
#: Whether a loop looks when it wakes and nobody rang.
LOOPS: Final = {"device": True, "reactor": False}


class State(NamedTuple):
    """
    Whether the counter is above 0, and everybody's place.
    """

    is_rung: bool = False
    #: By writer: what it does next, an index of its script, and the items it has left.
    writers: tuple[tuple[int, int], ...] = ()
    published: int = 0
    #: What the loop does next; -1: it sleeps.
    loop: int = -1
    seen: int = 0


class Waiting:
    """
    The model of a *loop*. *mutations* name what is wrong with it, `MUTATIONS` all that
    can be.
    """

    def __init__(
        self,
        loop: str,
        mutations: Collection[str] = (),
        *,
        writers: int = 2,
        items: int = 3,
    ) -> None:
        self._is = frozenset(mutations)
        assert self._is <= MUTATIONS.keys(), "no such mutation"
        self._loop = LOOP[:: -1 if "looks_first" in self._is else 1]
        self._looks_unrung = LOOPS[loop]
        self._writer = WRITER[:: -1 if "rings_first" in self._is else 1]
        self._start = State(writers=((0, items),) * writers)

    def start(self) -> State:
        """Nothing is published."""
        return self._start

    def fault(self, state: State) -> str:
        """There is nothing to break here but to wait for ever."""
        return ""

    def is_settled(self, state: State) -> bool:
        """Everything was seen."""
        return state.loop == -1 and state.seen == state.published

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Writers go on; the loop wakes, takes and looks."""
        for n, (at, items) in enumerate(state.writers):
            if at or items:
                yield self._write(state, n, at, items)
        if state.loop >= 0:
            yield self._go_on(state)
        elif state.is_rung:
            yield Step("loop: wakes", state._replace(loop=0))
        elif self._looks_unrung:
            woken = state._replace(loop=self._loop.index("look"))
            yield Step("loop: wakes unrung", woken, own=False)

    def _write(self, state: State, n: int, at: int, items: int) -> Step[State]:
        # Nothing makes a writer begin with its next item; what it began it ends.
        begins = at == 0
        row = (1, items - 1) if begins else (0, items)
        after = state._replace(
            writers=(*state.writers[:n], row, *state.writers[n + 1 :])
        )
        if self._writer[at] == "publish":
            after = after._replace(published=state.published + 1)
        elif "rings_for_the_first" not in self._is or state.published == 1:
            after = after._replace(is_rung=True)
        return Step(f"writer {n}: {self._writer[at]}", after, own=not begins)

    def _go_on(self, state: State) -> Step[State]:
        after = state._replace(loop=-1 if state.loop else 1)
        if self._loop[state.loop] == "take":
            return Step("loop: takes the counter", after._replace(is_rung=False))
        seen = state.published
        if "one_at_a_time" in self._is:
            seen = min(state.seen + 1, seen)
        return Step("loop: looks", after._replace(seen=seen))


#: What can be wrong, and the promise that it breaks.
MUTATIONS: Final = {
    "looks_first": STUCK,
    "rings_first": STUCK,
    "rings_for_the_first": STUCK,
    "one_at_a_time": STUCK,
}
