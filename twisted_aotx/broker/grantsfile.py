"""
The operator's grants file, read with suspicion (`device.md` §16).
"""

from __future__ import annotations

import fcntl
import os
import stat

from twisted_aotx.broker.errors import GrantsFileError
from twisted_aotx.errors import RemoteWireError
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import HEADER_BYTES, PACKET_BYTES_MAX, RequestHeader

#: Bytes of one row; what is in it, the device checks.
_ROW_BYTES = 64


def read_grants(path: str) -> bytes:
    """
    The grants file as the packet that channel 0 takes: file and packet are the same
    bytes (`wire.md` §6).

    Raises:
        GrantsFileError: the file is not a regular file of this user that nobody else
            can write, has not 128..65,536 bytes, is locked by a writer, or its magic,
            operation and lengths do not agree.
    """
    # O_NONBLOCK: opening a pipe must not wait for its writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
        try:
            packet = _read_checked(path, descriptor)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise GrantsFileError(path, problem.strerror or str(problem)) from None
    _check_frame(path, packet)
    return packet


def _read_checked(path: str, descriptor: int) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise GrantsFileError(path, "not a regular file")
    if status.st_uid != os.geteuid():
        raise GrantsFileError(path, "belongs to another user")
    if status.st_mode & 0o022:
        raise GrantsFileError(path, "writable by group or others")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise GrantsFileError(path, "locked by a writer") from None
    with open(descriptor, "rb", closefd=False) as file:
        packet = file.read(PACKET_BYTES_MAX + 1)
    if not HEADER_BYTES <= len(packet) <= PACKET_BYTES_MAX:
        raise GrantsFileError(
            path, f"its size is not within {HEADER_BYTES}..{PACKET_BYTES_MAX} bytes"
        )
    return packet


def _check_frame(path: str, packet: bytes) -> None:
    try:
        header = RequestHeader.unpack(packet[:HEADER_BYTES])
    except RemoteWireError as broken:
        raise GrantsFileError(path, str(broken)) from None
    rows_bytes = len(packet) - HEADER_BYTES
    if header.operation != Operation.GRANTS:
        raise GrantsFileError(path, f"operation {header.operation} instead of 1")
    if not rows_bytes == header.payload_bytes == _ROW_BYTES * header.limit:
        raise GrantsFileError(
            path,
            f"{rows_bytes} bytes of rows; its header says {header.payload_bytes} bytes"
            f" and {header.limit} rows",
        )
