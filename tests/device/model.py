"""
The oracle: a device in plain Python with the face of `IDevice`.

Written from `device.md` and `wire.md`, never from the kernels; `machine.py` gives both
the same inputs and compares every reply, order and refusal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tests.device.oracle.admission import admit
from tests.device.oracle.exchange import commit, exchange
from tests.device.oracle.lease import work
from tests.device.oracle.state import ACTIVE, Event, Mailbox, Model, State
from tests.device.stepped import HasFacts
from twisted_aotx.errors import ChannelBusy
from twisted_aotx.limits import (
    EVENT_BYTES_PER_SLOT,
    EVENTS_PER_SLOT,
    Capacities,
)
from twisted_aotx.orders import OpenOrder, StopOrder


class Oracle:
    """
    A device whose every tick is a walk over dictionaries.
    """

    def __init__(
        self,
        capacities: Capacities,
        *,
        epoch: int,
        hash_key: int,
        seed_key: int,
        engines: Sequence[HasFacts],
    ) -> None:
        models = {
            engine.facts.role: Model(
                role=engine.facts.role,
                sha256=engine.facts.model_sha256,
                modalities=engine.facts.modalities,
                capacity=engine.facts.capacity,
                message_format=engine.facts.message_format,
                kernel=getattr(engine, "model", None),
            )
            for engine in engines
        }
        del hash_key  # dictionaries keep their own
        self.channels = capacities.channels
        self.state = State(
            capacities=capacities,
            epoch=epoch,
            seed_key=seed_key,
            models=models,
            mailboxes=[Mailbox() for _ in range(capacities.channels)],
            generations=[0] * capacities.slots,
            reports={slot: [] for slot in range(capacities.slots)},
        )

    # --- the broker's side --------------------------------------------------------

    def is_free(self, channel: int) -> bool:
        return self.state.mailboxes[channel].state == 0

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        mailbox = self.state.mailboxes[channel]
        if mailbox.state != 0:
            raise ChannelBusy(channel)
        mailbox.state = 1
        mailbox.packet = packet
        mailbox.length = len(packet) if length is None else length

    def collect(self) -> Sequence[int]:
        replied, self.state.replied = self.state.replied, []
        return replied

    def reply(self, channel: int) -> bytes:
        mailbox = self.state.mailboxes[channel]
        if mailbox.state != 2:
            raise ChannelBusy(channel)
        return mailbox.packet

    def release(self, channel: int) -> None:
        assert self.state.mailboxes[channel].state == 2
        self.state.mailboxes[channel].state = 0

    # --- the engines' side --------------------------------------------------------

    def orders(self) -> Sequence[OpenOrder | StopOrder]:
        orders, self.state.orders = self.state.orders, []
        self.state.unread.clear()
        return orders

    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool:
        reports = self.state.reports[slot]
        waiting = sum(len(event.data) for event in reports)
        if (
            len(reports) >= EVENTS_PER_SLOT
            or waiting + len(data) > EVENT_BYTES_PER_SLOT
        ):
            return False
        reports.append(Event(generation=generation, kind=kind, value=value, data=data))
        return True

    def set_engine(self, role: int, active: bool) -> None:
        model = self.state.models[role]
        model.lost = model.lost or not active
        model.reported_active = active

    # --- the device ---------------------------------------------------------------

    def set_hold(self, held: bool) -> None:
        self.state.held = held

    def set_restoring(self, restoring: bool) -> None:
        self.state.restoring = restoring

    def ring(self) -> None:
        """Nothing sleeps here."""

    def close(self) -> None:
        """Nothing runs here."""

    def free(self) -> None:
        """Nothing is open here."""

    def tick(self, now_ns: int) -> None:
        state = self.state
        if state.restoring:
            return
        assert now_ns >= state.now
        state.now = now_ns
        state.ticks += 1
        admit(state)
        if not state.held:
            work(state)
            exchange(state)
            commit(state)

    def invariants(self) -> Sequence[str]:
        """What must hold between ticks, as sentences; empty when all of it does."""
        state = self.state
        broken: list[str] = []
        active = [e for e in state.entries.values() if e.phase in ACTIVE]
        if len(state.entries) > state.capacities.requests:
            broken.append("more requests than entries")
        if len(active) + len(state.retained) != len(state.entries):
            broken.append("an entry is neither active nor retained")
        if 0 in state.leases:
            broken.append("slot 0 is leased")
        for model in state.models.values():
            taken = sum(x.entry.role == model.role for x in state.leases.values())
            if taken > model.capacity:
                broken.append(f"role {model.role} has {taken} leases")
        if any(lease.entry.phase not in (2, 3) for lease in state.leases.values()):
            broken.append("a lease of a request that is not preparing or running")
        return broken

    def digest(self) -> bytes:
        """Changes exactly when the tables do; the clock and the tick count aside."""
        state = self.state
        tables = (
            state.revision,
            state.grants,
            sorted(state.entries.items()),
            [entry.key for entry in state.retained],
            state.admitted,
            sorted(state.leases.items()),
            state.generations,
        )
        return hashlib.sha256(repr(tables).encode()).digest()
