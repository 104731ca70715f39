"""
The cost of a tick follows the work present, never the capacities [D6]: lines of kernels
that run, counted in plain Python, are the same for 16 and for 1,024 of everything.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.device.driver import Driver
from tests.device.making import (
    P2,
    grant,
    new_device,
    part,
    payload_of,
    played_engine,
    request_id,
)
from tests.device.visits import count_lines, from_plain_python
from tests.media_made import make_wav
from twisted_aotx.device.host import Device
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.media import BeginData, MediaFrame
from twisted_aotx.wire.numbers import MediaFormat, Operation, PartKind

FEW, MANY = 16, 1024
ACTIONS = (
    *("idle tick", "READ", "SUBMIT", "CANCEL"),
    *("BEGIN", "CHUNK", "MEDIA_READ", "MEDIA_LIST", "END", "SUBMIT with a source"),
)
SOURCE = make_wav(400)
DIGEST = hashlib.sha256(SOURCE).digest()
#: The upload that is measured; before it come two that stay.
TRANSFER = 3


def send(driver: Driver, frame: MediaFrame) -> None:
    """One media frame, which must be taken."""
    header = driver.header(Operation.MEDIA, id=frame.head.transfer_id)
    assert driver.status(header, frame.pack()) == 200


def keep_sources(driver: Driver, device: Device) -> None:
    """Two sources that are ready."""
    begin = BeginData(MediaFormat.WAV, DIGEST)
    for number in range(1, TRANSFER):
        transfer = request_id(number)
        send(driver, MediaFrame.begin(transfer, len(SOURCE), begin))
        send(driver, MediaFrame.chunk(transfer, len(SOURCE), 0, SOURCE))
        send(driver, MediaFrame.end(transfer, len(SOURCE)))
    driver.step()
    for _ in device.records():
        device.finish_record(True)
    driver.step()


def visits(size: int) -> dict[str, list[tuple[str, int, int]]]:
    """Action → (module, line, times) for a device with *size* of everything."""
    capacities = Capacities(
        slots=size,
        requests=size,
        channels=size,
        # 1,022 is the most that the contract allows.
        principals=min(size, 1022),
        prompt_bytes=256,
        output_bytes=256,
        media_objects=size,
        media_bytes=size << 12,
        image_rows=size << 7,
        audio_rows=size << 2,
    )
    engine = played_engine(capacity=2, sequence_tokens=8192, modalities=5)
    device = new_device(capacities, [engine], "cpu")
    driver = Driver(device, capacities)
    row = grant(actions=3, requests=8, media=8, media_bytes=1 << 14)
    driver.install(row, grant(P2))
    for number in range(1, 5):
        driver.submit(number)
    done, running = driver.opens()
    driver.play(done, [b"some", b"output"])
    driver.open_one(running)
    driver.step()
    keep_sources(driver, device)
    begin = MediaFrame.begin(
        request_id(TRANSFER), len(SOURCE), BeginData(MediaFormat.WAV, DIGEST)
    )
    chunk = MediaFrame.chunk(request_id(TRANSFER), len(SOURCE), 0, SOURCE)
    end = MediaFrame.end(request_id(TRANSFER), len(SOURCE))
    asks = payload_of(struct.pack("<II", 1, 1) + part(DIGEST, PartKind.AUDIO))
    found = {}
    actions: tuple[Callable[[], object], ...] = (
        lambda: device.tick(driver.now + 1),
        lambda: driver.read(1),
        lambda: driver.submit(5),
        lambda: driver.cancel(2),
        lambda: send(driver, begin),
        lambda: send(driver, chunk),
        lambda: driver.send(
            driver.header(Operation.MEDIA_READ, id=request_id(TRANSFER))
        ),
        lambda: driver.send(driver.header(Operation.MEDIA_LIST)),
        lambda: send(driver, end),
        lambda: driver.submit(6, payload=asks),
    )
    for name, act in zip(ACTIONS, actions, strict=True):
        with count_lines() as counted:
            act()
        found[name] = [(*line, times) for line, times in counted.counts.items()]
    return found


@pytest.fixture(scope="module")
def counted() -> dict[int, Any]:
    return {size: from_plain_python(__name__, size) for size in (FEW, MANY)}


@pytest.mark.parametrize("action", ACTIONS)
def test_visits_do_not_grow(counted: dict[int, Any], action: str) -> None:
    few, many = (
        Counter(
            {(module, line): times for module, line, times in counted[size][action]}
        )
        for size in (FEW, MANY)
    )
    assert few.total() > 50
    assert many - few == Counter()
    assert few - many == Counter()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(visits(int(sys.argv[1]))))
