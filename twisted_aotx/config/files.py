"""
Open a configuration file safely and parse it strictly (`http.md` §9).

Rules: no symlink, a regular file, owned by the effective user, not writable by group or
others, at most `FILE_BYTES_MAX`; then the JSON rules of `http.md` §3.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from twisted_aotx import strictjson
from twisted_aotx.errors import ConfigError, ConfigErrors

#: Bytes of a configuration file, at most (`http.md` §9).
FILE_BYTES_MAX: Final = 1 << 20
#: Owner may do anything; these bits would let others change the file.
_MODE_FORBIDDEN: Final = 0o022


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
