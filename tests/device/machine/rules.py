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
from tests.device.machine.keeping import KeepingRules
from tests.device.machine.media import MediaRules
from tests.device.making import SECOND
from tests.device.oracle.kernel_engine import due_ns
from tests.device.oracle.state import ACTIVE, QUEUED
from tests.device.strategies.engines import Step, steps
from tests.device.strategies.frames import Intent
from twisted_aotx.wire.numbers import Operation


class DeviceRules(ClientRules, EngineRules, MediaRules, KeepingRules):
    """
    Everything, and what the clock does.
    """

    @rule(step=steps, which=st.integers(0, 10**6))
    def tick(self, step: Step, which: int) -> None:
        if step.due:
            times = {
                "deadline": self._deadlines,
                "token": self._tokens_due,
                "receipt": self._receipts_due,
            }[step.due]()
            if times:
                self.now = max(self.now, times[which % len(times)] + step.ns)
        else:
            self.now += step.ns
        self._tick()

    def _deadlines(self) -> list[int]:
        seconds = self.capacities.request_seconds
        return [
            entry.opened_ns + seconds * SECOND
            for entry in self.oracle.state.entries.values()
            if entry.phase in ACTIVE
        ]

    def _receipts_due(self) -> list[int]:
        receipts = self.oracle.state.media.receipts
        return [receipt.deadline_ns for receipt in receipts.values()]

    def _tokens_due(self) -> list[int]:
        state = self.oracle.state
        times = []
        for lease in state.leases.values():
            model = state.models[lease.entry.role].kernel
            if lease.sequence is not None and lease.sequence.is_open and model:
                times.append(due_ns(lease.sequence, model.rate))
        return times

    @rule()
    def tick_and_take(self) -> None:
        self.now += 1
        self._tick()
        self._take_orders()

    @rule(held=st.sampled_from((True, False, False)))
    def set_hold(self, held: bool) -> None:
        self.pair.set_hold(held)

    @rule(watched=st.booleans())
    def watch(self, watched: bool) -> None:
        """A gateway waits for progress, or none does any more."""
        self.pair.watch(watched)

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
        intents = [
            Intent(
                Operation.READ,
                entry.principal,
                number=int.from_bytes(entry.id, "big"),
            )
            for entry in state.entries.values()
        ]
        intents += [
            Intent(
                Operation.MEDIA_READ,
                owner,
                number=int.from_bytes(id_, "big"),
                addressed=False,
            )
            for owner, id_ in {s.key for s in state.media.sources()}
            | set(state.media.receipts)
        ]
        for owner in state.grants:
            for operation in (Operation.MEDIA_LIST, Operation.POLICY, Operation.INFO):
                intents.append(Intent(operation, owner, addressed=False))
        for intent in intents:
            channel = self._some_channel()
            self._publish(channel, intent.packet(self.epoch, state.revision), None)
        self._tick()

    def teardown(self) -> None:
        try:
            self.wind_up()
        finally:
            self.pair.close()
            self.pair.free()

    def wind_up(self) -> None:
        """Let everything queued be leased or expire, then read all of it."""
        self.pair.set_hold(False)
        self._audit()
        self._settle()
        self._save_all()
        for _ in range(self.capacities.requests + 2):
            if not any(e.phase == QUEUED for e in self.oracle.state.entries.values()):
                break
            self.now += self.capacities.request_seconds * SECOND + 1
            self._tick()
        self._take_orders()
        self._audit()
