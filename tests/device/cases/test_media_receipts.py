"""
cases F: receipts and when they fall due; media in a hold (`device.md` §8, §12).
"""

from __future__ import annotations

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    JPEG_FILE,
    WAV_FILE,
    begin,
    cancel,
    chunk,
    decode,
    end,
    listed,
    look,
    make_ready,
    post_cancel,
    seen,
    settle,
    upload,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import P1, P2, SECOND, grant
from twisted_aotx.wire.numbers import MediaStatus

RECEIVING, HASHING, WAITING, DECODING, ENCODING, READY, REFUSED = range(1, 8)


UPLOAD_NS = SMALL.upload_seconds * SECOND


OBJECTS, POOL = SMALL.media_objects, SMALL.media_bytes


@pytest.fixture
def driver(start: Start) -> Driver:
    return with_media(start)


def quota(driver: Driver, objects: int, media_bytes: int = POOL) -> None:
    rows = (
        grant(p, actions=3, requests=4, media=objects, media_bytes=media_bytes)
        for p in (P1, P2)
    )
    assert driver.install(*rows) == 200


def test_receipts(driver: Driver) -> None:
    """cases F 104: as many as descriptors; 429 without a state change."""
    for number in range(1, OBJECTS + 1):
        begin(driver, number, size=2)
        end(driver, number, 1)
    assert listed(driver)[2] == ()

    driver.install(*(grant(p, actions=2, media=99, media_bytes=9) for p in (P1, P2)))
    for _ in range(2):
        assert begin(driver, 50, size=1, principal=P2) == (429, None)
    assert [seen(driver, n) for n in (1, OBJECTS)] == [(REFUSED, 1)] * 2
    cancel(driver, 5)
    assert begin(driver, 50, size=1, principal=P2)[0] == 200
    # What was refused first made room; its receipt still tells of it.
    assert seen(driver, 1) == (REFUSED, 1)


def test_cached_refusal(driver: Driver) -> None:
    """cases F 106: readable one ns before its deadline, 404 at it."""
    begin(driver, 1, size=2)
    end(driver, 1, 1)
    refused_at = driver.now
    status, metadata = look(driver, 1)
    for number in range(2, OBJECTS + 1):
        begin(driver, number, size=1, principal=P2)
    cancel(driver, 2, P2)
    # Takes the refused descriptor of 1.
    assert begin(driver, 50, size=1, principal=P2)[0] == 200

    driver.step(refused_at + UPLOAD_NS - 2 - driver.now)
    assert look(driver, 1) == (status, metadata)
    assert driver.now == refused_at + UPLOAD_NS - 1
    assert look(driver, 1) == (404, None)


def test_cancel_of_a_cached_refusal(driver: Driver) -> None:
    """`device.md` §12: its metadata once, then nothing."""
    begin(driver, 1, size=2)
    end(driver, 1, 1)
    before = look(driver, 1)
    for number in range(2, OBJECTS + 1):
        begin(driver, number, size=1, principal=P2)
    cancel(driver, 2, P2)
    begin(driver, 50, size=1, principal=P2)

    assert begin(driver, 1) == (409, None)
    assert cancel(driver, 1) == before
    assert cancel(driver, 1) == (404, None)
    assert look(driver, 1) == (404, None)


def test_upload_deadline(driver: Driver) -> None:
    """cases F 107: still receiving at it; cached for as long again."""
    begin(driver, 1, size=100)
    began_at = driver.now
    chunk(driver, 1, b"x", 100)
    driver.step(began_at + UPLOAD_NS - 2 - driver.now)
    assert seen(driver, 1) == (RECEIVING, 0)
    assert driver.now == began_at + UPLOAD_NS - 1

    # A frame of the tick in which it falls due finds it refused.
    assert chunk(driver, 1, b"y", 100, 1)[0] == 409
    assert seen(driver, 1) == (REFUSED, MediaStatus.CANCELLED)
    quota(driver, 1)
    driver.step(began_at + 2 * UPLOAD_NS - 2 - driver.now)
    assert begin(driver, 2, size=1) == (429, None)
    assert begin(driver, 2, size=1)[0] == 200


def test_deadline_spares_what_is_whole(driver: Driver) -> None:
    """`device.md` §12: only what is still receiving."""
    upload(driver, 1, JPEG_FILE)
    settle(driver)
    driver.step(3 * UPLOAD_NS)
    assert seen(driver, 1) == (DECODING, 0)
    decode(driver)
    driver.store()
    driver.step(3 * UPLOAD_NS)
    assert seen(driver, 1) == (READY, 0)


def test_deadline_in_a_hold(driver: Driver) -> None:
    """`device.md` §8: after the hold exactly one cancellation is recorded."""
    begin(driver, 1, size=100)
    driver.device.set_hold(True)
    driver.step(2 * UPLOAD_NS)
    assert seen(driver, 1) == (RECEIVING, 0)

    driver.device.set_hold(False)
    assert seen(driver, 1) == (REFUSED, MediaStatus.CANCELLED)
    after_hold = driver.now
    quota(driver, 1)
    driver.step(after_hold + UPLOAD_NS - 2 - driver.now)
    assert begin(driver, 2, size=1)[0] == 429
    assert begin(driver, 2, size=1)[0] == 200


def test_hold_and_media(driver: Driver) -> None:
    """cases E 79, E 80: reads with exact bytes; everything else 429 and no effect."""
    make_ready(driver, 1)
    begin(driver, 2, size=100)
    upload(driver, 3, JPEG_FILE)
    driver.device.set_hold(True)
    before = [look(driver, n) for n in (1, 2, 3)], listed(driver)

    assert begin(driver, 4) == (429, None)
    assert chunk(driver, 2, b"x", 100) == (429, None)
    assert end(driver, 2, 100) == (429, None)
    assert cancel(driver, 1) == (429, None)
    driver.install(grant(P1, actions=3), grant(P2, actions=1))
    assert cancel(driver, 1, P2) == (403, None)
    driver.step(SECOND)
    assert ([look(driver, n) for n in (1, 2, 3)], listed(driver)) == before

    driver.device.set_hold(False)
    settle(driver)
    assert seen(driver, 2) == (RECEIVING, 0)
    assert seen(driver, 3) == (DECODING, 0)


def test_answers_of_the_store_while_held(driver: Driver) -> None:
    """D12: the reply that waits comes also in a hold, which only the store ends."""
    make_ready(driver, 1)
    upload(driver, 2, WAV_FILE)
    settle(driver)
    post_cancel(driver, 5, 1)
    driver.device.set_hold(True)
    driver.store(saved=False)

    assert driver.answer(5)[0].status == 429
    assert seen(driver, 1) == (READY, 0)
    assert seen(driver, 2) == (REFUSED, MediaStatus.PRESSURE)
