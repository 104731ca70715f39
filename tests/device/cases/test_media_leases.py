"""
cases F 109: what requests hold, and for how long (`device.md` §9, §12).
"""

from __future__ import annotations

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start, result
from tests.device.cases.uploading import (
    JPEG_FILE,
    WAV_FILE,
    begin,
    cancel,
    make_ready,
    post_cancel,
    question,
    reference,
    remove,
    seen,
    settle,
    upload,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import DONE, P1, SECOND, grant
from tests.media_made import make_jpeg
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import OpenOrder, StopOrder
from twisted_aotx.wire.numbers import MediaStatus, Phase

TEMPLATE, CALLER, LINK = 0, 1, 2


@pytest.fixture
def driver(start: Start) -> Driver:
    """A picture (1) and a sound (2) of P1 are ready."""
    driver = with_media(start)
    make_ready(driver, 1, JPEG_FILE)
    make_ready(driver, 2, WAV_FILE)
    return driver


def open_order(driver: Driver) -> OpenOrder:
    (order,) = driver.opens()
    return order


def test_pending_removal(driver: Driver) -> None:
    """D12: takes no new lease; if it is not saved it is ready again."""
    post_cancel(driver, 5, 2)
    payload = question(reference(WAV_FILE))
    assert driver.submit(1, payload=payload) == 404
    driver.store(saved=False)
    driver.answer(5)
    assert driver.submit(1, payload=payload) == 202


def test_several_of_one_digest(driver: Driver) -> None:
    """`device.md` §5: the lowest index is taken."""
    make_ready(driver, 3, WAV_FILE)
    driver.submit(1, payload=question(reference(WAV_FILE)))

    assert cancel(driver, 2)[0] == 409
    assert remove(driver, 3)[0] == 200


@pytest.mark.parametrize("way", ["done", "cancel", "deadline", "revoked", "lost"])
def test_leases_end_with_the_request(driver: Driver, way: str) -> None:
    """cases F 109; `device.md` §9 Release: with the terminal transition."""
    driver.submit(1, payload=question(reference(WAV_FILE)))
    order = open_order(driver)
    driver.open_one(order)
    assert cancel(driver, 2)[0] == 409

    if way == "done":
        driver.end(order, DONE, 1)
    elif way == "cancel":
        driver.cancel(1)
    elif way == "deadline":
        driver.step(SMALL.request_seconds * SECOND)
    elif way == "revoked":
        # Media are owned by principal id alone (`device.md` §2).
        driver.install(grant(P1, actions=3, media=16, media_bytes=1000))
    else:
        driver.device.set_engine(2, False)
    driver.step()

    assert remove(driver, 2)[0] == 200


def test_several_leases(driver: Driver) -> None:
    """`device.md` §12: as long as one request needs it."""
    payload = question(reference(WAV_FILE), reference(WAV_FILE))
    driver.submit(1, payload=payload)
    driver.submit(2, payload=payload)
    driver.cancel(1)
    driver.step()
    assert cancel(driver, 2)[0] == 409
    driver.cancel(2)
    driver.step()
    assert remove(driver, 2)[0] == 200


def test_order_that_comes_too_late(driver: Driver) -> None:
    """`device.md` §10: its lease has ended, so only the stop is left of it."""
    driver.submit(1, payload=question(reference(WAV_FILE)))
    driver.step()
    driver.cancel(1)
    driver.step()
    remove(driver, 2)

    assert [type(order) for order in driver.take_orders()] == [StopOrder]
    assert result(driver.read(1)[0]) == (Phase.CANCELLED, 409, 1, 0)


def test_order_that_still_stands(driver: Driver) -> None:
    """The bytes are copied when the order is taken, also after the lease's end."""
    driver.submit(1, payload=question(reference(WAV_FILE)))
    driver.step()
    driver.cancel(1)
    driver.step()

    order, stop = driver.take_orders()
    assert isinstance(order, OpenOrder)
    assert order.sources[0].data == WAV_FILE
    assert isinstance(stop, StopOrder)


def test_bytes_of_what_is_gone(driver: Driver) -> None:
    """D12: neither a stranger's bytes nor none at all are taken for the source's."""
    upload(driver, 3, make_jpeg(seed=3))
    settle(driver)
    (job,) = driver.device.media_jobs()
    where = job.index, job.generation, job.offset, job.size
    assert driver.device.source_bytes(*where) == make_jpeg(seed=3)
    cancel(driver, 3)

    with pytest.raises(SourceGone):
        driver.device.source_bytes(*where)
    begin(driver, 4, make_jpeg(seed=4))
    with pytest.raises(SourceGone):
        driver.device.source_bytes(*where)


def test_generation_of_a_lease(driver: Driver) -> None:
    """cases F 109: what was held is the source, not its descriptor."""
    driver.submit(1, payload=question(reference(WAV_FILE)))
    order = open_order(driver)
    driver.end(order, 2, 400)
    driver.step()
    remove(driver, 2)
    for number in range(3, SMALL.media_objects + 1):
        assert begin(driver, number, size=1)[0] == 200
    assert begin(driver, 50, size=1)[0] == 200
    driver.device.report(order.slot, order.generation, DONE, 1)
    driver.step()

    assert cancel(driver, 50)[0] == 200
    assert seen(driver, 50) == (7, MediaStatus.CANCELLED)


def test_media_of_an_engine_that_is_lost(driver: Driver) -> None:
    """`device.md` §12: sources do not depend on a role being active now."""
    driver.device.set_engine(2, False)
    driver.step()

    assert seen(driver, 1) == (6, 0)
    assert begin(driver, 3)[0] == 200
    driver.device.set_engine(2, True)
    driver.step()
    assert driver.submit(1, payload=question(reference(JPEG_FILE))) == 202
