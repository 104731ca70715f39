"""
The SHA-256 of a model file: the digest that an engine declares (`device.md` §10).

Hashing 100 MB takes up to a second, so the result is kept in
`$XDG_CACHE_HOME/aotx/models/digests`, one small file for each model file, named by its
device and inode; it counts while size and modification time (ns) are the same. A cache
that cannot be read, written or understood is as good as none.

`file_sha256` blocks. Call it in a thread (`deferToThread`), never on the reactor's.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from twisted_aotx.engines.gguf import ModelFileError

#: Bytes of a digest.
DIGEST_BYTES: Final = hashlib.sha256().digest_size
#: Bytes between two reports of progress: a few seconds' worth.
PROGRESS_BYTES: Final = 1 << 30
#: Bytes read at once; hashing that much lets other threads run.
_READ_BYTES: Final = 1 << 20
#: Bytes of an entry of the cache, at most.
_ENTRY_BYTES_MAX: Final = 256
_ENTRY: Final = re.compile(rb"(\d+) (\d+) ([0-9a-f]{64})\n")


def models_directory() -> Path:
    """
    `$XDG_CACHE_HOME/aotx/models`: fetched models, and what is known of others.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "aotx" / "models"


#: Told of bytes read so far, and of bytes in all.
Progress = Callable[[int, int], object]


def _nobody(_done: int, _whole: int) -> None:
    """The default of `progress`."""


def file_sha256(path: Path, progress: Progress = _nobody) -> bytes:
    """
    The SHA-256 of the file *path*, from the cache if it is known. Blocks.

    *progress* is told each `PROGRESS_BYTES` while it is read, from 0 on.

    Raises:
        ModelFileError: the file was written to meanwhile.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        known = _known(before)
        if known is not None:
            return known
        digest = _digest(file, before.st_size, progress)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ModelFileError("was written to while it was read")
    _remember(after, digest)
    return digest


def _digest(file: BinaryIO, whole: int, progress: Progress) -> bytes:
    sha256, done = hashlib.sha256(), 0
    while data := file.read(_READ_BYTES):
        if done % PROGRESS_BYTES == 0:
            progress(done, whole)
        sha256.update(data)
        done += len(data)
    return sha256.digest()


def remember_sha256(path: Path, digest: bytes) -> None:
    """
    Note the *digest* of a file that the caller has just written and hashed.
    """
    _remember(path.stat(), digest)


def _entry(status: os.stat_result) -> Path:
    return models_directory() / "digests" / f"{status.st_dev:x}-{status.st_ino:x}"


def _known(status: os.stat_result) -> bytes | None:
    """What the cache says of a file, if it is about the file as it is now."""
    try:
        with _entry(status).open("rb") as file:
            found = _ENTRY.fullmatch(file.read(_ENTRY_BYTES_MAX))
    except OSError:
        return None
    now = (status.st_size, status.st_mtime_ns)
    if found is None or (int(found[1]), int(found[2])) != now:
        return None
    return bytes.fromhex(found[3].decode())


def _remember(status: os.stat_result, digest: bytes) -> None:
    entry = _entry(status)
    text = f"{status.st_size} {status.st_mtime_ns} {digest.hex()}\n"
    try:
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".new-", dir=entry.parent)
    except OSError:
        return
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(name, entry)
    except OSError:
        os.unlink(name)
