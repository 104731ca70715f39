"""
One process of `decoder_child`, from its start to its end, and the two pipes to it.

It sees nothing of this one's environment and descriptors but these pipes. It belongs to
the thread that starts it and ends with that, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from twisted_aotx.runtime.decoding import LINE_BYTES_MAX

#: Its program.
PROGRAM: Final = "twisted_aotx.runtime.decoder_child"
#: Seconds that a process which is ending may take to be gone.
REAP_SECONDS: Final = 5.0
#: Bytes that wait in its input: a small pipe would wake its writer for each page.
PIPE_BYTES: Final = 1 << 20
#: What an interpreter may need to start at all.
_KEPT: Final = ("LD_LIBRARY_PATH", "PYTHONHOME")


def decoder_environment() -> dict[str, str]:
    """What it finds in its environment: where this package and Pillow are."""
    paths = [os.path.abspath(path) for path in sys.path if path]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


class DecoderProcess:
    """
    A process, and what it is told and says. For one thread, but for `kill`.

    Every wait ends at a time *end* of `time.monotonic`, with a TimeoutError. A process
    that is gone, or closes its pipes, is an EOFError.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=decoder_environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = (self._process.stdin, self._process.stdout)
        self._sink, self._source = (pipe.fileno() for pipe in self._pipes)
        self.pid = self._process.pid
        os.set_blocking(self._sink, False)
        # The user may have as many large pipes as is good for one.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._sink, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def exit_code(self, seconds: float = 0.0) -> int | None:
        """How it ended, negative for a signal; None if it runs on after *seconds*."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def write(self, parts: Sequence[bytes], end: float) -> None:
        """Write all of *parts*, which are not empty."""
        views = [memoryview(part) for part in parts]
        while views:
            try:
                size = os.writev(self._sink, views)
            except BlockingIOError:
                _wait(self._sink, select.POLLOUT, end)
                continue
            except BrokenPipeError:
                raise EOFError from None
            while views and size >= len(views[0]):
                size -= len(views.pop(0))
            if views:
                views[0] = views[0][size:]

    def read_line(self, end: float) -> bytes:
        """What it says up to a line's end, LINE_BYTES_MAX bytes at most."""
        line = b""
        while not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
            _wait(self._source, select.POLLIN, end)
            data = os.read(self._source, LINE_BYTES_MAX - len(line))
            if not data:
                raise EOFError
            line += data
        return line

    def kill(self) -> None:
        """End it; its pipes stay. Any thread."""
        self._process.kill()

    def close(self) -> None:
        """End it; the last call."""
        self.kill()
        # One that the kernel does not let go of is left to it.
        self.exit_code(REAP_SECONDS)
        for pipe in self._pipes:
            pipe.close()


def _wait(descriptor: int, event: int, end: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
        raise TimeoutError
