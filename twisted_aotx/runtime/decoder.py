"""
Decodes the images of one image worker, in a process of its own (D12).

Pillow reads a JPEG's segments in Python, so that a large source would have every thread
of this process wait for the interpreter; and a fault in its C code would end whatever
it runs in. So it runs in another process, which gets no more processor time and memory
than an image needs.

Theory of operation. The process is started with the first image and kept for the next.
The worker's thread copies the source into its input, piece by piece, and waits for a
line (`decoding`). A process that died, does not get on, or speaks nonsense is lost: it
is killed, its image counts as not decoded, and the next image gets a new one.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import attrs
from twisted.logger import Logger

from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.decoder_process import REAP_SECONDS, DecoderProcess
from twisted_aotx.runtime.decoding import FOLLOWS, GONE, Order, exception_name


@attrs.frozen(kw_only=True)
class Share:
    """
    What the process may take for an image. A progressive one takes most: 10 bytes for
    a pixel, and a second for 35 million of them.
    """

    #: Seconds of processor time: for any image, and for each pixel.
    image_seconds: float = 10.0
    pixel_seconds: float = 1e-6
    #: Seconds of waiting for each of these: it stands back, and cores may be busy.
    wait_factor: float = 12.0
    #: Bytes of address space: for any image, for each byte of its source (Pillow copies
    #: segments), and for each pixel.
    image_bytes: int = 32 << 20
    source_factor: int = 4
    pixel_bytes: int = 12

    def seconds(self, job: MediaJob) -> float:
        """Of processor time for the image of *job*."""
        return self.image_seconds + job.width * job.height * self.pixel_seconds

    def memory_bytes(self, job: MediaJob) -> int:
        """Of address space; sides are filled up to 16 pixels."""
        pixels = (job.width + 15) * (job.height + 15)
        source_bytes = job.size * self.source_factor
        return self.image_bytes + source_bytes + pixels * self.pixel_bytes

    def order(self, job: MediaJob) -> Order:
        """The order to do *job*."""
        return Order(
            size=job.size,
            width=job.width,
            height=job.height,
            milliseconds=round(self.seconds(job) * 1000),
            memory_bytes=self.memory_bytes(job),
        )


class DecoderLost(Exception):
    """
    The process decodes no more; the text says why, for the log.
    """


class Decoder:
    """
    Decodes one image after another. For one thread, but for `kill`.
    """

    _log = Logger("aotx.runtime")

    def __init__(self, share: Share | None = None) -> None:
        self._share = share or Share()
        self._process: DecoderProcess | None = None
        self._is_killed = False

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return self._process.pid if self._process is not None else None

    def decodes(self, job: MediaJob, pieces: Iterator[bytes]) -> bool:
        """
        Whether the source that is *pieces*, each of PIECE_BYTES but the last, is what
        *job* says and decodes. Blocks.

        Raises:
            SourceGone: by *pieces*.
        """
        try:
            fault = self._ask(job, pieces)
        except SourceGone:
            raise
        except DecoderLost as error:
            self._tell_lost(str(error))
            self.close()
            return False
        except BaseException:
            # It waits for the rest of a source.
            self.close()
            raise
        if fault:
            self._log.debug("an image was not decoded: {kind}", kind=fault)
        if fault == MemoryError.__name__:
            # Perhaps not this image's fault but what is left of those before it.
            self.close()
        return not fault

    def kill(self) -> None:
        """Decode nothing any more, at once. Any thread; `close` is still to come."""
        self._is_killed = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process, if there is one. Idempotent; the next image starts one."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _ask(self, job: MediaJob, pieces: Iterator[bytes]) -> str:
        """The name of what decoding raised."""
        process = self._running()
        seconds = self._share.wait_factor * self._share.seconds(job)
        end = time.monotonic() + seconds
        try:
            process.write([self._share.order(job).pack()], end)
            try:
                for piece in pieces:
                    process.write([FOLLOWS, piece], end)
            except SourceGone:
                process.write([GONE], end)
                raise
            fault = exception_name(process.read_line(end))
        except TimeoutError:
            raise DecoderLost(f"no answer within {seconds:.1f} s") from None
        except EOFError:
            raise DecoderLost(_ended(process.exit_code(REAP_SECONDS))) from None
        if fault is None:
            raise DecoderLost("it spoke nonsense")
        return fault

    def _running(self) -> DecoderProcess:
        """The process, started anew if it has ended since the last image."""
        process = self._process
        if process is not None and (code := process.exit_code()) is not None:
            self._tell_lost(_ended(code))
            self.close()
        if self._process is None:
            try:
                self._process = DecoderProcess()
            except OSError as error:
                reason = f"it cannot be started: {error.strerror}"
                raise DecoderLost(reason) from None
            if self._is_killed:
                self._process.kill()
        return self._process

    def _tell_lost(self, reason: str) -> None:
        if not self._is_killed:
            self._log.warn("an image decoder was lost: {reason}", reason=reason)


def _ended(code: int | None) -> str:
    """What an exit code says; None for none."""
    if code is None:
        return "it closed its pipes"
    if code == -signal.SIGPROF:
        return "an image took more than its share of processor time"
    return f"signal {-code} ended it" if code < 0 else f"it ended with {code}"
