"""
Frames of one tick, fairness, INFO and METRICS (`device.md` §3, §15).
"""

from __future__ import annotations

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    HELLO,
    P1,
    P2,
    grant,
    played_engine,
    request_id,
)
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.numbers import Operation, Phase
from twisted_aotx.wire.packet import RequestHeader, join, split_reply

#: Infer, upload, telemetry, shared write, policy.
MOST = 1 | 2 | 8 | 32 | 128


PEERS = SMALL.channels - 1


@pytest.fixture
def driver(start: Start) -> Driver:
    """P1 may do most, P2 nothing that a hold touches; capacity 2."""
    driver = start(engines=[played_engine(capacity=2, sequence_tokens=8192)])
    rows = (
        grant(P1, actions=MOST, requests=SMALL.requests),
        grant(P2, actions=8),
    )
    assert driver.install(*rows) == 200
    return driver


def metrics(driver: Driver) -> Information:
    reply, data = driver.send(driver.header(Operation.METRICS))
    assert reply.status == 200
    return Information.unpack(data)


def publish_everywhere(driver: Driver, packet: bytes) -> None:
    for channel in range(1, PEERS + 1):
        driver.publish(channel, packet)


def test_every_channel_is_served_within_two_ticks(driver: Driver) -> None:
    """`device.md` §3 row 4: as many frames as slots, then the others, in turn."""
    info = join(driver.header(Operation.INFO))
    publish_everywhere(driver, info)
    assert SMALL.slots < PEERS <= 2 * SMALL.slots

    driver.step()
    assert list(driver.device.collect()) == list(range(1, SMALL.slots + 1))
    for channel in range(1, SMALL.slots + 1):
        driver.take(channel)
        driver.publish(channel, info)
    driver.step()

    # Those that waited come before those that ask again.
    later = list(range(SMALL.slots + 1, PEERS + 1))
    again = list(range(1, 2 * SMALL.slots - PEERS + 1))
    assert list(driver.device.collect()) == later + again


def test_malformed_frames_use_no_budget(driver: Driver) -> None:
    """`device.md` §3: rows 1 to 3; nor does channel 0."""
    info = join(driver.header(Operation.INFO))
    broken = b"?" + info[1:]
    table = GrantTable(driver.revision, ()).pack()
    driver.publish(0, table)
    for channel in range(1, PEERS + 1):
        wrong = channel <= PEERS - SMALL.slots
        driver.publish(channel, broken if wrong else info)

    driver.step()

    assert list(driver.device.collect()) == list(range(PEERS + 1))
    assert split_reply(driver.take(0))[0].status == 400


def test_metrics(driver: Driver) -> None:
    """`device.md` §15: allocation, tick counter, clock; zeros in INFO."""
    first = metrics(driver)
    driver.step(5)
    second = metrics(driver)

    assert first.allocation_bytes == second.allocation_bytes
    assert second.tick == first.tick + 2
    assert second.clock_ns == first.clock_ns + 6
    info = driver.info()
    assert (info.allocation_bytes, info.tick, info.clock_ns) == (0, 0, 0)
    assert driver.status(driver.header(Operation.METRICS, P2)) == 200


def test_metrics_needs_its_bit(driver: Driver) -> None:
    """`device.md` §3 row 9."""
    driver.install(grant(actions=1))
    assert driver.status(driver.header(Operation.METRICS)) == 403


def test_information(driver: Driver) -> None:
    """`wire.md` §7, every field that this version sets."""
    info = driver.info()

    assert (info.revision, info.slots) == (2, SMALL.slots)
    assert info.prompt_bytes == SMALL.prompt_bytes
    assert info.sequence_tokens == SMALL.sequence_tokens
    assert (info.requests, info.output_bytes) == (SMALL.requests, SMALL.output_bytes)
    assert (info.channels, info.principals) == (SMALL.channels, SMALL.principals)
    assert (info.grant_tokens, info.grant_requests) == (64, SMALL.requests)
    assert (info.grant_pages, info.grant_actions) == (512, MOST)
    assert info.request_seconds == SMALL.request_seconds
    assert info.upload_seconds == SMALL.upload_seconds
    assert info.media_references == SMALL.prompt_bytes // 72 + 1
    # Media are on, but no engine here takes any.
    assert (info.media_objects, info.media_bytes) == (SMALL.media_objects, 0)
    assert (info.image_input, info.audio_input, info.shared) == (0, 0, 0)
    assert (info.image_pixels, info.audio_frames) == (SMALL.image_pixels, 0)
    assert info.memory_roles == 0
    assert (info.controls, info.selection_version) == ((), 1)
    assert info.lineage == bytes(16)
    assert [(row.role, row.modalities) for row in info.models] == [(2, 1)]


def test_frames_of_one_tick_see_each_other(driver: Driver) -> None:
    """`device.md` §3: in the order of the scan."""
    key = request_id(1)

    def addressed(operation: int) -> RequestHeader:
        return driver.header(operation, epoch=EPOCH, id=key)

    driver.publish(2, join(driver.submit_header(1), HELLO))
    driver.publish(3, join(addressed(Operation.READ)))
    driver.publish(4, join(addressed(Operation.CANCEL)))
    driver.publish(5, join(driver.submit_header(1), HELLO))
    driver.step()
    replies = [split_reply(driver.take(channel))[0] for channel in (2, 3, 4, 5)]

    assert [(reply.status, reply.phase) for reply in replies] == [
        (202, Phase.QUEUED),
        (200, Phase.QUEUED),
        (200, Phase.CANCELLED),
        (409, 0),
    ]
    assert list(driver.take_orders()) == []
