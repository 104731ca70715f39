"""
Rules of the state store and of the policy.
"""

from __future__ import annotations

import struct

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.device.machine.steps import MachineBase
from tests.device.strategies.frames import Intent
from tests.device.strategies.media import owners
from twisted_aotx.wire.numbers import Operation


class KeepingRules(MachineBase):
    """
    Records saved or not, now or later; policy writes that know the revision or do not.
    """

    @rule(
        count=st.sampled_from((1, 1, 2, 20)),
        saved=st.sampled_from((True, True, True, False)),
        ticked=st.sampled_from((True, True, False)),
    )
    def save(self, count: int, saved: bool, ticked: bool) -> None:
        """The store is done with its oldest records."""
        self._take_records()
        for _ in range(min(count, len(self.records))):
            self._finish_record(saved)
        if ticked:
            self.now += 1
            self._tick()

    @rule(
        broken=st.sampled_from((False,) * 5 + (True,)),
        quota=st.sampled_from((0, 0, 3, None)),
        rested=st.sampled_from((1, 10**9, 10**12)),
    )
    def restart(self, broken: bool, quota: int | None, rested: int) -> None:
        """Another activation takes over what the store has (`device.md` §11)."""
        self.pair.close()
        self.pair.free()
        self._activate(self.epoch + 1)
        self.now += rested
        stored = self.kept.policy()
        if broken:
            self.pair.break_policy()
        elif stored is not None:
            self.pair.restore_policy(stored)
        for source in self.kept.sources.values():
            assert self.pair.restore_source(source) == 0
        self._check_invariants()
        if quota is not None:
            self._grant_everyone(quota)

    @rule()
    def flush(self) -> None:
        """An orderly stop is near: usage is committed whatever the review's state."""
        self.pair.flush()

    @precondition(lambda self: self.oracle.state.store.untaken)
    @rule()
    def take_records(self) -> None:
        self._take_records()

    @rule(
        owner=owners,
        schema=st.sampled_from((1,) * 15 + (2,)),
        action=st.sampled_from((1, 2, 2, 3, 4, 4, 4, 5) * 2 + (0, 6)),
        off=st.sampled_from((0, 0, 0, 0, 0, 1, -1)),
        epoch_off=st.sampled_from((0,) * 9 + (1,)),
        channel=st.integers(0, 50),
        ticked=st.booleans(),
    )
    def write_policy(
        self,
        owner: bytes,
        schema: int,
        action: int,
        off: int,
        epoch_off: int,
        channel: int,
        ticked: bool,
    ) -> None:
        revision = (self.oracle.state.policy.revision + off) % 2**64
        payload = struct.pack("<IIQ", schema, action, revision)
        self._send(
            Intent(Operation.POLICY, owner, payload=payload, epoch_off=epoch_off),
            channel,
        )
        if ticked:
            self.now += 1
            self._tick()

    @rule(
        owner=owners,
        number=st.sampled_from((0,) * 9 + (1,)),
        addressed=st.sampled_from((False,) * 9 + (True,)),
    )
    def read_policy(self, owner: bytes, number: int, addressed: bool) -> None:
        self._send(
            Intent(Operation.POLICY, owner, number=number, addressed=addressed), 0
        )
        self.now += 1
        self._tick()

    @rule(ticks=st.integers(1, 4))
    def rest(self, ticks: int) -> None:
        """Ticks of an idle device, in which usage is reviewed."""
        for _ in range(ticks):
            self.now += 1
            self._tick()
