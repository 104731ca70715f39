"""
Between the device's slot mailboxes and the engines' verbs (`device.md` §10).

Orders go to the engine of their role, on the reactor's thread, in the order sent.
Reports come back from any thread, wait in their lease, and are handed to the device in
one batch per turn of the reactor; what finds the slot's ring full goes on at the next
doorbell.
Engines in kernels (`IKernelEngine`) get no orders: the device runs them itself.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import attrs
from twisted.logger import Logger

from twisted_aotx.device.numbers import Event
from twisted_aotx.devices import IDevice
from twisted_aotx.interfaces import IEngine
from twisted_aotx.orders import OpenOrder, StopOrder
from twisted_aotx.runtime.leases import BridgedLease
from twisted_aotx.runtime.unsaid import unsaid
from twisted_aotx.wire.numbers import Status


@attrs.frozen
class BridgedHost:
    """
    Implements `interfaces.EngineHost` for the engine of one role.
    """

    _bridge: EngineBridge
    _role: int

    def lost(self, reason: str) -> None:
        """See `interfaces.EngineHost`."""
        self._bridge.call(self._bridge.lose, self._role, reason)

    def back(self) -> None:
        """See `interfaces.EngineHost`."""
        self._bridge.call(self._bridge.restore, self._role)

    def control(self, name: str, available: bool) -> None:
        """See `interfaces.EngineHost`."""
        row = self._bridge.control_row(self._role, name)
        self._bridge.call(self._bridge.offer, row, available)


class EngineBridge:
    """
    The engines of a device.

    Args:
        reactor: IReactorFromThreads.
        device: takes reports and gives orders; see `IDevice` for threads.
        engines: one per role.
    """

    _log = Logger()

    def __init__(
        self, reactor: Any, device: IDevice, engines: Sequence[IEngine]
    ) -> None:
        self._reactor = reactor
        self._device = device
        self._engines = {engine.facts.role: engine for engine in engines}
        #: The lease of each slot, until it is over.
        self._leases: dict[int, BridgedLease] = {}
        #: Leases that ended with the loss of their engine, by role, until it is back.
        self._abandoned: dict[int, list[BridgedLease]] = {}
        self._lost: set[int] = set()
        #: Rows of the controls that the default language role's engine has withdrawn.
        self._withdrawn: set[int] = set()
        #: By role: how often its engine was lost, and came back.
        self.losses = dict.fromkeys(self._engines, 0)
        self.returns = dict.fromkeys(self._engines, 0)
        self._serving = False
        self._closed = False
        #: Leases with something to flush, and whether a flush is on its way.
        self._ready: dict[BridgedLease, None] = {}
        self._scheduled = False
        #: Leases whose ring was full.
        self._blocked: dict[BridgedLease, None] = {}
        self._lock = threading.Lock()

    # --- any thread -----------------------------------------------------------

    def host(self, engine: IEngine) -> BridgedHost:
        """What *engine* gets at its start."""
        return BridgedHost(self, engine.facts.role)

    def control_row(self, role: int, name: str) -> int:
        """
        Which row of the facts of *role* the control *name* is.

        Raises:
            ValueError: none is.
        """
        names = [row.name for row in self._engines[role].facts.controls]
        if name not in names:
            raise ValueError(f"the engine of role {role} declares no control {name!r}")
        return names.index(name)

    def call(self, verb: Any, *args: Any) -> None:
        """Call *verb* on the reactor's thread."""
        self._reactor.callFromThread(verb, *args)

    def wake(self, lease: BridgedLease) -> None:
        """Flush *lease* in the reactor's next turn."""
        with self._lock:
            self._ready[lease] = None
            if self._scheduled:
                return
            self._scheduled = True
        self.call(self._flush)

    # --- the reactor's thread -------------------------------------------------

    def serve(self) -> None:
        """
        The kernels are compiled: tell the device which engines were lost and which
        controls were withdrawn meanwhile.

        Before that every entry of the device would wait for the compiler.
        """
        self._serving = True
        for role in sorted(self._lost):
            self._device.set_engine(role, False)
        for row in sorted(self._withdrawn):
            self._device.set_control(row, False)

    def doorbell_rung(self) -> None:
        """The device published orders, or made room in a ring."""
        orders = self._device.orders()
        for order in orders:
            if isinstance(order, StopOrder):
                self._stop(order)
            else:
                self._open(order)
        if any(isinstance(order, StopOrder) for order in orders):
            # The slot's next order may wait until its mailbox was given back.
            self._device.ring()
        with self._lock:
            self._ready.update(self._blocked)
        self._blocked.clear()
        self._flush()

    def lose(self, role: int, reason: str) -> None:
        """The engine of *role* cannot serve: `device.md` §10, engine lost."""
        if role in self._lost or self._closed:
            return
        self._lost.add(role)
        self.losses[role] += 1
        self._log.error(
            "engine of role {role} lost: {reason}", role=role, reason=reason
        )
        if self._serving:
            self._device.set_engine(role, False)
        abandoned = self._abandoned[role] = []
        for slot, lease in list(self._leases.items()):
            if lease.order.role == role:
                if lease.drop():
                    abandoned.append(lease)
                del self._leases[slot]

    def restore(self, role: int) -> None:
        """The engine of *role* serves again."""
        if role not in self._lost or self._closed:
            return
        self._lost.discard(role)
        self.returns[role] += 1
        self._log.info("engine of role {role} is back", role=role)
        # It may have been back when it opened them: its word of the loss comes by way
        # of the reactor, and an order may overtake it.
        for lease in self._abandoned.pop(role, []):
            self._stop_engine(lease)
        if self._serving:
            self._device.set_engine(role, True)

    def offer(self, row: int, available: bool) -> None:
        """The control in *row* was withdrawn, or is available again."""
        if available == (row not in self._withdrawn) or self._closed:
            return
        if available:
            self._withdrawn.discard(row)
        else:
            self._withdrawn.add(row)
        if self._serving:
            self._device.set_control(row, available)

    def close(self) -> None:
        """Drop every lease; nothing reaches the device or an engine any more."""
        self._closed = True
        for lease in self._leases.values():
            lease.drop()
        self._leases.clear()
        self._abandoned.clear()
        self._blocked.clear()

    def _open(self, order: OpenOrder) -> None:
        engine = self._engines.get(order.role)
        if engine is None:
            self._log.error("an order for role {role}, without engine", role=order.role)
            self._device.report(
                order.slot, order.generation, Event.REFUSED, Status.UNAVAILABLE
            )
            return
        earlier = self._leases.pop(order.slot, None)
        if earlier is not None and earlier.drop():
            # The device stops a lease before it opens the next one of its slot.
            self._log.error("slot {slot} was opened twice", slot=order.slot)
            self._stop_engine(earlier)
        if order.role in self._lost:
            # The device ends this lease when it sees the loss.
            return
        lease = BridgedLease(order, self.wake)
        self._leases[order.slot] = lease
        try:
            engine.open(lease)
        except Exception as error:
            self._log.failure(
                "engine of role {role} could not open slot {slot}",
                unsaid(error),
                role=order.role,
                slot=order.slot,
            )
            lease.give_up()

    def _stop(self, order: StopOrder) -> None:
        lease = self._leases.get(order.slot)
        if lease is None or lease.order.generation != order.generation:
            return
        del self._leases[order.slot]
        if lease.drop():
            self._stop_engine(lease)

    def _stop_engine(self, lease: BridgedLease) -> None:
        """Tell the engine that *lease* is over; it has not ended it itself."""
        order = lease.order
        try:
            self._engines[order.role].stop(order.slot, order.generation)
        except Exception as error:
            self._log.failure(
                "engine of role {role} could not stop slot {slot}",
                unsaid(error),
                role=order.role,
                slot=order.slot,
            )

    def _flush(self) -> None:
        with self._lock:
            ready = list(self._ready)
            self._ready.clear()
            self._scheduled = False
        if self._closed or not ready:
            return
        for lease in ready:
            fault = lease.take_fault()
            if not lease.flush(self._device.report):
                self._blocked[lease] = None
            elif lease.is_over and self._leases.get(lease.order.slot) is lease:
                del self._leases[lease.order.slot]
            if fault is not None:
                self._log.warn(
                    "engine of role {role} broke the rules on slot {slot}: {fault}",
                    role=lease.order.role,
                    slot=lease.order.slot,
                    fault=fault,
                )
                self._stop_engine(lease)
        self._device.ring()
