"""
What the tests of prompts share.
"""

from __future__ import annotations

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import grant, message, payload_of, played_engine
from twisted_aotx.interfaces import MessageFormat
from twisted_aotx.orders import OpenOrder

SYSTEM, USER, ASSISTANT = 0, 1, 2


def with_format(start: Start, form: MessageFormat) -> Driver:
    driver = start(
        engines=[played_engine(capacity=4, sequence_tokens=8192, message_format=form)]
    )
    driver.install(grant(requests=SMALL.requests))
    return driver


def rendered(driver: Driver, *messages: bytes) -> OpenOrder:
    assert driver.submit(1, payload=payload_of(*messages)) == 202
    (order,) = driver.opens()
    return order


def status_of_text(driver: Driver, *parts: bytes, role: int = USER) -> int:
    return driver.submit(1, payload=payload_of(message(role, *parts)))


def assert_no_entry(driver: Driver) -> None:
    assert driver.read(1)[0].status == 404
