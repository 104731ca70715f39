"""
What the device tells of itself: counters that follow what it does.
"""

from __future__ import annotations

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import CHATML, grant, new_device, played_engine
from twisted_aotx.device.numbers import Event


def test_the_counters_follow_the_device() -> None:
    """Ticks and frames grow; leases and queue are those of now; late events count."""
    engine = played_engine(
        2, capacity=1, sequence_tokens=SMALL.sequence_tokens, message_format=CHATML
    )
    device = new_device(SMALL, (engine,))
    driver = Driver(device, SMALL)
    assert driver.install(grant()) == 200
    before = device.stats()

    assert driver.submit(1) == 202
    assert driver.submit(2) == 202
    busy = device.stats()
    (order,) = driver.opens()
    driver.cancel(1)
    driver.report(order, Event.OPENED, 5)
    driver.step()
    (other,) = driver.opens()
    driver.step()
    after = device.stats()

    assert busy.ticks == before.ticks + 2
    assert busy.frames == before.frames + 2
    assert (busy.leases, busy.queued) == (1, 1)
    assert (after.leases, after.queued) == (1, 0)
    assert other.slot == order.slot
    assert after.dropped_events == before.dropped_events + 1
    assert after.roles_active == 1 << 2
    assert not after.held


def test_hold_and_lost_engines_show() -> None:
    engine = played_engine(
        2, capacity=1, sequence_tokens=SMALL.sequence_tokens, message_format=CHATML
    )
    device = new_device(SMALL, (engine,))
    driver = Driver(device, SMALL)

    device.set_engine(2, False)
    driver.step()
    assert device.stats().roles_active == 0

    device.set_hold(True)
    driver.step()
    assert device.stats().held
