"""
What waits for the state store: phase 6 and removals (D12; `device.md` §12).
"""

from __future__ import annotations

import struct

import pytest

from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    WAV_FILE,
    begin,
    listed,
    look,
    make_ready,
    post_cancel,
    remove,
    seen,
    settle,
    upload,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import P1, request_id
from twisted_aotx.orders import RemovalRecord, SourceRecord
from twisted_aotx.wire.media import Metadata
from twisted_aotx.wire.numbers import MediaStatus

RECEIVING, HASHING, WAITING, DECODING, ENCODING, READY, REFUSED = range(1, 8)


@pytest.fixture
def driver(start: Start) -> Driver:
    return with_media(start)


def test_removal(driver: Driver) -> None:
    """D12: the reply waits; until then the source is shown and takes no lease."""
    make_ready(driver, 1)
    post_cancel(driver, 3, 1)
    assert seen(driver, 1) == (READY, 0)
    assert [row.metadata.phase for row in listed(driver)[2]] == [READY]
    assert driver.store() == [RemovalRecord(owner=P1, transfer_id=request_id(1))]

    reply, data = driver.answer(3)
    metadata = Metadata.unpack(data)
    assert (reply.status, metadata.phase, metadata.status) == (200, REFUSED, 4)
    assert look(driver, 1) == (200, metadata)
    assert listed(driver)[2] == ()


def test_removal_that_is_not_saved(driver: Driver) -> None:
    """D12: ready again, 429."""
    make_ready(driver, 1)

    status, metadata = remove(driver, 1, saved=False)

    assert metadata is not None
    assert (status, metadata.phase) == (429, READY)
    assert seen(driver, 1) == (READY, 0)
    assert remove(driver, 1)[0] == 200


def test_removals_beside_each_other(driver: Driver) -> None:
    """D12: the second finds it gone, which is no failure."""
    make_ready(driver, 1)
    post_cancel(driver, 3, 1)
    post_cancel(driver, 4, 1)
    assert len(driver.store()) == 2

    assert list(driver.device.collect()) == [3, 4]
    for channel in (3, 4):
        packet = driver.take(channel)
        assert struct.unpack_from("<I", packet, 8) == (200,)
        assert Metadata.unpack(packet[128:]).phase == REFUSED


def test_removal_of_what_is_being_kept(driver: Driver) -> None:
    """D12: both wait for the store, in order."""
    upload(driver, 1, WAV_FILE)
    settle(driver)
    post_cancel(driver, 3, 1)
    assert seen(driver, 1) == (ENCODING, 0)
    save, removal = driver.device.records()
    assert isinstance(save, SourceRecord)
    assert isinstance(removal, RemovalRecord)
    driver.device.finish_record(True)
    driver.step()
    assert seen(driver, 1) == (READY, 0)
    driver.device.finish_record(True)
    driver.step()

    reply, data = driver.answer(3)
    assert (reply.status, Metadata.unpack(data).status) == (200, 4)


def test_source_that_is_not_kept(driver: Driver) -> None:
    """D12: a failed write refuses it with status 12."""
    upload(driver, 1, WAV_FILE)
    settle(driver)
    driver.store(saved=False)

    assert seen(driver, 1) == (REFUSED, MediaStatus.PRESSURE)
    assert begin(driver, 1) == (409, None)
    make_ready(driver, 2)
