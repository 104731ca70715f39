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
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from twisted.logger import Logger

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.problems import ProblemCode, refusal

#: Bytes that wait in memory before they are written, and that are read ahead.
BLOCK_BYTES: Final = 64 << 10

_log = Logger("aotx.gateway")


class Spool:
    """
    The bytes of one source: written from front to end, then read. A context manager
    that forgets them at its end.

    Raises:
        Problem: 429 `transport_limit`: there is no room for a file, here or in `write`.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        #: Bytes written.
        self.size = 0
        try:
            self._file = tempfile.TemporaryFile(buffering=BLOCK_BYTES)  # noqa: SIM115
        except OSError as error:
            raise _no_room(error) from None

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
        """
        self._hash.update(data)
        self.size += len(data)
        try:
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
        """
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
        try:
            self._file.close()
        except OSError:
            # What waited in memory found no room; nobody wants it any more.
            self._file.close()


def _no_room(error: OSError) -> Problem:
    _log.warn("a source cannot be kept: {reason}", reason=error.strerror)
    return refusal(ProblemCode.TRANSPORT_LIMIT)
