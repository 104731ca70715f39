"""
The model file that an engine declared by its digest, and that every child must load.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from twisted.logger import Logger

from twisted_aotx.engines.digest import PROGRESS_BYTES, file_sha256
from twisted_aotx.errors import EngineError

_log = Logger()
_GIGABYTE = 1e9


@attrs.frozen
class FileStamp:
    """
    Tells whether a file is still the one that it was, without reading it.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> FileStamp:
        """
        Raises:
            OSError: there is no such file.
        """
        found = path.stat()
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class DeclaredFile:
    """
    A file, hashed when this is made. Both block while they read it.

    Raises:
        EngineError: it cannot be read, or was changed meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: SHA-256, 32 bytes.
        self.digest, self._stamp = _hashed(path)

    def has_changed(self) -> bool:
        """Whether `verify` has to read it again. Does not block."""
        try:
            return FileStamp.of(self.path) != self._stamp
        except OSError:
            return True

    def verify(self) -> None:
        """
        See that it is the same as ever.

        Raises:
            EngineError: it is another one, or cannot be read.
        """
        digest, stamp = _hashed(self.path)
        if digest != self.digest:
            raise EngineError(
                f"{self.path} is another model than at start, its SHA-256 is "
                f"{digest.hex()}: put the old file back, or restart the runtime to "
                "serve the new one"
            )
        self._stamp = stamp


def _hashed(path: Path) -> tuple[bytes, FileStamp]:
    try:
        stamp = FileStamp.of(path)
        digest = file_sha256(path, lambda done, whole: _tell(path, done, whole))
        is_same = FileStamp.of(path) == stamp
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from None
    except EngineError as error:
        raise EngineError(f"{path} {error}") from None
    if not is_same:
        raise EngineError(f"{path} was changed while it was read")
    return digest, stamp


def _tell(path: Path, done: int, whole: int) -> None:
    """A file that takes seconds to hash is told of; a small one is not worth a line."""
    if whole >= PROGRESS_BYTES:
        _log.info(
            "hashing {path}, {done:.1f} of {whole:.1f} GB so far; "
            "a second start is faster",
            path=str(path),
            done=done / _GIGABYTE,
            whole=whole / _GIGABYTE,
        )
