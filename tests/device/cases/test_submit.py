"""
cases C 49 to 59: what a SUBMIT may ask for (`device.md` §4).
"""

from __future__ import annotations

import struct

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    HELLO,
    P1,
    P2,
    P3,
    SECOND,
    grant,
    message,
    payload_of,
    played_engine,
)
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wire.packet import ReplyHeader


@pytest.fixture
def driver(start: Start) -> Driver:
    driver = start()
    driver.install(
        grant(tokens=64, requests=SMALL.requests),
        grant(P2, tokens=SMALL.sequence_tokens - 1, requests=2),
        grant(P3, requests=SMALL.requests),
    )
    return driver


def finish(driver: Driver, number: int, principal: bytes = P1) -> None:
    """A completed request with one byte of output."""
    assert driver.submit(number, principal) == 202
    (order,) = driver.opens()
    driver.play(order, [b"x"])
    driver.step()


def retained(
    driver: Driver, *keys: tuple[int, bytes]
) -> list[tuple[ReplyHeader, bytes]]:
    return [driver.read(number, principal) for number, principal in keys]


def test_limit(driver: Driver) -> None:
    """cases C 49."""
    for limit in (0, 65, 2**31, 2**32 - 1):
        assert driver.submit(1, limit=limit) == 400
    assert driver.submit(1, limit=64) == 202
    assert driver.submit(1, P2, limit=SMALL.sequence_tokens - 1) == 202
    assert driver.submit(2, P2, limit=SMALL.sequence_tokens) == 400


@pytest.mark.parametrize("temperature", [-0.1, 2.01, 2.0000002, float("nan"), 1e38])
def test_temperature_out_of_range(driver: Driver, temperature: float) -> None:
    """cases C 50."""
    assert driver.submit(1, temperature=temperature) == 400


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF])
def test_no_number(driver: Driver, bits: int) -> None:
    """cases C 50: infinities and NaNs, in either field."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    assert driver.submit(1, temperature=value) == 400
    assert driver.submit(1, top_p=value) == 400


@pytest.mark.parametrize("top_p", [0.0, -0.0, -1.0, 1.01, 1.0000001, float("nan")])
def test_top_p_out_of_range(driver: Driver, top_p: float) -> None:
    """cases C 50."""
    assert driver.submit(1, top_p=top_p) == 400


@pytest.mark.parametrize(
    ("temperature", "top_p"), [(0.0, 1.0), (2.0, 1.0), (1e-45, 1e-45), (-0.0, 0.5)]
)
def test_sampling_at_its_limits(
    driver: Driver, temperature: float, top_p: float
) -> None:
    """cases C 50; the engine gets the numbers as sent."""
    assert driver.submit(1, temperature=temperature, top_p=top_p) == 202
    (order,) = driver.opens()
    assert struct.pack("<f", order.temperature) == struct.pack("<f", temperature)
    assert struct.pack("<f", order.top_p) == struct.pack("<f", top_p)


def test_id_and_cursor(driver: Driver) -> None:
    """cases C 52."""
    assert driver.status(driver.submit_header(0), HELLO) == 400
    assert driver.status(driver.submit_header(1, cursor=1), HELLO) == 400
    assert driver.status(driver.submit_header(1, cursor=2**63), HELLO) == 400
    assert driver.status(driver.submit_header(2**128 - 1), HELLO) == 202


def test_epoch_comes_first(driver: Driver) -> None:
    """`device.md` §4 row 1."""
    for epoch in (EPOCH - 1, EPOCH + 1, 0):
        wrong = attrs.evolve(driver.submit_header(0), epoch=epoch)
        assert driver.status(wrong, HELLO) == 410


def test_role(start: Start) -> None:
    """cases C 53."""
    driver = start(engines=[played_engine(3, capacity=2, sequence_tokens=8192)])
    driver.install(grant(models=0b11100), grant(P2, models=0b100))

    assert driver.submit(1, role=3) == 202
    assert driver.submit(1, P2, role=3) == 404
    for role in (2, 4, 0, 1, 9, 34, 35, 2**31, 2**32 - 1):
        assert driver.submit(2, role=role) == 404
    assert [row.role for row in driver.info().models] == [3]
    assert driver.info(P2).models == ()


def test_same_id(driver: Driver) -> None:
    """`device.md` §4: 409 in any phase; another principal's id is another request."""
    finish(driver, 1)
    assert driver.submit(1) == 409
    assert driver.submit(1, P3) == 202
    assert driver.submit(1, P3) == 409


def test_active_requests(driver: Driver) -> None:
    """cases C 55."""
    assert driver.submit(1, P2) == 202
    assert driver.submit(2, P2) == 202
    assert driver.submit(3, P2) == 429
    assert driver.read(3, P2)[0].status == 404
    driver.play(driver.opens()[0])
    driver.step()
    assert driver.submit(3, P2) == 202
    assert driver.submit(4, P2) == 429


def test_active_requests_of_an_old_revision_count(start: Start) -> None:
    """`device.md` §2: by principal id, all revisions, until they have ended."""
    driver = start()
    driver.install(grant(requests=1))
    driver.submit(1)
    driver.device.set_hold(True)
    driver.install(grant(requests=1))
    driver.device.set_hold(False)

    # Admission comes before the work step that revokes.
    assert driver.submit(2) == 429
    assert driver.submit(2) == 202


def fail_in_every_way(driver: Driver) -> None:
    """A refusal of each status, all below the row that takes an entry."""
    selector = struct.pack("<IIiI", 1, 1, 1, 0) + b"\1" * 32
    long = payload_of(message(1, b"x" * SMALL.prompt_bytes))
    assert driver.submit(90, limit=0) == 400
    assert driver.submit(90, payload=payload_of()) == 400
    assert driver.submit(90, role=4) == 404
    assert driver.submit(1) == 409
    assert driver.submit(90, payload=long) == 413
    assert driver.submit(90, payload=HELLO + selector, selector_bytes=48) == 503
    stale = attrs.evolve(driver.submit_header(90), epoch=EPOCH - 1)
    assert driver.status(stale, HELLO) == 410


def test_failed_submits_evict_nothing(driver: Driver) -> None:
    """cases C 56."""
    keys = [(number, P1) for number in range(1, SMALL.requests + 1)]
    for number, _ in keys:
        finish(driver, number)
    before = retained(driver, *keys)

    fail_in_every_way(driver)
    driver.device.set_hold(True)
    assert driver.submit(90) == 429
    driver.device.set_hold(False)

    assert retained(driver, *keys) == before
    assert driver.read(90)[0].status == 404
    assert driver.submit(90) == 202
    assert driver.read(1)[0].status == 404


def test_oldest_change_is_reclaimed(driver: Driver) -> None:
    """`device.md` §4: longest ago in terms of its end, whoever owns it."""
    for number in range(1, SMALL.requests + 1):
        owner = P2 if number <= 2 else P1
        assert driver.submit(number, owner) == 202
    first = driver.opens()
    assert len(first) == SMALL.slots - 1
    for order in reversed(first):
        driver.play(order)
        driver.step()
    # 7, 6, … 1 ended in this order; the others are active.
    assert driver.submit(50) == 202
    assert driver.read(7)[0].status == 404
    assert driver.submit(51) == 202
    assert driver.read(6)[0].status == 404
    assert driver.phase(1, P2) == Phase.COMPLETED
    for number in range(52, 57):
        assert driver.submit(number) == 202
    assert driver.read(1, P2)[0].status == 404
    assert driver.submit(57) == 429


def test_table_full_of_others(driver: Driver) -> None:
    """cases C 58."""
    for number in range(1, SMALL.requests + 1):
        assert driver.submit(number) == 202
    assert driver.submit(1, P3) == 429
    assert driver.read(1, P3)[0].status == 404
    driver.cancel(SMALL.requests)
    assert driver.submit(1, P3) == 202
    assert driver.read(SMALL.requests)[0].status == 404


def test_a_cancel_makes_room_within_its_tick(driver: Driver) -> None:
    """`device.md` §4 and §7: a queued request is reclaimable as soon as it ended."""
    for number in range(1, SMALL.requests + 1):
        driver.submit(number)
    assert driver.phase(SMALL.requests) == Phase.QUEUED

    driver.cancel(SMALL.requests)
    driver.step(SMALL.request_seconds * SECOND)

    assert driver.submit(1, P3) == 202


def selector(
    version: int = 1,
    kind: int = 1,
    dose: int = 5000,
    zero: int = 0,
    digest: bytes = b"\1" * 32,
) -> bytes:
    return struct.pack("<IIiI", version, kind, dose, zero) + digest


@pytest.mark.parametrize(
    "wrong",
    [
        selector(version=0),
        selector(version=2),
        selector(kind=0),
        selector(kind=2),
        selector(dose=0),
        selector(dose=40001),
        selector(dose=-40001),
        selector(dose=-(2**31)),
        selector(zero=1),
        selector(digest=bytes(32)),
        bytes(47) + b"\1",
        b"\1" + bytes(47),
    ],
)
def test_selector_of_wrong_shape(driver: Driver, wrong: bytes) -> None:
    """cases C 59."""
    assert driver.submit(1, payload=HELLO + wrong, selector_bytes=48) == 400
    assert driver.read(1)[0].status == 404


@pytest.mark.parametrize("dose", [1, -1, 40000, -40000])
def test_selector_that_nothing_answers(driver: Driver, dose: int) -> None:
    """cases C 59: there is no control to select yet."""
    payload = HELLO + selector(dose=dose)
    assert driver.submit(1, payload=payload, selector_bytes=48) == 503
    assert driver.read(1)[0].status == 404


def test_selector_of_zeros(driver: Driver) -> None:
    """cases C 59: selects nothing and is accepted."""
    payload = HELLO + bytes(48)
    assert driver.submit(1, payload=payload, selector_bytes=48) == 202
    assert driver.opens()[0].selection is None


def test_selector_comes_after_the_prompt(driver: Driver) -> None:
    """`device.md` §4: row 9 before row 10."""
    long = payload_of(message(1, b"x" * SMALL.prompt_bytes))
    payload = long + selector(version=2)
    assert driver.submit(1, payload=payload, selector_bytes=48) == 413


def test_selector_beyond_the_payload(driver: Driver) -> None:
    """`device.md` §4 row 8: below the rows above it."""
    short = b"\1\0\0\0"

    assert driver.submit(1, payload=short, selector_bytes=48) == 400
    assert driver.submit(1, payload=short, selector_bytes=48, role=4) == 404
    assert driver.submit(1, payload=HELLO) == 202
    assert driver.submit(1, payload=short, selector_bytes=48) == 409
