"""
The threads that decode images for the device (D12).
"""

from __future__ import annotations

import io
import os
import queue
import random
import threading
from collections.abc import Callable, Iterator
from typing import IO

import pytest
from twisted.logger import capturedLogs

from tests.media_made import make_jpeg
from tests.runtime.doubles import PATIENCE_SECONDS, MemoryDevice
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.media_worker import (
    DECODING_NICENESS,
    READ_BYTES,
    MediaWorker,
    SourceFile,
)

GOOD = make_jpeg(24, 16)


def job(worker: int = 0, index: int = 3, **changes: int) -> MediaJob:
    values = {
        "generation": 7,
        "offset": 0,
        "size": len(GOOD),
        "width": 24,
        "height": 16,
    }
    return MediaJob(worker=worker, index=index, **{**values, **changes})


class SlowDecoder:
    """
    Decodes when the test says how that ended; tells which threads were there.
    """

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[bool | Exception] = queue.SimpleQueue()
        self.threads: list[str] = []
        self.begun = threading.Semaphore(0)

    def __call__(self, file: IO[bytes], width: int, height: int) -> bool:
        self.threads.append(threading.current_thread().name)
        self.begun.release()
        answer = self.answers.get(timeout=PATIENCE_SECONDS)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def device() -> Iterator[MemoryDevice]:
    device = MemoryDevice()
    device.pool = GOOD
    yield device
    device.free()


def until(reached: Callable[[], object]) -> None:
    ticks = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.002)):
        if reached():
            return
        ticks.wait(0.002)
    raise AssertionError("nothing more happened")


def test_the_device_hears_how_each_image_went(device: MemoryDevice) -> None:
    media = MediaWorker(device)
    for each in (job(), job(width=25), job(size=len(GOOD) - 40)):
        device.decode(each)
        media.doorbell_rung()

    until(lambda: len(device.decoded) == 3)
    assert device.decoded == [(0, True), (0, False), (0, False)]
    assert device.log.count("ring") == 3
    media.close()


def test_each_worker_has_a_thread_of_its_own(device: MemoryDevice) -> None:
    decoder = SlowDecoder()
    media = MediaWorker(device, decoder)
    device.decode(job(0), job(1))
    media.doorbell_rung()
    for _ in range(2):
        assert decoder.begun.acquire(timeout=PATIENCE_SECONDS)

    assert sorted(decoder.threads) == ["aotx-image-0", "aotx-image-1"]
    assert device.decoded == []

    for _ in range(2):
        decoder.answers.put(True)
    until(lambda: len(device.decoded) == 2)
    device.decode(job(1))
    media.doorbell_rung()
    assert decoder.begun.acquire(timeout=PATIENCE_SECONDS)
    assert decoder.threads[2] == "aotx-image-1"
    decoder.answers.put(False)
    until(lambda: device.decoded[2:] == [(1, False)])
    media.close()


def test_a_decoding_thread_stands_back(device: MemoryDevice) -> None:
    """On a machine with few cores a picture holds up nobody who answers requests."""
    seen: list[int] = []

    def decode(file: IO[bytes], width: int, height: int) -> bool:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return True

    ours = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    media = MediaWorker(device, decode)
    device.decode(job())
    media.doorbell_rung()
    until(lambda: device.decoded)
    media.close()

    assert seen == [min(19, ours + DECODING_NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == ours


def test_a_source_that_is_gone_frees_its_worker(device: MemoryDevice) -> None:
    decoder = SlowDecoder()
    media = MediaWorker(device, decoder)
    device.gone.add((3, 7))
    device.decode(job())
    media.doorbell_rung()

    until(lambda: device.decoded == [(0, False)])
    assert decoder.threads == []
    media.close()


def test_an_error_of_our_own_frees_its_worker_and_is_logged(
    device: MemoryDevice,
) -> None:
    decoder = SlowDecoder()
    media = MediaWorker(device, decoder)
    decoder.answers.put(ValueError("boom"))
    decoder.answers.put(True)
    with capturedLogs() as events:
        device.decode(job())
        media.doorbell_rung()
        until(lambda: device.decoded == [(0, False)])
        device.decode(job())
        media.doorbell_rung()
        until(lambda: device.decoded == [(0, False), (0, True)])

    assert [event["log_format"] for event in events] == ["an image worker failed"]
    media.close()


def test_after_the_end_the_device_hears_nothing(device: MemoryDevice) -> None:
    decoder = SlowDecoder()
    media = MediaWorker(device, decoder)
    device.decode(job(0))
    media.doorbell_rung()
    assert decoder.begun.acquire(timeout=PATIENCE_SECONDS)
    threads = list(media._threads)

    media.close()
    media.close()
    decoder.answers.put(True)
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()

    assert device.decoded == []


@pytest.fixture
def large(device: MemoryDevice) -> SourceFile:
    """A source of two reads and five bytes, in the middle of the pool."""
    size = 2 * READ_BYTES + 5
    device.pool = b"before" + random.Random(1).randbytes(size) + b"behind"
    return SourceFile(device, job(offset=6, size=size))


def test_a_source_is_read_as_a_file_in_small_copies(
    device: MemoryDevice, large: SourceFile
) -> None:
    source = device.pool[6:-6]
    assert large.read(len(source)) == source[:READ_BYTES]
    assert large.read(READ_BYTES + 1) == source[READ_BYTES : 2 * READ_BYTES]
    assert large.read(10) == source[-5:]
    assert large.read(10) == b""
    assert large.seek(-7, io.SEEK_END) == len(source) - 7
    assert large.read(3) == source[-7:-4]
    assert large.seek(-4, io.SEEK_CUR) == len(source) - 8
    assert large.read(1) == source[-8:-7]
    assert large.seek(9, io.SEEK_END) == len(source) + 9
    assert large.read(1) == b""
    assert large.seek(2) == 2
    assert large.tell() == 2
    assert io.BufferedReader(large, READ_BYTES).read() == source[2:]


def test_a_source_that_goes_while_it_is_read(
    device: MemoryDevice, large: SourceFile
) -> None:
    assert large.read(1)
    device.gone.add((3, 7))
    with pytest.raises(SourceGone):
        large.read(1)
