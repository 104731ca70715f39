"""
Media on and off, and what INFO tells of it (`wire.md` §7; `device.md` §12).
"""

from __future__ import annotations

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    AUDIO,
    IMAGE,
    JPEG_FILE,
    TEXT,
    WAV_FILE,
    begin,
    listed,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import P1, P3, grant
from twisted_aotx.wire.numbers import Operation

RECEIVING, HASHING, WAITING, DECODING, ENCODING, READY, REFUSED = range(1, 8)


@pytest.fixture
def driver(start: Start) -> Driver:
    return with_media(start)


def test_media_needs_its_bit(driver: Driver) -> None:
    """`device.md` §12 row 1: before anything else of the frame."""
    driver.install(grant(P1, actions=1), grant(P3, actions=255))
    for operation in (Operation.MEDIA, Operation.MEDIA_READ, Operation.MEDIA_LIST):
        assert driver.status(driver.header(operation)) == 403
    assert driver.status(driver.header(Operation.MEDIA, P3)) == 400


@pytest.mark.parametrize(
    ("modalities", "image", "audio"),
    [(TEXT, 503, 503), (TEXT | IMAGE, 200, 503), (TEXT | AUDIO, 503, 200)],
)
def test_modalities(start: Start, modalities: int, image: int, audio: int) -> None:
    """`device.md` §12 row 7."""
    driver = with_media(start, modalities=modalities)
    info = driver.info()

    assert begin(driver, 1, JPEG_FILE)[0] == image
    assert begin(driver, 2, WAV_FILE)[0] == audio
    assert (info.image_input, info.audio_input) == (image == 200, audio == 200)
    assert bool(info.audio_frames) == (audio == 200)
    assert listed(driver)[0] == 200
    assert info.models[0].modalities == modalities


def test_information_about_media(driver: Driver) -> None:
    """`wire.md` §7."""
    driver.install(grant(actions=3, media=3, media_bytes=2**40))
    info = driver.info()

    assert (info.media_objects, info.grant_media) == (SMALL.media_objects, 3)
    assert info.media_bytes == SMALL.media_bytes
    assert (info.image_input, info.audio_input) == (1, 1)
    assert info.image_pixels == SMALL.image_pixels
    assert info.audio_frames == SMALL.audio_frames
    driver.install(grant(actions=3, media=3, media_bytes=1000))
    assert driver.info().media_bytes == 1000
