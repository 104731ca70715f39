"""
The protocols between threads hold in every order of events, and the models notice when
they do not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import pytest

from tests.protocol import events, leases, mailbox, waiting, watching
from tests.protocol.explorer import STUCK, Model, Refuted, Step, explore
from twisted_aotx.broker.channel import TRANSITIONS, ChannelEvent, ChannelState


def device_loop(mutations: Collection[str] = ()) -> waiting.Waiting:
    return waiting.Waiting("device", mutations)


def reactor_loop(mutations: Collection[str] = ()) -> waiting.Waiting:
    return waiting.Waiting("reactor", mutations)


#: By name: how it is made, what can be wrong with it, and how many states it has at
#: least: a model that shrinks tells less than it did.
MODELS: dict[str, tuple[Any, dict[str, str], int]] = {
    "mailbox": (mailbox.Mailbox, mailbox.MUTATIONS, 15_000),
    "leases": (leases.Leases, leases.MUTATIONS, 50_000),
    "events": (events.Events, events.MUTATIONS, 800),
    "watching": (watching.Watching, watching.MUTATIONS, 1_700),
    "device loop": (device_loop, waiting.MUTATIONS, 200),
    "reactor loop": (reactor_loop, waiting.MUTATIONS, 100),
}
#: What a mutant of a model is explored with, where less is enough than for the model.
LESS: dict[str, Any] = {"leases": {"losses_max": 0}}
MUTANTS = [(name, each) for name, row in MODELS.items() for each in row[1]]


@pytest.mark.parametrize("name", MODELS)
def test_every_promise_holds_in_every_state(name: str) -> None:
    """
    Ownership is never shared, nothing old reaches anything new, no wake-up is lost, and
    whatever was asked is answered.
    """
    make, _, states_min = MODELS[name]

    explored = explore(make())

    assert explored.states >= states_min
    assert explored.settled > 1 or name == "events", "it settles at the end, too"


@pytest.mark.parametrize(("name", "mutation"), MUTANTS)
def test_what_is_wrong_is_noticed(name: str, mutation: str) -> None:
    """Each deliberate mistake breaks the promise that it should; the trace tells."""
    make, mutations, _ = MODELS[name]

    with pytest.raises(Refuted) as refuted:
        explore(make([mutation], **({} if "loss" in mutation else LESS.get(name, {}))))

    assert refuted.value.promise == mutations[mutation]
    assert len(refuted.value.trace) > 1


def test_an_old_reply_never_reaches_a_new_connection() -> None:
    """A channel that does not drain would do that."""
    careless = {
        **TRANSITIONS,
        (ChannelState.PUBLISHED, ChannelEvent.LOST): ChannelState.FREE,
        (ChannelState.IDLE, ChannelEvent.ANSWERED): ChannelState.IDLE,
        (ChannelState.FREE, ChannelEvent.ANSWERED): ChannelState.FREE,
    }

    with pytest.raises(Refuted, match="a reply reaches a peer that did not ask"):
        explore(mailbox.Mailbox(table=careless, packets_max=1))


@pytest.mark.parametrize("pair", TRANSITIONS, ids=lambda pair: pair[1].value)
def test_every_transition_of_a_channel_is_needed(
    pair: tuple[ChannelState, ChannelEvent],
) -> None:
    """And all of them are met: without any one of them something breaks."""
    fewer = {key: after for key, after in TRANSITIONS.items() if key != pair}

    with pytest.raises(Refuted, match=f"{pair[1]} while {pair[0]}"):
        explore(mailbox.Mailbox(table=fewer))


# --- the explorer ---------------------------------------------------------------------


class Place(NamedTuple):
    at: int = 0


class Walk:
    """
    From 0 to *goal*; 3 is a trap unless *exit_own* says how one gets out of it.
    """

    def __init__(self, exit_own: bool | None, fault_at: int = -1) -> None:
        self._exit_own = exit_own
        self._fault_at = fault_at

    def start(self) -> Place:
        return Place()

    def steps(self, state: Place) -> list[Step[Place]]:
        if state.at == 0:
            return [Step("on", Place(1)), Step("aside", Place(2), own=False)]
        if state.at == 2:
            return [Step("down", Place(3)), Step("back", Place(0), own=False)]
        if state.at == 3 and self._exit_own is not None:
            return [Step("out", Place(1), own=self._exit_own)]
        return []

    def fault(self, state: Place) -> str:
        return "it broke" if state.at == self._fault_at else ""

    def is_settled(self, state: Place) -> bool:
        return state.at == 1


def walked(walk: Model[Place]) -> Refuted:
    with pytest.raises(Refuted) as refuted:
        explore(walk)
    return refuted.value


def test_the_explorer_counts_what_it_saw() -> None:
    """Four places, five steps, one of them settled."""
    explored = explore(Walk(exit_own=True))

    assert (explored.states, explored.steps, explored.settled) == (4, 5, 1)
    assert explored.actions == {"on", "aside", "down", "back", "out"}


def test_the_explorer_tells_the_way_to_a_fault() -> None:
    """The shortest one, step by step, with what each changed."""
    refuted = walked(Walk(exit_own=True, fault_at=3))

    assert refuted.trace == ["start", "aside", "down"]
    assert str(refuted).splitlines()[0] == "it broke"
    assert [line.split()[-1] for line in str(refuted).splitlines()[2:]] == [
        "at=2",
        "at=3",
    ]


@pytest.mark.parametrize("exit_own", [None, False])
def test_the_explorer_finds_a_trap(exit_own: bool | None) -> None:
    """Also one that only something from outside would lead out of."""
    refuted = walked(Walk(exit_own))

    assert refuted.promise == STUCK
    assert refuted.trace == ["start", "aside", "down"]


def test_the_explorer_has_a_bound() -> None:
    """A model that grows without end is stopped."""
    with pytest.raises(AssertionError, match="more than 3 states"):
        explore(Walk(exit_own=True), states_max=3)
