"""
A media source on its way to the device, in a file without a name.

BEGIN carries the digest and the size of the whole source (`wire.md` §10), so the bytes
are kept until they are whole. They are hashed as they come and never all in memory; the
file (mode 0600, in the folder that `TMPDIR` names) has no directory entry, so nothing
is left behind however the process ends. How many bytes all files hold is bounded by
`limits.body_credit`: whoever writes has taken its credit.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Final, Self

from twisted.logger import Logger

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.problems import ProblemCode, refusal

#: Bytes that wait in memory before they are written, and that are read ahead.
BLOCK_BYTES: Final = 64 << 10
#: Bytes from which on a file is closed by a thread of its own: the kernel takes a tenth
#: of a millisecond for each MiB that it frees, and everybody would wait for that.
LARGE_BYTES: Final = 1 << 20

_log = Logger("aotx.gateway")


class Spool:
    """
    The bytes of one source: written from front to end, then read. A context manager
    that forgets them at its end. There is no file before there is a byte.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        #: Bytes written.
        self.size = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """
        Append *data*.

        Raises:
            Problem: 429 `transport_limit`: there is no room.
        """
        self._hash.update(data)
        self.size += len(data)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115
                    buffering=BLOCK_BYTES
                )
            self._file.write(data)
        except OSError as error:
            raise _no_room(error) from None

    @property
    def sha256(self) -> bytes:
        """
        The digest of what was written, 32 bytes.
        """
        return self._hash.digest()

    def blocks(self) -> Iterator[bytes]:
        """
        All bytes, in order, at most `BLOCK_BYTES` at a time.

        Raises:
            Problem: 429 `transport_limit`: there is no room for what was written last.
        """
        if self._file is None:
            return
        try:
            self._file.seek(0)
        except OSError as error:  # what waited in memory is written first
            raise _no_room(error) from None
        while block := self._file.read(BLOCK_BYTES):
            yield block

    def close(self) -> None:
        """
        Forget the bytes. Idempotent.
        """
        file, self._file = self._file, None
        if file is None:
            return
        if self.size < LARGE_BYTES:
            _close(file)
        else:
            threading.Thread(
                target=_close, args=(file,), name="aotx-spool", daemon=True
            ).start()


def _close(file: IO[bytes]) -> None:
    # What waits in memory may find no room; nobody wants it any more.
    with suppress(OSError):
        file.close()


def _no_room(error: OSError) -> Problem:
    _log.warn("a source cannot be kept: {reason}", reason=error.strerror)
    return refusal(ProblemCode.TRANSPORT_LIMIT)
