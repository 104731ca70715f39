"""
Who waits for a request's progress, and the device's word that somebody does
(`watch.table`, `device.progress`).

A gateway watches, is answered at once, reads, renews its watch with what it read, and
reads again when it is told. The device counts a request's bytes up; while the word says
that nobody watches, it tells nothing. The gateway has no timer here: what it is not
told it never learns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from tests.protocol.explorer import STUCK, Step

#: Entries of the notice ring.
ENTRIES: Final = 1


class State(NamedTuple):
    """
    Everybody's place; progress is a number of bytes.
    """

    # --- what is shared
    is_watched: bool = False
    is_asked: bool = False
    reply: int = -1
    notices: tuple[int, ...] = ()
    is_lost: bool = False
    # --- engine and device
    made: int = 0
    stands: int = 0
    device: str = ""
    sees_watch: bool = False
    answer: int = -1
    # --- the watch, once there is one: what was told, whether it is armed
    has_watch: bool = False
    told: int = 0
    is_armed: bool = False
    is_doubtful: bool = False
    # --- gateway: what it does or waits for, and what it knows
    gateway: str = "watch"
    knows: int = 0


class Watching:
    """
    The model. *mutations* name what is wrong with it, `MUTATIONS` all that can be.
    """

    def __init__(self, mutations: Collection[str] = (), *, bytes_max: int = 3) -> None:
        self._is = frozenset(mutations)
        assert self._is <= MUTATIONS.keys(), "no such mutation"
        self._bytes_max = bytes_max
        #: Steps of a tick, each with the one that follows it.
        self._after = {"": "claim", "claim": "look", "look": "commit", "commit": ""}
        if "looks_before_claim" in self._is:
            self._after = {"": "look", "look": "claim", "claim": "commit", "commit": ""}

    def start(self) -> State:
        """Nobody watches."""
        return State()

    def fault(self, state: State) -> str:
        """There is nothing to break here but to wait for ever."""
        return ""

    def is_settled(self, state: State) -> bool:
        """The gateway knows where the request stands, and waits for more."""
        return state.gateway == "notice" and state.knows == state.stands == state.made

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Everybody's next step."""
        if state.made < self._bytes_max:
            yield Step("engine: emits", state._replace(made=state.made + 1), own=False)
        name = state.device or "tick"
        yield Step(f"device: {name}", getattr(self, name)(state))
        if state.gateway in {"watch", "read", "renew"}:
            step = getattr(self, f"gateway_{state.gateway}")(state)
            yield Step(f"gateway: {state.gateway}", step)
        elif state.gateway == "reply" and state.reply >= 0:
            after = state._replace(knows=state.reply, reply=-1, gateway="renew")
            yield Step("gateway: has read", after)
        if state.notices or state.is_lost:
            yield Step("watch: hands out", self._hand_out(state))
        if state.has_watch and not state.is_watched:
            yield Step("watch: tells the device", state._replace(is_watched=True))

    # --- gateway and watch service ----------------------------------------------------

    def gateway_watch(self, state: State) -> State:
        """A new watch is answered at once; the device is told before that."""
        word = "word_after_answer" not in self._is
        return state._replace(is_watched=word, has_watch=True, gateway="read")

    def gateway_read(self, state: State) -> State:
        """READ is published."""
        return state._replace(is_asked=True, gateway="reply")

    def gateway_renew(self, state: State) -> State:
        """`WatchTable.watch`, rule 3: answered at once, or armed."""
        is_doubtful = state.is_doubtful and "loss_forgotten" not in self._is
        is_further = state.told > state.knows and "armed_blindly" not in self._is
        armed = not (is_doubtful or is_further)
        return state._replace(
            is_doubtful=False, is_armed=armed, gateway="notice" if armed else "read"
        )

    def _hand_out(self, state: State) -> State:
        """`WatchService.progress_published`: `lost`, or `progressed` for each."""
        if state.is_lost:
            state, news = state._replace(is_lost=False, notices=()), True
        else:
            news = state.notices[-1] > state.knows
            state = state._replace(told=state.notices[-1], notices=())
            if not state.is_armed:
                return state
        if state.is_armed:
            return state._replace(is_armed=False, gateway="read") if news else state
        return state._replace(is_doubtful=True)

    # --- device -----------------------------------------------------------------------

    def tick(self, state: State) -> State:
        """It begins."""
        return state._replace(device=self._after[""])

    def claim(self, state: State) -> State:
        """`mailbox.claim` and `admit`: a READ finds what stands before the commit."""
        answer = state.stands if state.is_asked else -1
        return state._replace(
            is_asked=False, answer=answer, device=self._after["claim"]
        )

    def look(self, state: State) -> State:
        """`tick._begin`: does anybody watch?"""
        return state._replace(sees_watch=state.is_watched, device=self._after["look"])

    def commit(self, state: State) -> State:
        """`exchange.commit`, `publish_notices`, `publish_replies`."""
        if state.made > state.stands:
            state = state._replace(stands=state.made)
            if state.sees_watch and len(state.notices) < ENTRIES:
                state = state._replace(notices=(*state.notices, state.stands))
            elif state.sees_watch and "loss_untold" not in self._is:
                state = state._replace(is_lost=True)
        if state.answer >= 0:
            state = state._replace(reply=state.answer, answer=-1)
        return state._replace(device="")


#: What can be wrong, and the promise that it breaks.
MUTATIONS: Final = {
    "looks_before_claim": STUCK,
    "word_after_answer": STUCK,
    "armed_blindly": STUCK,
    "loss_forgotten": STUCK,
    "loss_untold": STUCK,
}
