"""
What the tests of the policy share.
"""

from __future__ import annotations

from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    DONE,
    EMIT,
    EPOCH,
    P1,
    P2,
    P3,
    grant,
    played_engine,
)
from twisted_aotx.orders import (
    ControlRecord,
    LedgerRecord,
)
from twisted_aotx.wire.numbers import (
    Operation,
    PolicyAction,
)
from twisted_aotx.wire.packet import RequestHeader, join
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite

PAUSE, RESUME, STOP, ON, OFF = PolicyAction


SHA = played_engine(2, capacity=1, sequence_tokens=8192).facts.model_sha256


def new_driver(start: Start, capacity: int = 7) -> Driver:
    driver = start(engines=[played_engine(capacity=capacity, sequence_tokens=8192)])
    assert install(driver) == 200
    return driver


def install(driver: Driver) -> int:
    """P1 may manage the policy, P2 watch it, P3 only infer."""
    return driver.install(
        grant(P1, actions=129, requests=16),
        grant(P2, actions=9, requests=16),
        grant(P3, requests=16),
    )


def status(driver: Driver, principal: bytes = P1) -> PolicyReport:
    reply, data = driver.send(driver.header(Operation.POLICY, principal))
    assert reply.status == 200
    told = PolicyReport.unpack(data)
    assert reply.phase == told.state
    return told


def write_header(
    driver: Driver, principal: bytes = P1, epoch: int = EPOCH
) -> RequestHeader:
    return driver.header(Operation.POLICY, principal, epoch=epoch)


def refused(driver: Driver, action: int, revision: int, epoch: int = EPOCH) -> int:
    """The status of a write that is answered at once."""
    header = write_header(driver, epoch=epoch)
    return driver.status(header, PolicyWrite(action, revision).pack())


def post(driver: Driver, action: int, revision: int, *, channel: int) -> None:
    """A write whose reply waits for the store."""
    payload = PolicyWrite(action, revision).pack()
    driver.publish(channel, join(write_header(driver), payload))


def write(driver: Driver, action: int, *, saved: bool = True) -> PolicyReport | None:
    """A write that is accepted, and what is told then; None where it is not saved."""
    post(driver, action, status(driver).control_revision, channel=11)
    driver.step()
    assert list(driver.device.collect()) == []
    (record,) = driver.store(saved=saved)
    assert isinstance(record, ControlRecord)
    reply, data = driver.answer(11)
    assert reply.status == (200 if saved else 429)
    return PolicyReport.unpack(data) if saved else None


def use(driver: Driver, number: int, principal: bytes = P1, tokens: int = 3) -> None:
    """A request that ends with a prompt of 5 tokens and *tokens* sampled ones."""
    assert driver.submit(number, principal, limit=8) == 202
    (order,) = driver.opens()
    driver.open_one(order, 5)
    driver.report(order, EMIT, tokens, b"x")
    driver.end(order, DONE, 1)
    driver.step()


def review(driver: Driver) -> LedgerRecord:
    """The next batch, begun and committed in an idle device."""
    for _ in range(4):
        driver.step()
        records = driver.device.records()
        if records:
            (record,) = records
            assert isinstance(record, LedgerRecord)
            return record
    raise AssertionError("no batch is committed")
