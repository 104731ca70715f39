"""
The state machine: a device and the oracle get the same inputs, in any order.

A subclass names the capacities and makes the pair; every tick compares every reply,
every order, and asks both for their invariants.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from tests.device.driver import (
    DONE,
    EMIT,
    EPOCH,
    HASH_KEY,
    OPENED,
    P2,
    SECOND,
    SEED_KEY,
    Played,
    SteppedDevice,
)
from tests.device.model import Oracle
from tests.device.oracle.state import ACTIVE, PREPARING, QUEUED
from tests.device.pair import Pair
from tests.device.strategies import (
    Intent,
    Report,
    Step,
    TableIntent,
    emissions,
    everyone,
    frames,
    plain_submits,
    reports,
    steps,
    tables,
)
from twisted_aotx.limits import PACKET_BYTES_MAX, Capacities
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.numbers import Operation

ROLES = (2, 3)


def oracle_of(capacities: Capacities, engines: tuple[Played, ...]) -> Oracle:
    return Oracle(
        capacities,
        epoch=EPOCH,
        hash_key=HASH_KEY,
        seed_key=SEED_KEY,
        engines=engines,
    )


class DeviceRules(RuleBasedStateMachine):
    """
    The rules; a subclass adds capacities, engines and the device.
    """

    capacities: Capacities
    engines: tuple[Played, ...]

    def make_device(self) -> SteppedDevice:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.oracle = oracle_of(self.capacities, self.engines)
        self.pair = Pair(self.make_device(), self.oracle)
        self.now = 0
        #: What engines know: the newest lease of each slot, ended or not.
        self.opened: dict[int, OpenOrder] = {}
        self.sent: list[bytes] = []

    # --- helpers --------------------------------------------------------------------

    def _channel(self, wanted: int) -> int | None:
        """A peer's channel that a frame can be published in, or None."""
        peers = self.capacities.channels - 1
        for step in range(peers):
            channel = 1 + (wanted + step) % peers
            if self.oracle.state.mailboxes[channel].state == 2:
                self.pair.release(channel)
            if self.pair.is_free(channel):
                return channel
        return None

    def _publish(self, channel: int, packet: bytes, length: int | None) -> None:
        if not packet or len(packet) > PACKET_BYTES_MAX:
            return
        self.pair.publish(channel, packet, length=length)

    def _send(self, intent: Intent, wanted: int) -> None:
        channel = self._channel(wanted)
        if channel is not None:
            packet = intent.packet(EPOCH, self.oracle.state.revision)
            self.sent.append(packet)
            self._publish(channel, packet, intent.damage.length)

    def _tick(self) -> None:
        self.pair.tick(self.now)
        for channel in self.pair.collect():
            self.pair.reply(channel)
        broken = list(self.pair.invariants())
        assert broken == [], broken

    def _live(self) -> list[OpenOrder]:
        """The leases that an engine serves."""
        leases = self.oracle.state.leases
        return [
            order
            for slot, order in sorted(self.opened.items())
            if slot in leases and leases[slot].generation == order.generation
        ]

    def _take_orders(self) -> None:
        for order in self.pair.orders():
            if isinstance(order, OpenOrder):
                self.opened[order.slot] = order

    # --- rules ----------------------------------------------------------------------

    @initialize(
        start=st.integers(0, 2**40), given=st.sampled_from((True,) * 7 + (False,))
    )
    def begin(self, start: int, given: bool) -> None:
        """Any clock; usually everybody is granted everything."""
        self.now = start
        if given:
            self._publish(0, everyone(self.capacities).packet(0), None)
            self._tick()

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

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, 10**6), wanted=st.integers(0, 50))
    def send_again(self, which: int, wanted: int) -> None:
        """A duplicate, or a frame that comes late: its revision may be old."""
        channel = self._channel(wanted)
        if channel is not None:
            self._publish(channel, self.sent[which % len(self.sent)], None)

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

    @rule()
    def take_orders(self) -> None:
        self._take_orders()

    @precondition(lambda self: self.opened)
    @rule(which=st.integers(0, 10**6), count=st.integers(1, 4), data=st.data())
    def report(self, which: int, count: int, data: st.DataObject) -> None:
        """What an engine says, right or wrong, of a lease that may have ended."""
        orders = self._live() * 3 + list(self.opened.values())
        order = orders[which % len(orders)]
        for _ in range(count):
            self._report(order, data.draw(reports))

    def _report(self, order: OpenOrder, report: Report) -> None:
        lease = self.oracle.state.leases.get(order.slot)
        room = self.capacities.output_bytes
        if lease is not None:
            room -= len(lease.entry.output)
        tokens = self.capacities.sequence_tokens
        pages = lease.entry.pages if lease is not None else 1
        values = {
            "limit": order.limit,
            "fits": max(1, tokens - order.limit),
            "pages": max(1, pages * 16 - order.limit),
            "pages over": max(1, pages * 16 - order.limit + 1),
        }
        over = tokens - order.limit + 1 if report.kind == OPENED else order.limit + 1
        values["over"] = over
        value = report.value if isinstance(report.value, int) else values[report.value]
        sizes = {"room": room, "over": room + 1}
        size = report.size if isinstance(report.size, int) else sizes[report.size]
        self.pair.report(
            order.slot,
            (order.generation + report.generation_off) % 2**63,
            report.kind,
            value,
            bytes([value % 251]) * min(size, 65536),
        )

    @precondition(lambda self: self._live())
    @rule(
        which=st.integers(0, 10**6),
        said=emissions,
        end=st.sampled_from((None, None, 1, 1, 2)),
        ticks=st.integers(0, 2),
    )
    def serve(
        self, which: int, said: list[tuple[int, int]], end: int | None, ticks: int
    ) -> None:
        """What a good engine says."""
        live = self._live()
        order = live[which % len(live)]
        entry = self.oracle.state.leases[order.slot].entry
        if entry.phase == PREPARING and not self.oracle.state.reports[order.slot]:
            self.pair.report(order.slot, order.generation, OPENED, 3)
        left = order.limit - entry.sampled_tokens
        for tokens, size in said:
            tokens = min(tokens, left)
            left -= tokens
            data = b"\xc3\xa9" * (size // 2)
            if tokens or data:
                self.pair.report(order.slot, order.generation, EMIT, tokens, data)
        if end is not None:
            self.pair.report(order.slot, order.generation, DONE, end)
        for _ in range(ticks):
            self.now += 1
            self._tick()

    @rule(role=st.sampled_from(ROLES), active=st.sampled_from((False, True, True)))
    def set_engine(self, role: int, active: bool) -> None:
        self.pair.set_engine(role, active)

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
