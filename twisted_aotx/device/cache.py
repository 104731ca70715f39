"""
Where compiled kernels are kept between starts.

numba's cache notices a change of the file that holds a function, but not of a constant
or helper in another file (docs/dependencies.md). So the directory is named by a hash of
everything that can change the machine code. Imports neither numba nor numpy: it must
run before them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

#: Seconds that a process waits for another one that compiles: several times what it
#: takes on a slow machine.
COMPILE_WAIT_SECONDS: Final = 600.0
#: Between two looks whether it has ended.
_LOOK_SECONDS: Final = 0.1

_VERSIONS = ("numba", "llvmlite", "numpy")
_FLAGS = ("NUMBA_BOUNDSCHECK", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")


def kernel_hash() -> str:
    """
    A hash of all kernel sources, of the limits they fold in, of versions and flags.
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent
    sources = [*sorted(package.glob("*.py")), package.parent / "limits.py"]
    sources.extend(sorted((package.parent / "wire").glob("*.py")))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    for name in _VERSIONS:
        digest.update(f"{name}={version(name)}\0".encode())
    for flag in _FLAGS:
        digest.update(f"{flag}={os.environ.get(flag, '')}\0".encode())
    return digest.hexdigest()[:32]


def cache_directory() -> Path:
    """
    `$XDG_CACHE_HOME/aotx/kernels/HASH` (`device.md` §16).
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "aotx" / "kernels" / kernel_hash()


def prepare_cache() -> Path | None:
    """
    Make the cache directory; `backend` points numba at it before any kernel exists.

    None when it cannot be made or written to: numba then compiles at each start.
    """
    directory = cache_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    # numba fails over a cache that it finds and cannot write to.
    return directory if os.access(directory, os.W_OK) else None


@contextmanager
def one_at_a_time(wait_seconds: float = COMPILE_WAIT_SECONDS) -> Iterator[bool]:
    """
    Wait while another process compiles into the same directory, at most *wait_seconds*;
    gives whether it was waited out.

    It would compile the same, and numba writes its index of what there is without
    looking whether it has grown meanwhile (docs/dependencies.md). What waited in vain
    compiles beside it: the other one may be stopped.
    """
    try:
        file = (cache_directory() / "lock").open("w")
    except OSError:
        # Nothing is kept, so nobody is in the way.
        yield True
        return
    with file:
        yield _locked(file.fileno(), wait_seconds)


def _locked(descriptor: int, wait_seconds: float) -> bool:
    """Whether the lock is ours by then; closing the file gives it back."""
    for _ in range(1 + round(wait_seconds / _LOOK_SECONDS)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Waits for nothing but its time.
            select.poll().poll(_LOOK_SECONDS * 1000)
        else:
            return True
    return False
