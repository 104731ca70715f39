"""
The threads that have images decoded for the device (D12).
"""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from twisted.logger import capturedLogs

from tests.media_made import make_jpeg
from tests.runtime.decoders import Decoders, Watched
from tests.runtime.doubles import PATIENCE_SECONDS, MemoryDevice
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.decoding import PIECE_BYTES
from twisted_aotx.runtime.media_worker import MediaWorker, pieces_of

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
        self.log: list[str] = []

    def decodes(self, job: MediaJob, pieces: Iterator[bytes]) -> bool:
        list(pieces)
        self.threads.append(threading.current_thread().name)
        self.begun.release()
        answer = self.answers.get(timeout=PATIENCE_SECONDS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        self.log.append("kill")

    def close(self) -> None:
        self.log.append("close")


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
    media = MediaWorker(device, lambda: decoder)
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


class GatedDevice(MemoryDevice):
    """
    Its source 3 comes when `gate` is open; `asked` says that it was wanted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pool = GOOD
        self.asked = threading.Event()
        self.gate = threading.Event()

    def source_bytes(
        self, index: int, generation: int, offset: int, size: int
    ) -> bytes:
        if index == 3:
            self.asked.set()
            assert self.gate.wait(PATIENCE_SECONDS)
        return super().source_bytes(index, generation, offset, size)


@pytest.fixture
def gated() -> Iterator[GatedDevice]:
    device = GatedDevice()
    yield device
    device.gate.set()
    device.free()


def test_workers_decode_beside_each_other(gated: GatedDevice) -> None:
    """One whose source does not come holds up no other: each has its own process."""
    decoders = Decoders()
    media = MediaWorker(gated, decoders)
    gated.decode(job(0, 3), job(1, 4))
    media.doorbell_rung()
    assert gated.asked.wait(PATIENCE_SECONDS)
    until(lambda: gated.decoded == [(1, True)])
    pids = {decoder.pid for decoder in decoders.made}
    assert len(pids - {None}) == 2

    gated.gate.set()

    until(lambda: gated.decoded == [(1, True), (0, True)])
    media.close()


def test_no_process_before_the_first_image_and_none_after_the_end(
    device: MemoryDevice,
) -> None:
    decoders = Decoders()
    media = MediaWorker(device, decoders)
    media.doorbell_rung()
    assert decoders.made == []
    device.decode(job())
    media.doorbell_rung()
    until(lambda: len(device.decoded) == 1)
    (decoder,) = decoders.made
    process = Watched.of(decoder.pid)

    media.close()

    assert process.ends()
    media._threads[0].join(PATIENCE_SECONDS)
    assert decoder.pid is None


def test_the_end_waits_for_no_image(device: MemoryDevice) -> None:
    """A process that does nothing any more is gone at once, and nobody says a word."""
    decoders = Decoders()
    media = MediaWorker(device, decoders)
    device.decode(job())
    media.doorbell_rung()
    until(lambda: len(device.decoded) == 1)
    pid = decoders.made[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    device.decode(job())
    media.doorbell_rung()

    with capturedLogs() as events:
        media.close()
        media._threads[0].join(PATIENCE_SECONDS)

    assert not media._threads[0].is_alive()
    assert len(device.decoded) == 1
    assert events == []


def test_a_source_that_is_gone_frees_its_worker(device: MemoryDevice) -> None:
    decoder = SlowDecoder()
    media = MediaWorker(device, lambda: decoder)
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
    media = MediaWorker(device, lambda: decoder)
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
    media = MediaWorker(device, lambda: decoder)
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
    assert decoder.log == ["kill", "kill", "close"]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_source_is_copied_in_small_pieces(device: MemoryDevice, more: int) -> None:
    """A source in the middle of the pool, around the bound of a piece."""
    source = random.Random(1).randbytes(2 * PIECE_BYTES + more)
    device.pool = b"before" + source + b"behind"

    pieces = list(pieces_of(device, job(offset=6, size=len(source))))

    assert b"".join(pieces) == source
    assert {len(piece) for piece in pieces[:-1]} == {PIECE_BYTES}
    assert 1 <= len(pieces[-1]) <= PIECE_BYTES


def test_a_source_that_goes_while_it_is_read(device: MemoryDevice) -> None:
    device.pool = bytes(2 * PIECE_BYTES)
    pieces = pieces_of(device, job(size=len(device.pool)))
    assert next(pieces)
    device.gone.add((3, 7))
    with pytest.raises(SourceGone):
        next(pieces)
