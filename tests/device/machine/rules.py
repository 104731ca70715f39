"""
The state machine: a device and the oracle get the same inputs, in any order.

Every tick compares every reply, every take every order, and both must find their
invariants whole.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.device.machine.clients import ClientRules
from tests.device.machine.engines import EngineRules
from tests.device.making import EPOCH, SECOND
from tests.device.oracle.state import ACTIVE, QUEUED
from tests.device.strategies.engines import Step, steps
from tests.device.strategies.frames import Intent
from twisted_aotx.wire.numbers import Operation


class DeviceRules(ClientRules, EngineRules):
    """
    Everything, and what the clock and the state store do.
    """

    @rule(step=steps, which=st.integers(0, 10**6))
    def tick(self, step: Step, which: int) -> None:
        active = [e for e in self.oracle.state.entries.values() if e.phase in ACTIVE]
        if step.to_deadline and active:
            entry = active[which % len(active)]
            deadline = entry.opened_ns + self.capacities.request_seconds * SECOND
            self.now = max(self.now, deadline + step.ns)
        elif not step.to_deadline:
            self.now += step.ns
        self._tick()

    @rule()
    def tick_and_take(self) -> None:
        self.now += 1
        self._tick()
        self._take_orders()

    @rule(held=st.sampled_from((True, False, False)))
    def set_hold(self, held: bool) -> None:
        self.pair.set_hold(held)

    @rule(ticks=st.integers(1, 3))
    def restore(self, ticks: int) -> None:
        """Ticks while the store is being read: nothing moves, not even the clock."""
        self.pair.set_restoring(True)
        for _ in range(ticks):
            self.now += 1
            self._tick()
        self.pair.set_restoring(False)

    @rule()
    def audit(self) -> None:
        """Read every request that is remembered, and what the caller may see."""
        self._audit()

    def _audit(self) -> None:
        state = self.oracle.state
        for entry in list(state.entries.values()):
            intent = Intent(
                Operation.READ,
                entry.principal,
                number=int.from_bytes(entry.id, "big"),
            )
            channel = self._channel(0)
            while channel is None:
                self._tick()
                channel = self._channel(0)
            self._publish(channel, intent.packet(EPOCH, state.revision), None)
            self._tick()

    def teardown(self) -> None:
        try:
            self._wind_up()
        finally:
            self.pair.close()
            self.pair.free()

    def _wind_up(self) -> None:
        """Let everything queued be leased or expire, then read all of it."""
        self.pair.set_hold(False)
        self._audit()
        for _ in range(self.capacities.requests + 2):
            if not any(e.phase == QUEUED for e in self.oracle.state.entries.values()):
                break
            self.now += self.capacities.request_seconds * SECOND + 1
            self._tick()
        self._take_orders()
        self._audit()
