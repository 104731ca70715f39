"""
Rules of engines, good ones and others.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.device.machine.steps import MachineBase
from tests.device.making import DONE, EMIT, OPENED
from tests.device.oracle.state import PREPARING
from tests.device.strategies.engines import Report, emissions, openings, reports
from twisted_aotx.orders import OpenOrder

ROLES = (2, 3, 4)
_flood_sizes = st.sampled_from((0, 1, 1000, 1024, 4096))


class EngineRules(MachineBase):
    """
    Reports of leases that live, have ended, or never were.
    """

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
        reports=st.lists(openings, min_size=1, max_size=4),
        ticked=st.booleans(),
    )
    def open(self, reports: list[Report], ticked: bool) -> None:
        """Open what was asked for, also with as many tokens as fit, and one more."""
        for order, report in zip(self._live(), reports, strict=False):
            if self.oracle.state.leases[order.slot].entry.phase == PREPARING:
                self._report(order, report)
        if ticked:
            self.now += 1
            self._tick()

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

    @precondition(lambda self: self._live())
    @rule(which=st.integers(0, 10**6), count=st.integers(60, 70), size=_flood_sizes)
    def flood(self, which: int, count: int, size: int) -> None:
        """More than the ring of a slot takes; what does not fit is not taken."""
        live = self._live()
        order = live[which % len(live)]
        for _ in range(count):
            self.pair.report(order.slot, order.generation, EMIT, 0, b"f" * size)

    @rule(row=st.integers(0, 3), available=st.sampled_from((False, True, True)))
    def set_control(self, row: int, available: bool) -> None:
        """The engine withdraws a control, or offers it again."""
        self.pair.set_control(row, available)

    @rule(role=st.sampled_from(ROLES), active=st.sampled_from((False, True, True)))
    def set_engine(self, role: int, active: bool) -> None:
        self.pair.set_engine(role, active)
