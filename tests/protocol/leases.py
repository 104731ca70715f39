"""
Device, bridge and engine over one slot, from lease to lease (`device.md` §9, §10).

Requests come, are cancelled or overdue; the engine is lost and comes back; the slot is
leased again and again. The device's tick takes four steps here, one for each time that
it looks at what the host writes. The bridge takes orders one by one and then acts on
them; what an engine reports waits in its lease until the bridge hands it on.

Memory is strong here: `events` and `mailbox` are about weak memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from tests.protocol.explorer import STUCK, Step

OPEN, STOP = "open", "stop"
OPENED, DONE = "opened", "done"

#: Entries of the order ring per slot (`device.engine_mail`, rule 2).
RING_PER_SLOT: Final = 4

FOR_NOBODY: Final = "the engine serves a lease that is over, and nobody will tell it"

Order = tuple[str, int]
Event = tuple[int, str]


class State(NamedTuple):
    """
    Everybody's place; generations are 1, 2, ... and 0 is none.
    """

    # --- what is shared
    order_state: int = 0
    order_generation: int = 0
    order_ring: tuple[Order, ...] = ()
    events: tuple[Event, ...] = ()
    #: Even while the engine serves, odd while it is lost.
    role_state: int = 0
    device_bell: bool = False
    engine_bell: bool = False
    # --- device
    #: Which part of its tick comes next; empty: it waits.
    device: str = ""
    generation: int = 0
    is_live: bool = False
    is_sent: bool = False
    is_quiet: bool = False
    is_opened: bool = False
    is_ending: bool = False
    is_cancelled: bool = False
    role_seen: int = 0
    queued: int = 0
    rings_engines: bool = False
    # --- bridge
    bridge: str = ""
    batch: tuple[Order, ...] = ()
    is_lost: bool = False
    #: The lease of the slot, and what waits in it; 0: none.
    lease: int = 0
    lease_ended: bool = False
    reports: tuple[str, ...] = ()
    # --- engine: generations of the sequences that it holds, and of those opened
    holds: frozenset[int] = frozenset()
    told: frozenset[int] = frozenset()
    # --- what happened from outside so far
    submitted: int = 0
    losses: int = 0
    broken: str = ""


class Leases:
    """
    The model. *mutations* name what is wrong with it, `MUTATIONS` all that can be.
    """

    def __init__(
        self,
        mutations: Collection[str] = (),
        *,
        requests_max: int = 2,
        losses_max: int = 1,
    ) -> None:
        self._is = frozenset(mutations)
        assert self._is <= MUTATIONS.keys(), "no such mutation"
        self._requests_max = requests_max
        self._losses_max = losses_max

    def start(self) -> State:
        """Nothing was asked for."""
        return State()

    def fault(self, state: State) -> str:
        """What broke on the way, or an engine that works for nobody."""
        if state.broken:
            return state.broken
        if len(state.order_ring) > RING_PER_SLOT:
            return "the order ring is over its bound"
        if len(state.holds) > 1:
            return "the engine serves two generations of a slot"
        wanted = {state.generation} if state.is_live and state.is_sent else set()
        if self._is_quiet(state) and state.holds - wanted:
            return FOR_NOBODY
        return ""

    def _is_quiet(self, state: State) -> bool:
        return not (
            state.device
            or state.bridge
            or state.device_bell
            or state.engine_bell
            or state.reports
        )

    def is_settled(self, state: State) -> bool:
        """No request is active and everybody waits."""
        return self._is_quiet(state) and not (
            state.queued or state.is_live or state.holds or state.order_ring
        )

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Everybody's next step."""
        yield from self._outside(state)
        if state.device:
            yield Step(f"device: {state.device}", getattr(self, state.device)(state))
        elif state.device_bell:
            yield Step(
                "device: wakes", state._replace(device="work", device_bell=False)
            )
        if state.bridge:
            yield Step(f"bridge: {state.bridge}", getattr(self, state.bridge)(state))
        else:
            if state.engine_bell:
                woken = state._replace(bridge="take", engine_bell=False)
                yield Step("bridge: wakes", woken)
            if state.reports:
                yield Step("bridge: flushes", self._flush(state))
        for generation in state.holds:
            yield from self._engine_steps(state, generation)

    # --- from outside -----------------------------------------------------------------

    def _outside(self, state: State) -> Iterator[Step[State]]:
        if state.submitted < self._requests_max:
            new = state._replace(
                submitted=state.submitted + 1, queued=state.queued + 1, device_bell=True
            )
            yield Step("client: submits", new, own=False)
        if state.is_live and not state.is_cancelled:
            new = state._replace(is_cancelled=True, device_bell=True)
            yield Step("client: cancels", new, own=False)
        if not state.bridge and not state.is_lost and state.losses < self._losses_max:
            yield Step("engine: is lost", self._lose(state), own=False)
        if not state.bridge and state.is_lost:
            back = state._replace(
                is_lost=False, role_state=state.role_state + 1, device_bell=True
            )
            yield Step("engine: is back", back, own=False)

    def _lose(self, state: State) -> State:
        """`EngineBridge.lose`; the process is gone with all its sequences."""
        return state._replace(
            is_lost=True,
            losses=state.losses + 1,
            role_state=state.role_state + 1,
            device_bell=True,
            lease=0,
            reports=(),
            holds=frozenset(),
            told=frozenset(),
        )

    # --- the device: `slots.work`, `exchange` -----------------------------------------

    def work(self, state: State) -> State:
        """Losses, cancels, leases."""
        after = state._replace(device="orders")
        if state.role_state != state.role_seen:
            after = after._replace(role_seen=state.role_state, queued=0)
            if state.is_live:
                quiet = state.is_quiet or "no_stop_after_loss" in self._is
                after = after._replace(is_ending=True, is_quiet=quiet)
        if after.is_live and after.is_cancelled:
            after = after._replace(is_ending=True)
        if after.role_seen % 2:
            after = after._replace(queued=0)  # SUBMIT is answered 404
        if not after.is_live and after.queued:
            after = after._replace(
                queued=after.queued - 1,
                generation=after.generation + 1,
                is_live=True,
                is_sent=False,
                is_quiet=False,
                is_opened=False,
                is_ending=False,
                is_cancelled=False,
            )
        return after

    def orders(self, state: State) -> State:
        """Stops, then the open order once the slot's mailbox is the device's."""
        state = state._replace(device="collect")
        if not state.is_live:
            return state
        if state.is_ending:
            return self._send_stop(state)
        is_ours = state.order_state == 0 or "order_over_order" in self._is
        if state.is_sent or not is_ours:
            return state
        return state._replace(
            is_sent=True,
            order_state=1,
            order_generation=state.generation,
            order_ring=(*state.order_ring, (OPEN, state.generation)),
            rings_engines=True,
        )

    def _send_stop(self, state: State) -> State:
        if not state.is_sent or state.is_quiet or "stop_lost" in self._is:
            return state
        return state._replace(
            is_quiet=True,
            order_ring=(*state.order_ring, (STOP, state.generation)),
            rings_engines=True,
        )

    def collect(self, state: State) -> State:
        """`events.collect_lease`."""
        state = state._replace(device="commit")
        events = state.events
        while state.is_live and not state.is_ending and events:
            (generation, kind), *left = events
            events = tuple(left)
            if generation == state.generation:
                state = self._handle(state, kind)
            elif "no_generation_check" in self._is:
                return state._replace(
                    broken="an old generation's event reaches a new lease"
                )
        return state._replace(events=events)

    def _handle(self, state: State, kind: str) -> State:
        if kind == OPENED:
            if state.is_opened:
                return state._replace(broken="a lease is opened twice")
            return state._replace(is_opened=True)
        return state._replace(is_quiet=True, is_ending=True)

    def commit(self, state: State) -> State:
        """The lease ends, the bell rings; another tick at once if there is work."""
        if state.is_ending:
            state = state._replace(
                is_live=False, is_ending=False, is_cancelled=False, is_sent=False
            )
        state = state._replace(
            engine_bell=state.engine_bell or state.rings_engines, rings_engines=False
        )
        is_due = (state.queued and not state.is_live) or (
            state.is_live and state.events
        )
        return state._replace(device="work" if is_due else "")

    # --- the bridge -------------------------------------------------------------------

    def take(self, state: State) -> State:
        """`OrderReader.take`: one order more, or act on those taken."""
        if not state.order_ring:
            return state._replace(bridge="act")
        (kind, generation), *left = state.order_ring
        after = state._replace(order_ring=tuple(left))
        if kind == OPEN:
            if state.order_state != 1:
                return state._replace(broken="an order that was told is not there")
            if state.order_generation != generation:
                return state._replace(broken="an order was written over another")
            after = after._replace(order_state=0)
        return after._replace(batch=(*state.batch, (kind, generation)))

    def act(self, state: State) -> State:
        """`EngineBridge.doorbell_rung` on the reactor's thread, in one go."""
        batch = state.batch
        state = state._replace(batch=(), bridge="")
        for kind, generation in batch:
            if kind == OPEN:
                state = self._open(state, generation)
            elif state.lease == generation:
                state = self._stop(state)
            if kind == STOP and "no_ring_after_stop" not in self._is:
                state = state._replace(device_bell=True)
        return state

    def _open(self, state: State, generation: int) -> State:
        if state.is_lost:
            return state._replace(lease=0)
        if state.lease and not state.lease_ended:
            return state._replace(broken="a slot is opened twice")
        return state._replace(
            lease=generation,
            lease_ended=False,
            reports=(),
            holds=state.holds | {generation},
        )

    def _stop(self, state: State) -> State:
        after = state._replace(lease=0, reports=())
        if "stop_keeps_reports" in self._is:
            after = after._replace(reports=state.reports)
        return after._replace(holds=state.holds - {state.lease})

    def _flush(self, state: State) -> State:
        """What the lease's engine reported, as far as there is room: all of it."""
        # A lease that is over is not named any more; its reports were forgotten.
        name = state.lease or state.generation
        events = tuple((name, kind) for kind in state.reports)
        lease = 0 if state.lease_ended else state.lease
        return state._replace(
            events=state.events + events,
            reports=(),
            lease=lease,
            device_bell="no_ring_after_reports" not in self._is or state.device_bell,
        )

    # --- the engine -------------------------------------------------------------------

    def _engine_steps(self, state: State, generation: int) -> Iterator[Step[State]]:
        """It reports from any thread; a lease that was dropped takes nothing."""
        takes = generation == state.lease and not state.lease_ended
        if generation not in state.told:
            after = state._replace(told=state.told | {generation})
            if takes:
                after = after._replace(reports=(*state.reports, OPENED))
            yield Step("engine: opened", after)
        else:
            after = state._replace(
                holds=state.holds - {generation}, told=state.told - {generation}
            )
            if takes:
                after = after._replace(reports=(*state.reports, DONE), lease_ended=True)
            yield Step("engine: done", after)


#: What can be wrong, and the promise that it breaks.
MUTATIONS: Final = {
    "no_generation_check": "an old generation's event reaches a new lease",
    "order_over_order": "an order was written over another",
    "stop_lost": FOR_NOBODY,
    "stop_keeps_reports": "a lease is opened twice",
    "no_stop_after_loss": FOR_NOBODY,
    "no_ring_after_stop": STUCK,
    "no_ring_after_reports": STUCK,
}
