"""
Configuration files: opened safely, parsed strictly (`http.md` §9), written durably.

Rules for reading: no symlink, a regular file, owned by the effective user, not writable
by group or others, at most `FILE_BYTES_MAX`; then the JSON rules of `http.md` §3.
"""

from __future__ import annotations

import os
import stat
import tempfile
from io import BufferedWriter
from pathlib import Path
from typing import Any, Final

from twisted_aotx import strictjson
from twisted_aotx.errors import ConfigError, ConfigErrors

#: Bytes of a configuration file, at most (`http.md` §9).
FILE_BYTES_MAX: Final = 1 << 20
#: Owner may do anything; these bits would let others change the file.
_MODE_FORBIDDEN: Final = 0o022
#: Files of ours hold secrets or grants: for their owner alone.
_PRIVATE: Final = 0o600


def read_object(path: Path) -> dict[str, Any]:
    """
    The JSON object in the file *path*.

    Raises:
        ConfigErrors: the file cannot be trusted or is not strict JSON. The key path of
            the error is empty.
    """
    try:
        return strictjson.loads(read_trusted(path, FILE_BYTES_MAX))
    except strictjson.StrictJSONError as error:
        raise file_error(f"not strict JSON: {error.reason}") from None


def read_trusted(path: Path, bytes_max: int) -> bytes:
    """
    The bytes of a file that only its owner, the effective user, can have written.

    Raises:
        ConfigErrors: see the rules at the top.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise file_error(_open_reason(path, error)) from None
    try:
        reason = _distrust(os.fstat(descriptor), bytes_max)
        if reason is not None:
            raise file_error(reason)
        # The descriptor is a regular file from here on, so that `open` may have it.
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
    if len(data) > bytes_max:
        raise file_error(f"is larger than {bytes_max} bytes")
    return data


def write_new(path: Path, data: bytes) -> None:
    """
    Make the file *path* (0600) with *data*, durably.

    Raises:
        FileExistsError: there is something of that name; it was not touched.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, _PRIVATE), "wb") as file:
        try:
            _write_durably(file, data)
        except OSError:
            os.unlink(path)
            raise
    _sync_folder(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """
    Put *data* (0600) at *path* at once and durably: a reader sees the old or the new.

    Raises:
        OSError: *path* is as it was.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, _PRIVATE)
            _write_durably(file, data)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
    _sync_folder(path.parent)


def _write_durably(file: BufferedWriter, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the folder's entries, not only the bytes of its files, survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_error(reason: str) -> ConfigErrors:
    """One error about the file as a whole."""
    return ConfigErrors((ConfigError("", reason),))


def _open_reason(path: Path, error: OSError) -> str:
    if path.is_symlink():
        return "is a symbolic link; name the file itself"
    return f"cannot be opened: {error.strerror}"


def _distrust(status: os.stat_result, bytes_max: int) -> str | None:
    """Why the opened file is not to be used; None when it is fine."""
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_uid != os.geteuid():
        return f"is owned by uid {status.st_uid}, not by uid {os.geteuid()}"
    if status.st_mode & _MODE_FORBIDDEN:
        return "is writable by group or others; chmod go-w it"
    if status.st_size > bytes_max:
        return f"is larger than {bytes_max} bytes"
    return None
