"""
What a device is given at start (`device.md` §11, §14; D13).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.journal.records import Pool, batch, control, row, stored
from tests.runtime.doubles import MemoryDevice, new_store
from twisted_aotx.errors import ConfigError
from twisted_aotx.journal.errors import StoreUnusable
from twisted_aotx.journal.store import Store
from twisted_aotx.runtime.restoring import restore
from twisted_aotx.wire.numbers import MediaStatus


@pytest.fixture
def device() -> Iterator[MemoryDevice]:
    device = MemoryDevice()
    yield device
    device.free()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path) as store:
        yield store


def test_an_empty_store_restores_nothing(device: MemoryDevice, store: Store) -> None:
    """The device has what a first activation has already."""
    restore(device, store)

    assert device.restored == []


def test_policy_then_sources_in_order(device: MemoryDevice, store: Store) -> None:
    pool = Pool()
    sources = [pool.source(b"%d" % n, transfer=n) for n in (3, 1, 2)]
    for source in sources:
        store.save(source, pool.read)
    store.save(batch(4, row()), pool.read)
    store.save(control(9, paused=True), pool.read)

    restore(device, store)

    policy = store.policy()
    assert policy is not None
    assert device.restored == [policy, *(stored(each, pool) for each in sources)]


def test_a_policy_that_cannot_be_used_is_broken_and_the_sources_are_there(
    device: MemoryDevice, store: Store
) -> None:
    pool = Pool()
    source = pool.source(b"abc")
    store.save_together([control(9), source], pool.read)
    store._connection.execute("UPDATE policy SET review = 9")

    with capturedLogs() as events:
        restore(device, store)

    assert device.restored == ["broken", stored(source, pool)]
    errors = [
        formatEvent(event) for event in events if event["log_level"].name == "error"
    ]
    assert len(errors) == 1
    assert errors[0].startswith(
        f"the saved policy state cannot be used: {store.path}: "
    )


@pytest.mark.parametrize(
    ("status", "key"),
    [
        (MediaStatus.PRESSURE, "media_bytes"),
        (MediaStatus.PRESSURE, "media_objects"),
        (MediaStatus.LIMIT, "media_objects"),
        (MediaStatus.LIMIT, "media_bytes"),
        (MediaStatus.LIMIT, "audio_frames"),
        (MediaStatus.JPEG, "image_dimension"),
    ],
)
def test_a_source_that_no_longer_fits_refuses_the_start(
    device: MemoryDevice, store: Store, status: MediaStatus, key: str
) -> None:
    pool = Pool()
    store.save(pool.source(b"abc"), pool.read)
    device.restore_status = int(status)

    with pytest.raises(ConfigError) as caught:
        restore(device, store)

    assert caught.value.path == "runtime.json: device"
    assert key in caught.value.reason
    assert str(store.path) in caught.value.reason


@pytest.mark.parametrize("status", [MediaStatus.DIGEST, MediaStatus.AUDIO_FORMAT])
def test_a_source_that_is_not_what_it_was_refuses_the_start(
    device: MemoryDevice, store: Store, status: MediaStatus
) -> None:
    pool = Pool()
    store.save(pool.source(b"abc"), pool.read)
    device.restore_status = int(status)

    with pytest.raises(StoreUnusable, match=r"state\.sqlite3: is damaged"):
        restore(device, store)
