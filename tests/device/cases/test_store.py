"""
What is kept beyond an activation: sources (cases F 112; `device.md` §11, D12, D13).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs
import pytest

from tests.device.capacities import NO_MEDIA, SMALL, TIGHT
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    JPEG_FILE,
    WAV_FILE,
    begin,
    format_of,
    listed,
    look,
    make_ready,
    question,
    reference,
    remove,
    seeing_engine,
    seen,
)
from tests.device.driver import Driver
from tests.device.making import P1, P2, grant, request_id
from tests.media_made import make_jpeg, make_wav
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import StoredSource
from twisted_aotx.wire.numbers import MediaStatus, Operation

READY = 6


def stored(number: int, data: bytes, owner: bytes = P1) -> StoredSource:
    return StoredSource(
        owner=owner,
        transfer_id=request_id(number),
        sha256=hashlib.sha256(data).digest(),
        format=format_of(data),
        data=data,
    )


def statuses_of(
    start: Start, sources: Sequence[StoredSource], capacities: Capacities = SMALL
) -> list[int]:
    """What restoring each of *sources* answers; after a failure nothing is ticked."""
    driver = start(capacities, engines=[seeing_engine()])
    return [driver.device.restore_source(source) for source in sources]


def restarted(start: Start, *sources: StoredSource) -> Driver:
    """A device that took *sources* over."""
    driver = start(engines=[seeing_engine()])
    assert [driver.device.restore_source(source) for source in sources] == [0] * len(
        sources
    )
    rows = (
        grant(p, actions=3, requests=16, media=16, media_bytes=SMALL.media_bytes)
        for p in (P1, P2)
    )
    assert driver.install(*rows) == 200
    return driver


def test_sources_come_back(start: Start) -> None:
    """cases F 112: ids, digests, owners, bytes; rows computed anew."""
    driver = restarted(
        start,
        stored(1, JPEG_FILE),
        stored(1, WAV_FILE, P2),
        stored(2, make_wav(2000)),
    )

    status, cursor, rows = listed(driver)
    assert (status, cursor) == (200, 0)
    assert [row.transfer_id for row in rows] == [request_id(1), request_id(2)]
    picture, sound = (row.metadata for row in rows)
    assert (picture.phase, picture.status, picture.rows) == (READY, 0, 70)
    assert picture.sha256 == hashlib.sha256(JPEG_FILE).digest()
    assert picture.source_bytes == len(JPEG_FILE)
    assert (sound.samples, sound.rows) == (2000, 3)
    assert len(listed(driver, P2)[2]) == 1
    assert list(driver.device.records()) == []


def test_sources_that_came_back_are_used(start: Start) -> None:
    """cases F 112."""
    driver = restarted(start, stored(1, JPEG_FILE), stored(2, WAV_FILE))
    payload = question(reference(JPEG_FILE), reference(WAV_FILE))
    assert driver.submit(1, payload=payload) == 202
    (order,) = driver.opens()
    assert [source.data for source in order.sources] == [JPEG_FILE, WAV_FILE]
    assert begin(driver, 1) == (409, None)
    driver.cancel(1)
    driver.step()

    assert remove(driver, 1)[0] == 200
    assert driver.submit(2, payload=payload) == 404


def test_receipts_are_gone(start: Start) -> None:
    """D13: and with them unfinished uploads; ready sources need none."""
    driver = restarted(start, stored(1, WAV_FILE))
    assert look(driver, 2) == (404, None)
    count = SMALL.media_objects
    for number in range(2, count + 1):
        assert begin(driver, number, size=1)[0] == 200
    assert begin(driver, count + 1, size=1) == (429, None)


def test_sources_count_against_the_quota(start: Start) -> None:
    """`device.md` §12 row 6."""
    driver = restarted(start, stored(1, WAV_FILE), stored(2, make_wav(500)))
    driver.install(grant(actions=2, media=3, media_bytes=len(WAV_FILE) + 2000))

    assert begin(driver, 3, size=2000) == (429, None)
    assert begin(driver, 3, size=10)[0] == 200
    assert begin(driver, 4, size=10) == (429, None)


def test_new_sources_stand_beside_the_old(start: Start) -> None:
    """`device.md` §12: pools, digests and bytes."""
    driver = restarted(start, stored(1, make_wav(5000)), stored(2, JPEG_FILE))
    make_ready(driver, 3, WAV_FILE)
    payload = question(*map(reference, (make_wav(5000), WAV_FILE, JPEG_FILE)))
    driver.submit(1, payload=payload)
    (order,) = driver.opens()

    data = [source.data for source in order.sources]
    assert data == [make_wav(5000), WAV_FILE, JPEG_FILE]


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (attrs.evolve(stored(1, WAV_FILE), sha256=b"\1" * 32), MediaStatus.DIGEST),
        (stored(1, make_wav(320)), MediaStatus.LIMIT),
        (stored(1, WAV_FILE[:-2] + b"\1"), MediaStatus.AUDIO_FORMAT),
        (stored(1, make_wav(400, silent=True)), MediaStatus.AUDIO_SILENT),
        (stored(1, JPEG_FILE[:-1]), MediaStatus.JPEG),
        (stored(1, make_jpeg(201, 1)), MediaStatus.EXTENT),
    ],
)
def test_sources_that_are_none(start: Start, source: StoredSource, status: int) -> None:
    """What the store gives is checked like an upload; the start is refused then."""
    driver = start(engines=[seeing_engine()])
    assert driver.device.restore_source(source) == status


def test_sources_that_do_not_fit(start: Start) -> None:
    """`device.md` §12: fewer descriptors, bytes or rows than before."""
    count = SMALL.media_objects
    small = [stored(n, WAV_FILE) for n in range(1, count + 2)]
    assert statuses_of(start, small) == [0] * count + [MediaStatus.PRESSURE]
    # 30 s at 16 kHz are 960,044 of 1,048,576 bytes.
    long = make_wav(480000)
    assert statuses_of(start, [stored(1, long), stored(2, long)]) == [
        0,
        MediaStatus.PRESSURE,
    ]
    rows = [stored(n, make_wav(2000)) for n in (1, 2)]
    assert statuses_of(start, rows, TIGHT) == [0, MediaStatus.PRESSURE]


@pytest.mark.parametrize(
    ("capacities", "data"),
    [
        (attrs.evolve(SMALL, media_bytes=len(WAV_FILE) - 1), WAV_FILE),
        (attrs.evolve(SMALL, image_rows=69), JPEG_FILE),
        (attrs.evolve(SMALL, audio_rows=2), make_wav(2000)),
        (NO_MEDIA, WAV_FILE),
    ],
)
def test_sources_beyond_a_capacity(
    start: Start, capacities: Capacities, data: bytes
) -> None:
    """`device.md` §12, 2 and 12: a larger pool would help here, an empty one not."""
    assert statuses_of(start, [stored(1, data)], capacities) == [MediaStatus.LIMIT]


def test_removal_of_what_was_restored(start: Start) -> None:
    """D12: by owner and transfer id."""
    driver = restarted(start, stored(7, WAV_FILE))
    header = driver.header(Operation.MEDIA_READ, id=request_id(7))
    assert driver.status(header) == 200
    assert remove(driver, 7, saved=False)[0] == 429
    assert seen(driver, 7) == (READY, 0)
    assert remove(driver, 7)[0] == 200
