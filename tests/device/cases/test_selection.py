"""
cases C 59: controls, told by INFO and selected by SUBMIT (`wire.md` §7, §8).
"""

from __future__ import annotations

import hashlib
import struct

import pytest

from tests.device.cases.starting import Start, result
from tests.device.driver import Driver
from tests.device.making import (
    HELLO,
    P2,
    grant,
    played_engine,
)
from twisted_aotx.limits import CONTROL_ROWS_MAX, DOSES_MAX
from twisted_aotx.orders import OpenOrder, Selection
from twisted_aotx.wire.info import ControlRow
from twisted_aotx.wire.numbers import Phase

CALM, TWIN, EMPTY = (
    hashlib.sha256(name).digest() for name in (b"calm", b"twin", b"empty")
)
DOSES = tuple(range(-40000, 40000, 5000))
CONTROLS = (
    ControlRow(name="calm", layers=1, qualification_sha256=CALM, doses=(5000, -5000)),
    ControlRow(name="twin-a", layers=2, qualification_sha256=TWIN, doses=(1,)),
    ControlRow(
        name="twin_b", layers=2**63, positions=1, qualification_sha256=TWIN, doses=(1,)
    ),
    ControlRow(name="empty", layers=3, qualification_sha256=EMPTY),
    ControlRow(name="unqualified", layers=3),
)


def driver_of(start: Start, controls: tuple[ControlRow, ...]) -> Driver:
    driver = start(
        engines=[
            played_engine(2, capacity=4, sequence_tokens=8192, controls=controls),
            played_engine(3, capacity=4, sequence_tokens=8192),
        ]
    )
    assert driver.install(grant(models=0b1100, requests=16), grant(P2, models=8)) == 200
    return driver


@pytest.fixture
def driver(start: Start) -> Driver:
    return driver_of(start, CONTROLS)


def selector(dose: int, digest: bytes = CALM) -> bytes:
    return struct.pack("<IIiI", 1, 1, dose, 0) + digest


def select(driver: Driver, number: int, tail: bytes, *, role: int = 2) -> int:
    return driver.submit(number, payload=HELLO + tail, selector_bytes=48, role=role)


def test_information(driver: Driver) -> None:
    """`wire.md` §7: with the default language role, if it is granted and active."""
    assert driver.info().controls == CONTROLS
    assert driver.info(P2).controls == ()
    driver.device.set_engine(2, False)
    driver.step()
    assert driver.info().controls == ()
    assert [row.role for row in driver.info().models] == [3]
    driver.device.set_engine(2, True)
    driver.step()
    assert driver.info().controls == CONTROLS


def test_as_many_as_there_may_be(start: Start) -> None:
    """`wire.md` §7: 16 rows of 16 doses."""
    assert len(DOSES) == DOSES_MAX == CONTROL_ROWS_MAX
    assert 0 in DOSES
    doses = tuple(dose or 39999 for dose in DOSES)
    controls = tuple(
        ControlRow(
            name="n" * (n + 1) + "x" * (15 - n),
            layers=n + 1,
            qualification_sha256=bytes([n + 1]) * 32,
            doses=doses,
        )
        for n in range(16)
    )
    driver = driver_of(start, controls)

    assert driver.info().controls == controls
    for number, (row, dose) in enumerate(zip(controls, doses, strict=True), start=1):
        tail = selector(dose, row.qualification_sha256)
        assert select(driver, number, tail) == 202


@pytest.mark.parametrize("dose", [5000, -5000])
def test_selection_in_the_order(driver: Driver, dose: int) -> None:
    """`device.md` §10: qualification digest and dose; the payload without selector."""
    assert select(driver, 1, selector(dose)) == 202
    (order,) = driver.opens()

    assert order.selection == Selection(qualification_sha256=CALM, dose=dose)
    assert order.payload == HELLO


@pytest.mark.parametrize(
    ("dose", "digest"),
    [
        (5001, CALM),
        (4999, CALM),
        (1, CALM),
        (40000, CALM),
        (1, TWIN),
        (5000, EMPTY),
        (5000, hashlib.sha256(b"unknown").digest()),
        (5000, CALM[:31] + b"\0"),
        (5000, bytes(31) + b"\1"),
    ],
)
def test_selection_that_is_not_available(
    driver: Driver, dose: int, digest: bytes
) -> None:
    """cases C 59: 503, and no entry is made."""
    assert select(driver, 1, selector(dose, digest)) == 503
    assert driver.read(1)[0].status == 404


def test_selection_of_another_role(driver: Driver) -> None:
    """cases C 59."""
    assert select(driver, 1, selector(5000), role=3) == 503
    assert select(driver, 1, bytes(48), role=3) == 202


def test_wrong_shape_comes_first(driver: Driver) -> None:
    """`device.md` §4 row 10: shape, then availability."""
    whole = selector(5000)
    for at, value in ((0, 2), (4, 2), (12, 1)):
        wrong = whole[:at] + value.to_bytes(4, "little") + whole[at + 4 :]
        assert select(driver, 1, wrong) == 400
        assert select(driver, 1, wrong, role=3) == 400
    assert select(driver, 1, selector(0)) == 400
    assert select(driver, 1, selector(40001)) == 400
    assert select(driver, 1, selector(5000, bytes(32))) == 400


def test_nothing_is_selected(driver: Driver) -> None:
    """`wire.md` §8: without a selector, and with one of zeros."""
    assert driver.submit(1) == 202
    assert select(driver, 2, bytes(48)) == 202
    assert [order.selection for order in driver.opens()] == [None, None]


def test_lease_check(driver: Driver) -> None:
    """`device.md` §9: the role was lost in between; 503 as without a selection."""
    for number in range(1, 6):
        assert select(driver, number, selector(5000)) == 202
    driver.device.set_engine(2, False)
    driver.device.set_engine(2, True)
    driver.step()

    assert result(driver.read(5)[0]) == (Phase.FAILED, 503, 0, 0)
    driver.take_orders()
    assert select(driver, 6, selector(-5000)) == 202
    orders = [x for x in driver.take_orders() if isinstance(x, OpenOrder)]
    assert orders[-1].selection == Selection(qualification_sha256=CALM, dose=-5000)


def test_selector_that_is_not_told(driver: Driver) -> None:
    """`wire.md` §2: without u32@92 its bytes are left over."""
    assert driver.submit(1, payload=HELLO + selector(5000)) == 400
