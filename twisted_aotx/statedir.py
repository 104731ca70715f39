"""
The state directory: its lock and the epoch counter (`device.md` §11, §16).

Layer 2: files only, no reactor. Every call may block for a disk write.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from pathlib import Path
from typing import Final

import attrs

from twisted_aotx.errors import AOTXError

#: The largest epoch that the wire can carry.
EPOCH_MAX: Final = 2**64 - 1
#: A counter as it is written; anything else, a cut one too, is none.
_COUNTER: Final = re.compile(rb"(0|[1-9][0-9]{0,19})\n")
_COUNTER_BYTES_MAX: Final = 21
_PID: Final = re.compile(rb"[1-9][0-9]{0,9}\n")


@attrs.define(slots=False)
class StateDirectoryError(AOTXError):
    """
    The state directory cannot be used. Nothing was changed.
    """

    #: The file or directory.
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@attrs.define(slots=False)
class StateDirectoryLocked(StateDirectoryError):
    """
    Another runtime uses the state directory.
    """

    #: Its process, None if it did not say.
    pid: int | None = None


class StateDirectory:
    """
    One state directory, used by one runtime at a time.

        state = StateDirectory(path)
        state.lock()
        epoch = state.raise_epoch()
        …
        state.unlock()

    The directory must exist; `aotx init` makes it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock_path = self.path / "service.lock"
        self._epoch_path = self.path / "epoch"
        self._lock: int | None = None

    def lock(self) -> None:
        """
        Take `service.lock` and write our pid into it.

        The kernel frees the lock when the process ends, however it ends. The file
        stays: to remove it would race with the next one that locks it.

        Raises:
            StateDirectoryLocked: another process, or this one, holds it.
            StateDirectoryError: the file cannot be made or is not a regular file.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._lock_path, flags, 0o600)
        except OSError as problem:
            raise _error(self._lock_path, problem) from None
        try:
            self._lock_open(descriptor)
        except OSError as problem:
            os.close(descriptor)
            raise _error(self._lock_path, problem) from None
        except BaseException:
            os.close(descriptor)
            raise
        self._lock = descriptor

    def _lock_open(self, descriptor: int) -> None:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StateDirectoryError(self._lock_path, "not a regular file")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _written_pid(descriptor)
            by = "another process" if pid is None else f"process {pid}"
            raise StateDirectoryLocked(
                self._lock_path, f"the state directory is in use by {by}", pid
            ) from None
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)

    def unlock(self) -> None:
        """
        Let the lock go. Idempotent.
        """
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def raise_epoch(self) -> int:
        """
        Raise the counter by one and return it, once it is on the disk.

        The lock must be held. 1 at the first activation [D3].

        Raises:
            StateDirectoryError: the file is not a counter, the counter is at its
                maximum, or it could not be written.
        """
        assert self._lock is not None, "raise_epoch without the lock"
        epoch = self._read_epoch() + 1
        if epoch > EPOCH_MAX:
            raise StateDirectoryError(
                self._epoch_path, f"the counter is at its maximum, {EPOCH_MAX}"
            )
        try:
            self._write_epoch(epoch)
        except OSError as problem:
            raise _error(self._epoch_path, problem) from None
        return epoch

    def _read_epoch(self) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._epoch_path, flags)
        except FileNotFoundError:
            return 0
        except OSError as problem:
            raise _error(self._epoch_path, problem) from None
        try:
            written = os.read(descriptor, _COUNTER_BYTES_MAX + 1)
        except OSError as problem:
            raise _error(self._epoch_path, problem) from None
        finally:
            os.close(descriptor)
        if _COUNTER.fullmatch(written) is None or int(written) > EPOCH_MAX:
            raise StateDirectoryError(
                self._epoch_path,
                "not a counter: one decimal number below 2^64 and a newline",
            )
        return int(written)

    def _write_epoch(self, epoch: int) -> None:
        new = self.path / "epoch.new"
        new.unlink(missing_ok=True)  # left by a process that was killed
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(new, flags, 0o600)
        try:
            os.write(descriptor, b"%d\n" % epoch)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(new, self._epoch_path)
        # Until the directory is on the disk as well, a crash may bring the old
        # counter back and with it handles that look current.
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _error(path: Path, problem: OSError) -> StateDirectoryError:
    return StateDirectoryError(path, problem.strerror or str(problem))


def _written_pid(descriptor: int) -> int | None:
    written = os.pread(descriptor, 16, 0)
    return int(written) if _PID.fullmatch(written) else None
