"""
The process that decodes images: `python -m twisted_aotx.runtime.decoder_child`.

It serves the orders of `decoding` on standard input and output, one after another, and
ends when its input does, so that it never outlives the runtime. Signals that stop a
service are for the runtime, so it ignores them. An image that takes more than its
order says ends it (processor time) or is refused (memory).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from io import BytesIO
from pathlib import Path
from typing import IO, Final

from twisted_aotx.runtime.decoding import FOLLOWS, LINE_BYTES_MAX, PIECE_BYTES, Order
from twisted_aotx.runtime.jpeg import fault_of

#: How far it stands back; nobody waits for an image but its uploader.
DECODING_NICENESS: Final = 10
#: prctl's number for the signal that comes when the thread that started this ends.
_PR_SET_PDEATHSIG: Final = 1
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def address_space() -> int:
    """Bytes that this process has mapped."""
    pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    return pages * resource.getpagesize()


def limit_memory(size: int) -> None:
    """Let this process map *size* bytes in all, or what it may at most."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))


def take_source(file: IO[bytes], size: int) -> BytesIO | None:
    """
    The source of *size* bytes that follows its order; None if it is gone.

    Raises:
        EOFError: so is who sends it.
    """
    source = BytesIO()
    for at in range(0, size, PIECE_BYTES):
        mark = file.read(1)
        if mark and mark != FOLLOWS:
            return None
        expected = min(PIECE_BYTES, size - at)
        if source.write(file.read(expected)) < expected:
            raise EOFError
    source.seek(0)
    return source


def serve(file: IO[bytes], sink: int) -> None:
    """Decode what *file* orders and answer on the descriptor *sink*, to its end."""
    at_start = address_space()
    while line := file.readline(LINE_BYTES_MAX):
        order = Order.unpack(line)
        limit_memory(at_start + order.memory_bytes)
        # SIGPROF ends the process.
        signal.setitimer(signal.ITIMER_PROF, order.milliseconds / 1000)
        source = take_source(file, order.size)
        if source is not None:
            fault = fault_of(source, order.width, order.height)
            os.write(sink, f"{fault}\n".encode())
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    """Serve standard input and output."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # One that is stopped would not see its input end.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(DECODING_NICENESS)
    # What goes wrong leaves nothing of a stranger's image in a file.
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (0, 0))
    sink = os.dup(1)
    os.dup2(2, 1)
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
