"""
The ring of a slot's events between the bridge and the device (`device.engine_mail`).

The writer finds the ring full, says so in `e_wait`, rings the device and waits for the
engines' doorbell; the device makes room, looks whether somebody waits, and rings. Each
side writes one word and reads the other's, so both may miss each other: that the
doorbells are system calls is what saves them. The ring has one entry here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from tests.protocol.explorer import STUCK, Step
from tests.protocol.memory import Memory

HOST, DEVICE = 0, 1
#: Entries of the ring.
ENTRIES: Final = 1

#: Writes of `device.engine_mail.post_event` in their order, and which are releases.
POST: Final = (("e_kind", False), ("e_tail", True))
WORDS: Final = ("e_kind", "e_tail", "e_head", "e_wait")


class State(NamedTuple):
    """
    Everybody's place. Events are numbered from 1; a word holds the last one's number.
    """

    memory: Memory = Memory.of(WORDS)
    device_bell: bool = False
    engine_bell: bool = False
    #: What the host does next; empty: it waits for its doorbell, or has nothing.
    host: str = "post"
    posted: int = 0
    is_blocked: bool = False
    device: str = ""
    taken: int = 0
    rings_engines: bool = False
    broken: str = ""


class Events:
    """
    The model. *mutations* name what is wrong with it, `MUTATIONS` all that can be.
    """

    def __init__(self, mutations: Collection[str] = (), *, events_max: int = 4) -> None:
        self._is = frozenset(mutations)
        assert self._is <= MUTATIONS.keys(), "no such mutation"
        self._events_max = events_max

    def start(self) -> State:
        """The first event is to be posted."""
        return State()

    def fault(self, state: State) -> str:
        """What broke on the way."""
        return state.broken

    def is_settled(self, state: State) -> bool:
        """The device has taken every event, and both wait."""
        return (
            state.taken == self._events_max
            and state.memory.is_quiet
            and not (state.host or state.device or state.device_bell)
        )

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Everybody's next step, and what may surface."""
        if state.host:
            yield Step(f"host: {state.host}", getattr(self, state.host)(state))
        elif state.engine_bell:
            if "host_looks_first" in self._is:
                yield Step("host: wakes", state._replace(host="post"))
            else:
                woken = state._replace(host="post", engine_bell=False)
                yield Step("host: wakes", woken)
        if state.device:
            name = f"device_{state.device}"
            yield Step(f"device: {state.device}", getattr(self, name)(state))
        else:
            awake = state._replace(device="look")
            if state.device_bell:
                yield Step("device: wakes", awake._replace(device_bell=False))
            yield Step("device: wakes for another", awake, own=False)
        for word, memory in state.memory.surfacing():
            yield Step(f"memory: {word}", state._replace(memory=memory))

    # --- the host: `EngineBridge._flush` ----------------------------------------------

    def post(self, state: State) -> State:
        """Look for room, then write or say that one waits."""
        if state.posted == self._events_max:
            return state._replace(host="ring")
        memory = state.memory
        if state.posted - memory.read(HOST, "e_head") >= ENTRIES:
            return state._replace(host="wait")
        number = state.posted + 1
        for word, release in POST:
            is_release = release and "post_without_release" not in self._is
            memory = memory.write(HOST, word, number, is_release)
        return state._replace(memory=memory, posted=number, host="post")

    def wait(self, state: State) -> State:
        """`e_wait`; then the device is rung, and the host waits for room."""
        memory = state.memory
        if "no_wait_word" not in self._is:
            memory = memory.write(HOST, "e_wait", 1, True)
        after = state._replace(memory=memory, host="ring")
        if "no_ring_when_full" in self._is:
            return after._replace(host=self._done())
        return after

    def ring(self, state: State) -> State:
        """A system call."""
        memory = state.memory.surfaced(HOST)
        return state._replace(memory=memory, device_bell=True, host=self._done())

    def _done(self) -> str:
        return "take_late" if "host_looks_first" in self._is else ""

    def take_late(self, state: State) -> State:
        """Looked first, takes the counter now."""
        return state._replace(host="", engine_bell=False)

    # --- the device: `exchange.collect`, `_give_back`, `commit` -----------------------

    def device_look(self, state: State) -> State:
        """`events.collect_lease`."""
        if state.memory.read(DEVICE, "e_tail") == state.taken:
            return state._replace(device="wait")
        if "room_before_copy" in self._is:
            memory = state.memory.write(DEVICE, "e_head", state.taken + 1, True)
            return state._replace(device="copy", memory=memory)
        return state._replace(device="copy")

    def device_copy(self, state: State) -> State:
        """`exchange.append`: the entry is read where it stands."""
        number = state.taken + 1
        if state.memory.read(DEVICE, "e_kind") != number:
            return state._replace(broken="an event is read that is not there")
        return state._replace(device="give_back", taken=number)

    def device_give_back(self, state: State) -> State:
        """`exchange._give_back`."""
        memory = state.memory.write(DEVICE, "e_head", state.taken, True)
        return state._replace(device="wait", memory=memory)

    def device_wait(self, state: State) -> State:
        """`exchange.commit`: does the writer wait?"""
        after = state._replace(device="due")
        if state.memory.read(DEVICE, "e_wait") == 0:
            return after
        return after._replace(device="clear")

    def device_clear(self, state: State) -> State:
        """The word is cleared, and the engines' doorbell rings after the tick."""
        memory = state.memory.write(DEVICE, "e_wait", 0, True)
        rings = "clear_without_ring" not in self._is
        return state._replace(device="due", memory=memory, rings_engines=rings)

    def device_due(self, state: State) -> State:
        """Ring; another tick at once if events are left (`tick._lease_due`)."""
        if state.rings_engines:
            state = state._replace(
                memory=state.memory.surfaced(DEVICE),
                engine_bell=True,
                rings_engines=False,
            )
        is_left = state.memory.read(DEVICE, "e_tail") != state.taken
        return state._replace(device="look" if is_left else "")


#: What can be wrong, and the promise that it breaks.
MUTATIONS: Final = {
    "post_without_release": "an event is read that is not there",
    "room_before_copy": "an event is read that is not there",
    "no_wait_word": STUCK,
    "no_ring_when_full": STUCK,
    "clear_without_ring": STUCK,
    "host_looks_first": STUCK,
}
