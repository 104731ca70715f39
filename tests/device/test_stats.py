"""
What the device tells of itself: counters that follow what it does.
"""

from __future__ import annotations

import attrs

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import (
    CHATML,
    SECOND,
    grant,
    kernel_engine,
    new_device,
    played_engine,
    request_id,
)
from twisted_aotx.device.host import Device
from twisted_aotx.device.numbers import Event
from twisted_aotx.wire.media import BeginData, MediaFrame
from twisted_aotx.wire.numbers import Action, MediaFormat, Modality, Operation


def test_the_counters_follow_the_device() -> None:
    """Ticks and frames grow; leases and queue are those of now; late events count."""
    engine = played_engine(
        2, capacity=1, sequence_tokens=SMALL.sequence_tokens, message_format=CHATML
    )
    device = new_device(SMALL, (engine,))
    driver = Driver(device, SMALL)
    assert driver.install(grant()) == 200
    before = device.stats()

    assert driver.submit(1) == 202
    assert driver.submit(2) == 202
    busy = device.stats()
    (order,) = driver.opens()
    driver.cancel(1)
    driver.report(order, Event.OPENED, 5)
    driver.step()
    (other,) = driver.opens()
    driver.step()
    after = device.stats()

    assert busy.ticks == before.ticks + 2
    assert busy.frames == before.frames + 2
    assert (busy.leases, busy.queued) == (1, 1)
    assert (after.leases, after.queued) == (1, 0)
    assert other.slot == order.slot
    assert after.dropped_events == before.dropped_events + 1
    assert after.roles_active == 1 << 2
    assert not after.held


def test_hold_and_lost_engines_show() -> None:
    engine = played_engine(
        2, capacity=1, sequence_tokens=SMALL.sequence_tokens, message_format=CHATML
    )
    device = new_device(SMALL, (engine,))
    driver = Driver(device, SMALL)

    device.set_engine(2, False)
    driver.step()
    assert device.stats().roles_active == 0

    device.set_hold(True)
    driver.step()
    assert device.stats().held


def media_of(device: Device) -> tuple[int, int, int]:
    """Sources, bytes that they have, receipts."""
    stats = device.stats()
    taken = SMALL.media_bytes - stats.media_bytes_free
    return stats.media_objects, taken, stats.media_receipts


def test_sources_and_receipts_are_counted_until_they_are_gone() -> None:
    engine = kernel_engine(2, capacity=1, sequence_tokens=SMALL.sequence_tokens)
    facts = attrs.evolve(engine.facts, modalities=Modality.TEXT | Modality.AUDIO)
    device = new_device(SMALL, (attrs.evolve(engine, facts=facts),))
    driver = Driver(device, SMALL)
    upload = grant(actions=Action.UPLOAD, media=4, media_bytes=1000)
    assert driver.install(upload) == 200
    begin = BeginData(MediaFormat.WAV, bytes(32))

    def send(number: int, frame: MediaFrame) -> int:
        header = driver.header(Operation.MEDIA, id=request_id(number))
        return driver.status(header, frame.pack())

    driver.step()
    assert media_of(device) == (0, 0, 0)
    assert send(1, MediaFrame.begin(request_id(1), 700, begin)) == 200
    assert send(2, MediaFrame.begin(request_id(2), 300, begin)) == 200
    assert media_of(device) == (2, 1000, 2)
    # Whoever begins it gives it up: nothing is kept.
    assert send(1, MediaFrame.cancel(request_id(1))) == 200
    assert media_of(device) == (1, 300, 1)
    # One that comes to a bad end: its receipt is kept for as long as an upload lasts.
    assert send(2, MediaFrame.end(request_id(2), 300)) == 400
    assert media_of(device) == (0, 0, 1)
    driver.step(SMALL.upload_seconds * SECOND - 1)
    assert media_of(device) == (0, 0, 1)
    driver.step()
    assert media_of(device) == (0, 0, 0)
