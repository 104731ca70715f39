"""
The media worker: has the images decoded that the device asks for (D12).

Theory of operation. The engine's doorbell says that there may be jobs. Each of the
device's image workers has a thread here, made with its first job, and the thread has a
decoder, which is a process of its own; it copies the bytes that the job names to the
decoder and tells the device whether they decode. The device gives a worker its next job
only after that, so one job waits at most.

Rules:
1. A source that is gone while its bytes are read is told as not decoded: the device
   has dropped it already, and the worker must become free.
2. Bytes are copied `PIECE_BYTES` at a time: a copy of a large source as a whole would
   keep every other thread waiting.
3. After `close` a job that is under way is not told any more.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import attrs
from twisted.logger import Logger

from twisted_aotx.devices import IDevice
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.decoder import Decoder
from twisted_aotx.runtime.decoding import PIECE_BYTES
from twisted_aotx.runtime.unsaid import unsaid


class ImageDecoder(Protocol):
    """
    What a thread decodes with; see `Decoder`.
    """

    def decodes(self, job: MediaJob, pieces: Iterator[bytes], /) -> bool:
        """Whether the source of *job* decodes. Raises SourceGone with *pieces*."""

    def kill(self) -> None:
        """Have a job that is under way end soon, and start nothing. Any thread."""

    def close(self) -> None:
        """Let go of everything; the last call."""


def pieces_of(device: IDevice, job: MediaJob) -> Iterator[bytes]:
    """
    The source of *job*, PIECE_BYTES at a time.

    Raises:
        SourceGone: in `next`.
    """
    for at in range(0, job.size, PIECE_BYTES):
        size = min(PIECE_BYTES, job.size - at)
        yield device.source_bytes(job.index, job.generation, job.offset + at, size)


@attrs.define(eq=False)
class MediaWorker:
    """
    The image workers of *device*. Its verbs belong to the reactor's thread.
    """

    _device: IDevice
    _make_decoder: Callable[[], ImageDecoder] = Decoder
    #: By worker: what its thread takes next; None ends it.
    _jobs: dict[int, queue.SimpleQueue[MediaJob | None]] = attrs.field(factory=dict)
    _threads: list[threading.Thread] = attrs.field(factory=list)
    _decoders: list[ImageDecoder] = attrs.field(factory=list)
    #: Held while the device is told, so that `close` waits for that.
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _is_closed: bool = False

    _log = Logger()

    def doorbell_rung(self) -> None:
        """The device may have published jobs."""
        for job in self._device.media_jobs():
            if job.worker not in self._jobs:
                self._begin(job.worker)
            self._jobs[job.worker].put(job)

    def close(self) -> None:
        """Let every thread end; the device hears nothing any more. Idempotent."""
        with self._lock:
            self._is_closed = True
        for decoder in self._decoders:
            decoder.kill()
        for jobs in self._jobs.values():
            jobs.put(None)

    def _begin(self, worker: int) -> None:
        jobs: queue.SimpleQueue[MediaJob | None] = queue.SimpleQueue()
        self._jobs[worker] = jobs
        decoder = self._make_decoder()
        self._decoders.append(decoder)
        # A daemon: a picture that takes long must not keep a stopped process alive.
        thread = threading.Thread(
            target=self._run,
            args=(jobs, decoder),
            name=f"aotx-image-{worker}",
            daemon=True,
        )
        self._threads.append(thread)
        thread.start()

    def _run(
        self, jobs: queue.SimpleQueue[MediaJob | None], decoder: ImageDecoder
    ) -> None:
        while (job := jobs.get()) is not None:
            try:
                self._work(job, decoder)
            except Exception as error:
                # What is not the image's fault: the next one gets its chance.
                self._log.failure("an image worker failed", unsaid(error))
        decoder.close()

    def _work(self, job: MediaJob, decoder: ImageDecoder) -> None:
        decoded = False
        if self._is_closed:
            return
        try:
            decoded = decoder.decodes(job, pieces_of(self._device, job))
        except SourceGone:
            pass
        finally:
            with self._lock:
                if not self._is_closed:
                    self._device.finish_media(job.worker, decoded)
                    self._device.ring()
