"""
cases F: quotas, pools, descriptors and receipts, and when they fall due (`device.md`
§12).
"""

from __future__ import annotations

import pytest

from tests.device.capacities import SMALL, TIGHT
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    JPEG_FILE,
    WAV_FILE,
    begin,
    cancel,
    chunk,
    end,
    listed,
    look,
    make_ready,
    question,
    reference,
    remove,
    seen,
    settle,
    upload,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import P1, P2, SECOND, grant, request_id
from tests.media_made import make_jpeg, make_wav
from twisted_aotx.wire.numbers import MediaStatus, Operation

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


def test_object_quota(driver: Driver) -> None:
    """cases F 98: at the cap, and one past it; each principal has its own."""
    quota(driver, 2)
    for number in (1, 2):
        assert begin(driver, number, size=10)[0] == 200

    assert begin(driver, 3, size=10) == (429, None)
    assert look(driver, 3)[0] == 404
    assert begin(driver, 3, size=10, principal=P2)[0] == 200
    # A refused source does not count once its receipt is gone.
    cancel(driver, 1)
    assert begin(driver, 3, size=10)[0] == 200
    quota(driver, 0)
    assert begin(driver, 4, size=10) == (429, None)
    assert len(listed(driver)[2]) == 2


def test_cached_refusals_count(driver: Driver) -> None:
    """cases F 98: as objects of 0 bytes, until they are forgotten."""
    quota(driver, 2, 1000)
    begin(driver, 1, size=1000)
    end(driver, 1, 999)
    assert seen(driver, 1) == (REFUSED, 1)
    assert begin(driver, 2, size=1000)[0] == 200

    assert begin(driver, 3, size=1) == (429, None)
    cancel(driver, 1)
    assert begin(driver, 3, size=1) == (429, None)
    cancel(driver, 2)
    assert begin(driver, 3, size=1000)[0] == 200


def test_byte_quota(driver: Driver) -> None:
    """cases F 98: by declared size, without a payload."""
    quota(driver, 10, 1000)
    assert begin(driver, 1, size=600)[0] == 200
    assert begin(driver, 2, size=401) == (429, None)
    assert look(driver, 2)[0] == 404
    assert begin(driver, 2, size=400)[0] == 200
    assert begin(driver, 3, size=1) == (429, None)
    cancel(driver, 1)
    assert begin(driver, 3, size=600)[0] == 200


def test_quota_of_a_new_table(driver: Driver) -> None:
    """`device.md` §2: owned by principal id; new numbers count at the next BEGIN."""
    make_ready(driver, 1)
    begin(driver, 2, size=10)
    quota(driver, 1, 100)

    assert begin(driver, 3, size=10) == (429, None)
    assert chunk(driver, 2, bytes(10), 10)[0] == 200
    assert seen(driver, 1) == (READY, 0)
    assert [row.transfer_id for row in listed(driver)[2]] == [
        request_id(1),
        request_id(2),
    ]
    # Without a row there is nobody to answer; the source waits for its owner.
    driver.install(grant(P2))
    assert driver.status(driver.header(Operation.MEDIA_LIST)) == 403
    quota(driver, 5)
    assert len(listed(driver)[2]) == 2
    assert remove(driver, 1)[0] == 200


def test_byte_pool(driver: Driver) -> None:
    """cases F 100: 413 with status 2, 429 with status 12; nothing else is touched."""
    rows = (grant(p, actions=2, media=64, media_bytes=2**50) for p in (P1, P2))
    driver.install(*rows)
    assert begin(driver, 1, size=POOL - 100)[0] == 200
    before = look(driver, 1)

    status, metadata = begin(driver, 2, size=POOL + 1)
    assert metadata is not None
    assert (status, metadata.phase, metadata.status) == (413, REFUSED, 2)
    status, metadata = begin(driver, 3, size=101)
    assert metadata is not None
    assert (status, metadata.phase, metadata.status) == (429, REFUSED, 12)
    assert look(driver, 1) == before
    assert seen(driver, 2) == (REFUSED, MediaStatus.LIMIT)
    assert begin(driver, 4, size=100)[0] == 200
    cancel(driver, 1)
    assert begin(driver, 5, size=POOL - 100)[0] == 200
    status, metadata = begin(driver, 6, principal=P2, size=1)
    assert (status, metadata and metadata.status) == (429, 12)


def test_spans_are_contiguous(driver: Driver) -> None:
    """cases F 100: first fit, and no more than a gap holds."""
    third = POOL // 4
    for number in (1, 2, 3, 4):
        assert begin(driver, number, size=third)[0] == 200
    cancel(driver, 1)
    cancel(driver, 3)

    assert begin(driver, 5, size=third + 1)[0] == 429
    assert begin(driver, 6, size=third)[0] == 200
    cancel(driver, 2)
    assert begin(driver, 7, size=2 * third)[0] == 200
    assert begin(driver, 8, size=1)[0] == 429


def test_bytes_stay_apart(driver: Driver) -> None:
    """cases F 100: a span that is used again holds the new source's bytes alone."""
    first = make_wav(20000, seed=1)
    second = make_wav(20000, seed=2)
    make_ready(driver, 1, first)
    remove(driver, 1)
    make_ready(driver, 2, second)
    upload(driver, 3, make_jpeg(seed=3))
    settle(driver)
    (job,) = driver.device.media_jobs()

    assert job.offset == len(second)
    where = job.index, job.generation, job.offset, job.size
    assert driver.device.source_bytes(*where) == make_jpeg(seed=3)


def test_descriptors(driver: Driver) -> None:
    """cases F 101: a full table is 429 without record; refused ones are used again."""
    for number in range(1, OBJECTS + 1):
        assert begin(driver, number, size=1)[0] == 200
    for _ in range(3):
        assert begin(driver, 50, size=1) == (429, None)
        assert look(driver, 50)[0] == 404
    assert begin(driver, 50, size=1, principal=P2) == (429, None)

    cancel(driver, 7)
    cancel(driver, 3)
    assert begin(driver, 50, size=1, principal=P2)[0] == 200
    # The one that was refused first made room, and is forgotten.
    assert look(driver, 7)[0] == 404
    assert seen(driver, 3) == (REFUSED, MediaStatus.CANCELLED)
    assert begin(driver, 51, size=1)[0] == 200
    assert look(driver, 3)[0] == 404
    # In table order.
    assert [row.transfer_id for row in listed(driver)[2]] == [
        request_id(51 if n == 3 else n) for n in range(1, OBJECTS + 1) if n != 7
    ]


def test_descriptor_with_a_worker(driver: Driver) -> None:
    """`device.md` §12: is not used again before the worker is done."""
    upload(driver, 1, JPEG_FILE)
    settle(driver)
    (job,) = driver.device.media_jobs()
    for number in range(2, OBJECTS + 1):
        assert begin(driver, number, size=1)[0] == 200
    cancel(driver, 1)
    assert begin(driver, 50, size=1) == (429, None)

    driver.device.finish_media(job.worker, True)
    settle(driver)

    assert begin(driver, 50, size=1)[0] == 200
    assert look(driver, 1)[0] == 404


def test_pool_of_image_rows(start: Start) -> None:
    """cases F 101: occupied is 429 without record; after a removal 200."""
    driver = with_media(start, TIGHT)
    # A reservation is 2,048 rows, a ready image of this size keeps 70.
    for number in (1, 2, 3):
        make_ready(driver, number, make_jpeg(seed=number))
    for _ in range(3):
        assert begin(driver, 4) == (429, None)
        assert look(driver, 4) == (404, None)
    assert begin(driver, 5, WAV_FILE)[0] == 200

    # Only a gap that holds all of it counts.
    remove(driver, 2)
    assert begin(driver, 4) == (429, None)
    remove(driver, 3)
    assert begin(driver, 4)[0] == 200


def test_image_rows_taken_meanwhile(start: Start) -> None:
    """cases F 103."""
    driver = with_media(start, TIGHT)
    assert begin(driver, 4)[0] == 200
    for number in (1, 2, 3):
        make_ready(driver, number, make_jpeg(seed=number))
    chunk(driver, 4, JPEG_FILE, len(JPEG_FILE))
    end(driver, 4, len(JPEG_FILE))
    settle(driver)

    assert [seen(driver, n) for n in (1, 2, 3)] == [(READY, 0)] * 3
    assert seen(driver, 4) == (REFUSED, MediaStatus.PRESSURE)


def test_audio_rows(start: Start) -> None:
    """cases F 103; `device.md` §12: more rows than there are at all is status 2."""
    driver = with_media(start, TIGHT)
    # Three rows each, of four.
    for number in (1, 2):
        upload(driver, number, make_wav(2000, seed=number))
        settle(driver)
    assert seen(driver, 1) == (ENCODING, 0)
    assert seen(driver, 2) == (REFUSED, MediaStatus.PRESSURE)
    upload(driver, 3, make_wav(3000))
    settle(driver)
    assert seen(driver, 3) == (REFUSED, MediaStatus.LIMIT)
    upload(driver, 4, make_wav(321))
    settle(driver)
    assert seen(driver, 4) == (ENCODING, 0)
    # Not a single row is left for another.
    assert begin(driver, 5, WAV_FILE) == (429, None)
    assert begin(driver, 5, JPEG_FILE)[0] == 200


def test_lease_protects_a_source(driver: Driver) -> None:
    """cases F 109: 409 while a request holds it; the next source is not protected."""
    make_ready(driver, 1)
    assert driver.submit(1, payload=question(reference(WAV_FILE))) == 202
    status, metadata = cancel(driver, 1)
    assert metadata is not None
    assert (status, metadata.phase) == (409, READY)

    driver.cancel(1)
    driver.step()
    assert remove(driver, 1)[0] == 200
    for number in range(2, OBJECTS + 2):
        assert begin(driver, number, size=1)[0] == 200
    cancel(driver, OBJECTS + 1)
    assert look(driver, 1) == (404, None)
