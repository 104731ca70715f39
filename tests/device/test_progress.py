"""
Progress notices: who is told what, and what it costs when nobody listens.
"""

from __future__ import annotations

import pytest

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import (
    P1,
    P2,
    grant,
    new_device,
    played_engine,
    request_id,
)
from twisted_aotx.device.host import Device
from twisted_aotx.device.mailbox import power_of_two
from twisted_aotx.device.numbers import Event
from twisted_aotx.devices import Progress
from twisted_aotx.limits import NOTICES_PER_SLOT
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.numbers import Phase


@pytest.fixture
def device() -> Device:
    engine = played_engine(capacity=2, sequence_tokens=SMALL.sequence_tokens)
    return new_device(SMALL, [engine], "cpu")


@pytest.fixture
def driver(device: Device) -> Driver:
    """Somebody watches, and P1 and P2 are granted."""
    made = Driver(device, SMALL)
    made.install(grant(tokens=200), grant(P2))
    device.watch(True)
    return made


def told(device: Device) -> list[tuple[int, int]]:
    """(total bytes, phase) of each notice, which must be about one request."""
    found = device.progress()
    assert found is not None
    assert len({(each.principal, each.id) for each in found}) <= 1
    return [(each.total_bytes, each.phase) for each in found]


def opened(driver: Driver, device: Device, limit: int = 8) -> OpenOrder:
    """A running request, whose notices were taken."""
    driver.submit(1, limit=limit)
    (order,) = driver.opens()
    driver.report(order, Event.OPENED, 5)
    driver.step()
    device.progress()
    return order


def test_each_change_is_told_once_a_tick(device: Device, driver: Driver) -> None:
    """architecture: total bytes and phase, as they are when the tick ends."""
    driver.submit(1, limit=8)
    assert told(device) == [(0, Phase.PREPARING)]
    (order,) = driver.opens()
    driver.report(order, Event.OPENED, 5)
    driver.step()
    assert told(device) == [(0, Phase.RUNNING)]

    driver.report(order, Event.EMIT, 1, b"abc")
    driver.report(order, Event.EMIT, 1, b"de")
    driver.step()
    driver.step()
    assert told(device) == [(5, Phase.RUNNING)]

    driver.report(order, Event.EMIT, 1, b"f")
    driver.report(order, Event.DONE, 1)
    driver.step()
    driver.step()
    assert told(device) == [(6, Phase.COMPLETED)]


def test_a_notice_names_its_request(device: Device, driver: Driver) -> None:
    driver.submit(1)
    driver.submit(1, P2)

    assert device.progress() == [
        Progress(P1, request_id(1), 0, Phase.PREPARING),
        Progress(P2, request_id(1), 0, Phase.PREPARING),
    ]


def test_a_request_that_ends_while_it_is_queued_is_told(
    device: Device, driver: Driver
) -> None:
    """By a cancel here; by a deadline, a revoked grant, a lost engine alike."""
    driver.submit(1)
    driver.submit(2)
    driver.submit(3)
    device.progress()

    driver.cancel(3)
    assert told(device) == [(0, Phase.CANCELLED)]


def test_tokens_without_bytes_are_no_news(device: Device, driver: Driver) -> None:
    order = opened(driver, device)

    driver.report(order, Event.EMIT, 1, b"")
    driver.step()

    assert driver.read(1)[0].sampled_tokens == 1
    assert told(device) == []


def test_the_brokers_doorbell_rings_for_a_notice(
    device: Device, driver: Driver
) -> None:
    order = opened(driver, device)
    outcome = device._launch.host[0]["outcome"]
    driver.step()
    assert outcome[1] == 0

    driver.report(order, Event.EMIT, 1, b"x")
    driver.step()

    assert outcome[1] == 1


def test_nothing_is_told_while_nobody_watches(device: Device, driver: Driver) -> None:
    order = opened(driver, device)
    device.watch(False)
    driver.report(order, Event.EMIT, 1, b"x")
    driver.step()
    assert device._launch.host[0]["outcome"][1] == 0

    device.watch(True)
    driver.step()

    assert told(device) == []


def test_a_full_ring_drops_notices_and_says_so(device: Device, driver: Driver) -> None:
    room = power_of_two(SMALL.slots * NOTICES_PER_SLOT)
    order = opened(driver, device, limit=4 * room)

    def say(count: int) -> None:
        for _ in range(count):
            driver.report(order, Event.EMIT, 1, b"x")
            driver.step()

    say(room)
    assert told(device) == [(n + 1, Phase.RUNNING) for n in range(room)]

    say(room + 1)
    assert device.progress() is None
    assert told(device) == [], "what was lost is told once"

    say(1)
    assert told(device) == [(2 * room + 2, Phase.RUNNING)]
