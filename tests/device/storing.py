"""
Plays the state store beside a driver: takes records, and says what became of them.
"""

from __future__ import annotations

import attrs

from tests.device.driver import Driver
from tests.device.making import EPOCH, P1
from twisted_aotx.device.host import Device
from twisted_aotx.limits import HEARTBEAT_NS
from twisted_aotx.orders import ControlRecord, LedgerRecord, StoreRecord
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader, join, split_reply
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite


@attrs.define
class Storing:
    """
    A device's driver with the store's side; *device* is the compiled one.
    """

    device: Device
    driver: Driver
    #: Every record taken so far.
    taken: list[StoreRecord] = attrs.field(factory=list)
    #: How many of them are not finished.
    unfinished: int = 0

    def take(self) -> list[StoreRecord]:
        """What was published since the last call."""
        records = list(self.device.records())
        self.taken += records
        self.unfinished += len(records)
        return records

    def finish(self, saved: bool = True) -> None:
        """Say what became of all that was taken."""
        for _ in range(self.unfinished):
            self.device.finish_record(saved)
        self.unfinished = 0

    def save(self, saved: bool = True) -> list[StoreRecord]:
        """Finish what is published and let the device handle it."""
        records = self.take()
        self.finish(saved)
        self.driver.step()
        return records

    def header(self, principal: bytes = P1, *, write: bool = False) -> RequestHeader:
        epoch = EPOCH if write else 0
        return self.driver.header(Operation.POLICY, principal, epoch=epoch)

    def read(self, principal: bytes = P1) -> PolicyReport:
        """The report of a read that is accepted."""
        reply, data = self.driver.send(self.header(principal))
        report = PolicyReport.unpack(data)
        assert reply.status == 200
        assert reply.phase == report.state
        return report

    def publish(
        self, channel: int, action: int, revision: int, principal: bytes = P1
    ) -> None:
        """A write whose reply waits."""
        data = PolicyWrite(action=action, control_revision=revision).pack()
        header = self.header(principal, write=True)
        self.driver.publish(channel, join(header, data))

    def write(
        self, action: int, revision: int, *, saved: bool = True
    ) -> tuple[int, PolicyReport | None]:
        """One write with the store's answer: its status, and its report if accepted."""
        self.publish(1, action, revision)
        self.driver.step()
        if any(isinstance(record, ControlRecord) for record in self.take()):
            assert list(self.device.collect()) == []
            self.finish(saved)
            self.driver.step()
        assert list(self.device.collect()) == [1]
        reply, data = split_reply(self.driver.take(1))
        if reply.status != 200:
            assert data == b""
            return reply.status, None
        report = PolicyReport.unpack(data)
        assert reply.phase == report.state
        return 200, report

    def batches(self) -> list[LedgerRecord]:
        """The batches among what was taken."""
        return [x for x in self.taken if isinstance(x, LedgerRecord)]

    def is_due(self) -> bool:
        """Whether the next tick is to run at once, and not at the next heartbeat."""
        due = int(self.device._launch.host[0]["outcome"][0])
        assert due in (self.driver.now, self.driver.now + HEARTBEAT_NS)
        return due == self.driver.now
