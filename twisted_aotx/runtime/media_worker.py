"""
The media worker: decodes the images that the device asks for (D12).

Theory of operation. The engine's doorbell says that there may be jobs. Each of the
device's image workers has a thread here, made with its first job; it reads the bytes
that the job names, decodes them and tells the device whether that went well. The
device gives a worker its next job only after that, so one job waits at most.

Rules:
1. A source that is gone while its bytes are read is told as not decoded: the device
   has dropped it already, and the worker must become free.
2. Bytes are copied `READ_BYTES` at a time, as the decoder asks for them: a copy of a
   large source as a whole would keep every other thread waiting.
3. After `close` a job that is under way is not told any more.
"""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Callable
from typing import IO, Any, Final

import attrs
from twisted.logger import Logger

from twisted_aotx.devices import IDevice
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.jpeg import decodes
from twisted_aotx.runtime.threads import stand_back

#: (source, width, height) → whether it decodes.
Decode = Callable[[IO[bytes], int, int], bool]
#: Bytes of a source that are copied at once.
READ_BYTES: Final = 64 << 10
#: How far an image worker stands back; nobody waits for an image but its uploader.
DECODING_NICENESS: Final = 10


class SourceFile(io.RawIOBase):
    """
    The source of *job* as a file to read and seek in.

    Raises:
        SourceGone: in `readinto`.
    """

    def __init__(self, device: IDevice, job: MediaJob) -> None:
        self._device = device
        self._job = job
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """The new place, which may lie behind the end; never before the start."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._job.size}
        self._at = max(0, base[whence] + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Copy at most READ_BYTES; 0 at the end."""
        view = memoryview(buffer).cast("B")
        size = max(0, min(len(view), READ_BYTES, self._job.size - self._at))
        if size:
            job = self._job
            view[:size] = self._device.source_bytes(
                job.index, job.generation, job.offset + self._at, size
            )
            self._at += size
        return size


@attrs.define(eq=False)
class MediaWorker:
    """
    The image workers of *device*. Its verbs belong to the reactor's thread.
    """

    _device: IDevice
    _decode: Decode = decodes
    #: By worker: what its thread takes next; None ends it.
    _jobs: dict[int, queue.SimpleQueue[MediaJob | None]] = attrs.field(factory=dict)
    _threads: list[threading.Thread] = attrs.field(factory=list)
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
        for jobs in self._jobs.values():
            jobs.put(None)

    def _begin(self, worker: int) -> None:
        jobs: queue.SimpleQueue[MediaJob | None] = queue.SimpleQueue()
        self._jobs[worker] = jobs
        # A daemon: a picture that takes long must not keep a stopped process alive.
        thread = threading.Thread(
            target=self._run, args=(jobs,), name=f"aotx-image-{worker}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _run(self, jobs: queue.SimpleQueue[MediaJob | None]) -> None:
        stand_back(DECODING_NICENESS)
        while (job := jobs.get()) is not None:
            try:
                self._work(job)
            except Exception:
                # What is not the image's fault: the next one gets its chance.
                self._log.failure("an image worker failed")

    def _work(self, job: MediaJob) -> None:
        decoded = False
        if self._is_closed:
            return
        try:
            with io.BufferedReader(SourceFile(self._device, job), READ_BYTES) as file:
                file.peek(1)
                decoded = self._decode(file, job.width, job.height)
        except SourceGone:
            pass
        finally:
            with self._lock:
                if not self._is_closed:
                    self._device.finish_media(job.worker, decoded)
                    self._device.ring()
