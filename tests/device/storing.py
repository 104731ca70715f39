"""
Plays the state store beside a driver: takes records, and says what became of them.
"""

from __future__ import annotations

import hashlib

import attrs

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import (
    EMIT,
    EPOCH,
    HELLO,
    OPENED,
    P1,
    P2,
    grant,
    new_device,
    played_engine,
)
from twisted_aotx.device.host import Device
from twisted_aotx.limits import HEARTBEAT_NS
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
    LedgerRow,
    StoredPolicy,
    StoreRecord,
)
from twisted_aotx.wire.numbers import Operation, PolicyAction
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


ROLES = (2, 3)


def model(role: int) -> bytes:
    return hashlib.sha256(b"model of role %d" % role).digest()


def row(
    principal: bytes, role: int, requests: int, prompt: int, sampled: int
) -> LedgerRow:
    return LedgerRow(
        principal=principal,
        model_sha256=model(role),
        requests=requests,
        prompt_tokens=prompt,
        sampled_tokens=sampled,
    )


def nobody(requests: int, prompt: int, sampled: int) -> LedgerRow:
    return LedgerRow(
        principal=bytes(16),
        model_sha256=bytes(32),
        requests=requests,
        prompt_tokens=prompt,
        sampled_tokens=sampled,
    )


def make_world(stored: StoredPolicy | None = None, *, broken: bool = False) -> Storing:
    engines = [
        played_engine(role, capacity=7, sequence_tokens=SMALL.sequence_tokens)
        for role in ROLES
    ]
    device = new_device(SMALL, engines)
    world = Storing(device, Driver(device, SMALL))
    if stored is not None:
        device.restore_policy(stored)
    if broken:
        device.break_policy()
    install(world)
    return world


def install(world: Storing) -> None:
    both = {"models": 0b1100, "requests": 16}
    rows = grant(P1, actions=1 | 8 | 128, **both), grant(P2, actions=1 | 8, **both)
    assert world.driver.install(*rows) == 200


#: Each request of a test has an id of its own.
numbers = iter(range(1, 1 << 40))


def use(
    world: Storing,
    principal: bytes = P1,
    role: int = 2,
    *,
    prompt: int = 5,
    sampled: int = 3,
) -> None:
    """
    One request from its admission to its end, in three ticks; the last one ends it.
    """
    driver = world.driver
    assert driver.submit(next(numbers), principal, role=role) == 202
    (order,) = driver.opens()
    driver.report(order, OPENED, prompt)
    if sampled:
        driver.report(order, EMIT, sampled, b"x")
    driver.end(order, 4, 1)
    driver.step()


def cancelled(world: Storing, count: int) -> None:
    """*count* requests that a new grant table ends, eight in a tick, 16 at a time."""
    driver = world.driver
    while count:
        for channel in range(1, 9):
            if not count:
                break
            header = driver.submit_header(next(numbers))
            driver.publish(channel, join(header, HELLO))
            count -= 1
        driver.step()
        for channel in list(world.device.collect()):
            driver.take(channel)
        install(world)
        driver.opens()


def reviewed() -> Storing:
    made = make_world()
    assert made.write(PolicyAction.REVIEW_ON, 1)[0] == 200
    return made
