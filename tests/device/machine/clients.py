"""
Rules of the operator and of clients.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.device.machine.steps import MachineBase
from tests.device.making import P2
from tests.device.strategies.frames import Intent, frames, plain_submits
from tests.device.strategies.tables import TableIntent, tables
from twisted_aotx.wire.numbers import Operation


class ClientRules(MachineBase):
    """
    Frames of every kind, in order and out of it.
    """

    @initialize(
        start=st.one_of(st.integers(0, 2**40), st.integers(2**62, 2**62 + 9)),
        quota=st.sampled_from((0, 0, 0, 0, 0, 2, 3, None)),
    )
    def begin(self, start: int, quota: int | None) -> None:
        """Any clock; usually everybody is granted everything but a number."""
        self.now = start
        if quota is not None:
            self._grant_everyone(quota)

    @rule(data=st.data())
    def install(self, data: st.DataObject) -> None:
        table: TableIntent = data.draw(tables(self.capacities))
        if self.oracle.state.mailboxes[0].state == 2:
            self.pair.release(0)
        if self.pair.is_free(0):
            packet = table.packet(self.oracle.state.revision)
            self._publish(0, packet, table.damage.length)

    @rule(data=st.data(), wanted=st.integers(0, 50), count=st.integers(1, 12))
    def send(self, data: st.DataObject, wanted: int, count: int) -> None:
        """Frames that wait for the next tick, up to every mailbox full."""
        for _ in range(count):
            self._send(data.draw(frames(self.capacities)), wanted)

    @rule(data=st.data(), wanted=st.integers(0, 50), count=st.integers(1, 4))
    def exchange(self, data: st.DataObject, wanted: int, count: int) -> None:
        for _ in range(count):
            self._send(data.draw(frames(self.capacities)), wanted)
        self.now += 1
        self._tick()
        self._take_orders()

    @precondition(lambda self: self.oracle.state.entries)
    @rule(
        which=st.integers(0, 10**6),
        operation=st.sampled_from((Operation.READ, Operation.CANCEL)),
        cursor=st.sampled_from((0, 0, 0, 0, 1, "total", "beyond", 2**63)),
        again=st.booleans(),
    )
    def ask(self, which: int, operation: int, cursor: int | str, again: bool) -> None:
        """READ or CANCEL of a request that there is, perhaps beside a foreign one."""
        entries = list(self.oracle.state.entries.values())
        entry = entries[which % len(entries)]
        total = len(entry.output)
        at = {"total": total, "beyond": total + 1}.get(str(cursor), cursor)
        intent = Intent(
            operation,
            entry.principal,
            number=int.from_bytes(entry.id, "big"),
            cursor=int(at),
        )
        self._send(intent, which)
        if again:
            self._send(attrs.evolve(intent, principal=P2), which)
        else:
            self.now += 1
            self._tick()

    @rule(intents=st.lists(plain_submits(), min_size=1, max_size=4))
    def submit(self, intents: list[Intent]) -> None:
        for intent in intents:
            self._send(intent, 0)
        self.now += 1
        self._tick()
        self._take_orders()

    @rule(count=st.integers(1, 20), intent=plain_submits())
    def crowd(self, count: int, intent: Intent) -> None:
        """So many that the table is full and old results make room."""
        for _ in range(count):
            self.submitted += 1
            self._send(attrs.evolve(intent, number=1000 + self.submitted), 0)
        self.now += 1
        self._tick()
        self._take_orders()

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, 10**6), wanted=st.integers(0, 50))
    def send_again(self, which: int, wanted: int) -> None:
        """A duplicate, or a frame that comes late: its revision may be old."""
        channel = self._channel(wanted)
        if channel is not None:
            self._publish(channel, self.sent[which % len(self.sent)], None)
