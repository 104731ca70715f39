"""
cases F: what an upload becomes (`device.md` §12, §13).
"""

from __future__ import annotations

import hashlib

import attrs
import pytest

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
    seen,
    settle,
    upload,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import P1, grant, request_id
from tests.media_made import make_jpeg, make_wav
from twisted_aotx.orders import SourceRecord
from twisted_aotx.wire.media import Metadata
from twisted_aotx.wire.numbers import MediaFormat, MediaStatus

RECEIVING, HASHING, WAITING, DECODING, ENCODING, READY, REFUSED = range(1, 8)


@pytest.fixture
def driver(start: Start) -> Driver:
    return with_media(start)


def test_phases_of_a_jpeg(driver: Driver) -> None:
    """cases F 91."""
    digest = hashlib.sha256(JPEG_FILE).digest()
    size = len(JPEG_FILE)
    expected = Metadata(digest, size, RECEIVING, 0, MediaFormat.JPEG)

    assert begin(driver, 1) == (200, expected)
    half = size // 2
    assert chunk(driver, 1, JPEG_FILE[:half], size) == (200, expected)
    assert chunk(driver, 1, JPEG_FILE[half:], size, half) == (200, expected)
    assert look(driver, 1) == (200, expected)
    hashing = attrs.evolve(expected, phase=HASHING)
    assert end(driver, 1, size) == (200, hashing)
    settle(driver)
    assert look(driver, 1) == (200, attrs.evolve(expected, phase=DECODING))
    (job,) = driver.device.media_jobs()
    assert (job.size, job.width, job.height) == (size, 24, 16)
    where = job.index, job.generation, job.offset, job.size
    assert driver.device.source_bytes(*where) == JPEG_FILE
    driver.device.finish_media(job.worker, True)
    settle(driver)
    assert look(driver, 1) == (200, attrs.evolve(expected, phase=ENCODING))
    (record,) = driver.store()
    assert isinstance(record, SourceRecord)
    assert (record.owner, record.transfer_id) == (P1, request_id(1))
    assert (record.sha256, record.size) == (digest, size)

    # 224 × 320 pixels in squares of 32 (`device.md` §13).
    ready = attrs.evolve(expected, phase=READY, rows=70)
    assert look(driver, 1) == (200, ready)
    assert [row.metadata for row in listed(driver)[2]] == [ready]
    assert end(driver, 1, size) == (200, ready)


def test_phases_of_a_wav(driver: Driver) -> None:
    """cases F 91, of the other family; the host has nothing to decode."""
    data = make_wav(48000, "float32", 48000, 2)
    upload(driver, 1, data)
    settle(driver)
    assert seen(driver, 1) == (ENCODING, 0)
    assert list(driver.device.media_jobs()) == []
    driver.store()

    status, metadata = look(driver, 1)
    assert metadata is not None
    assert (status, metadata.phase, metadata.source_bytes) == (200, READY, len(data))
    assert (metadata.samples, metadata.rows) == (16000, 25)


def test_bytes_for_the_store(driver: Driver) -> None:
    """D12: what is kept is what was sent, read in parts of any size."""
    data = make_wav(9000)
    upload(driver, 1, data)
    settle(driver)
    (record,) = driver.device.records()
    assert isinstance(record, SourceRecord)
    parts = [
        driver.device.record_bytes(record, at, min(5000, len(data) - at))
        for at in range(0, len(data), 5000)
    ]

    assert b"".join(parts) == data


def test_digest_that_is_another(driver: Driver) -> None:
    """cases F 94."""
    upload(driver, 1, JPEG_FILE, sha256=b"\1" * 32)
    settle(driver)

    assert seen(driver, 1) == (REFUSED, MediaStatus.DIGEST)
    status, metadata = look(driver, 1)
    assert metadata is not None
    assert (status, metadata.sha256) == (200, b"\1" * 32)
    assert end(driver, 1, len(JPEG_FILE)) == (200, metadata)


@pytest.mark.parametrize("phase", [RECEIVING, HASHING, DECODING])
def test_cancel_before_the_end(driver: Driver, phase: int) -> None:
    """`device.md` §12 CANCEL: refused at once, receipt freed."""
    if phase == RECEIVING:
        begin(driver, 1)
    else:
        upload(driver, 1, JPEG_FILE)
    if phase == DECODING:
        settle(driver)

    status, metadata = cancel(driver, 1)

    assert metadata is not None
    assert (status, metadata.phase, metadata.status) == (200, REFUSED, 4)
    assert cancel(driver, 1) == (status, metadata)
    assert list(driver.device.records()) == []
    # Neither receipt nor descriptor counts against the quota.
    driver.install(grant(actions=3, media=1, media_bytes=len(JPEG_FILE)))
    assert begin(driver, 2)[0] == 200


def test_late_word_of_a_worker(driver: Driver) -> None:
    """`device.md` §12: a cancelled source keeps its worker, and nothing else."""
    upload(driver, 1, JPEG_FILE)
    settle(driver)
    cancel(driver, 1)
    upload(driver, 2, make_jpeg(seed=2))
    settle(driver)
    assert seen(driver, 2) == (WAITING, 0)

    for job in driver.device.media_jobs():
        driver.device.finish_media(job.worker, True)
    settle(driver)

    assert seen(driver, 1) == (REFUSED, MediaStatus.CANCELLED)
    assert seen(driver, 2) == (DECODING, 0)
    assert list(driver.device.records()) == []


def test_decoder_that_refuses(driver: Driver) -> None:
    """D12: status 5."""
    upload(driver, 1, JPEG_FILE)
    decode(driver, decoded=False)

    assert seen(driver, 1) == (REFUSED, MediaStatus.JPEG)
    assert begin(driver, 2)[0] == 200


def test_one_worker_per_family(driver: Driver) -> None:
    """`device.md` §12: oldest first; the other family does not wait."""
    files = {n: make_jpeg(seed=n) for n in (1, 2, 3)}
    for number, data in files.items():
        begin(driver, number, data)
    for number in (3, 2, 1):
        data = files[number]
        chunk(driver, number, data, len(data))
    for number in (2, 3):
        end(driver, number, len(files[number]))
    settle(driver)
    end(driver, 1, len(files[1]))
    upload(driver, 4, WAV_FILE)
    settle(driver)
    phases = [seen(driver, n)[0] for n in (1, 2, 3, 4)]
    assert phases == [WAITING, DECODING, WAITING, ENCODING]

    decode(driver)

    phases = [seen(driver, n)[0] for n in (1, 2, 3)]
    assert phases == [DECODING, ENCODING, WAITING]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (JPEG_FILE + b"\0", MediaStatus.JPEG),
        (b"\xff\xd8\xff\xd9", MediaStatus.JPEG),
        (make_jpeg(201, 1), MediaStatus.EXTENT),
        (make_wav(400, silent=True), MediaStatus.AUDIO_SILENT),
        (WAV_FILE + b"\0", MediaStatus.AUDIO_FORMAT),
        (make_wav(320), MediaStatus.LIMIT),
    ],
)
def test_content_that_is_refused(driver: Driver, data: bytes, status: int) -> None:
    """`device.md` §13, one of each status; no worker and no store is asked."""
    upload(driver, 1, data)
    settle(driver)

    assert seen(driver, 1) == (REFUSED, status)
    assert list(driver.device.media_jobs()) == []
    assert list(driver.device.records()) == []
    make_ready(driver, 2)
