"""
The parts of the operating system that seqpacket transports rely on.

Everything that reaches the kernel goes through a `SystemCalls` object, as in
`twisted.pair.tuntap`, so that tests can hand in one that keeps its sockets in memory.
`System` is the real one.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, flock
from typing import Any, Final, Protocol

import attrs
from twisted.internet.interfaces import IAddress, IDelayedCall
from zope.interface import implementer

#: Bytes of a socket path: `sun_path` holds 108, one of them is the NUL.
PATH_BYTES_MAX: Final = 107
#: Bytes that a socket must be able to send before it has to wait: two of the largest
#: packets. Linux's default is 212,992; only a lowered `wmem_default` makes us ask.
_SEND_BUFFER_BYTES_MIN: Final = 2 * 65536
#: `struct ucred`: pid, uid, gid.
_UCRED: Final = struct.Struct("3i")


@attrs.frozen
class Credentials:
    """
    Who is at the other end, as the kernel recorded it at `connect` or `listen`.
    """

    pid: int
    uid: int
    gid: int


@implementer(IAddress)
@attrs.frozen
class SeqPacketAddress:
    """
    One end of a connection: its path, empty for the connecting side, and its owner.
    """

    path: bytes = b""
    credentials: Credentials | None = None


class PacketClock(Protocol):
    """
    What is asked of a clock: the half of `IReactorTime` that is used.
    """

    def seconds(self) -> float:
        """Now, in seconds since a point that does not change."""

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: Any, **kw: Any
    ) -> IDelayedCall:
        """Call *callable* after *delay* seconds."""


class PacketReactor(PacketClock, Protocol):
    """
    What these transports ask of a reactor: a clock and `IReactorFDSet`.
    """

    def addReader(self, reader: Any, /) -> None:
        """Call `reader.doRead` when its descriptor is readable."""

    def removeReader(self, reader: Any, /) -> None:
        """Stop that."""

    def addWriter(self, writer: Any, /) -> None:
        """Call `writer.doWrite` when its descriptor is writable."""

    def removeWriter(self, writer: Any, /) -> None:
        """Stop that."""


class PacketSocket(Protocol):
    """
    The part of `socket.socket` that is used here.
    """

    def fileno(self) -> int:
        """The descriptor; -1 after `close`."""

    def send(self, data: bytes, flags: int, /) -> int:
        """See send(2)."""

    def recv_into(self, buffer: memoryview, nbytes: int, flags: int, /) -> int:
        """See recv(2); with MSG_TRUNC the real length of the packet is returned."""

    def connect_ex(self, address: bytes, /) -> int:
        """See connect(2); returns the error number."""

    def listen(self, backlog: int, /) -> None:
        """See listen(2)."""

    def shutdown(self, how: int, /) -> None:
        """See shutdown(2)."""

    def close(self) -> None:
        """See close(2)."""


class SystemCalls(Protocol):
    """
    The system as these transports see it. Every method may raise OSError.
    """

    def makeSocket(self) -> PacketSocket:
        """A new seqpacket socket, non-blocking, closed on exec."""

    def accept(self, listener: PacketSocket) -> PacketSocket:
        """The next waiting connection, non-blocking; BlockingIOError if none waits."""

    def credentials(self, connected: PacketSocket) -> Credentials:
        """Who is at the other end of *connected*."""

    def euid(self) -> int:
        """The effective user of this process."""

    def bind(self, unbound: PacketSocket, path: bytes, mode: int) -> None:
        """Bind to *path*; its permissions are *mode* from the first moment on."""

    def lstat(self, path: bytes) -> os.stat_result:
        """See lstat(2)."""

    def unlink(self, path: bytes) -> None:
        """See unlink(2)."""

    def lock(self, path: bytes) -> int:
        """
        Make the file *path* (mode 0600) if need be and lock it for this process.

        The kernel lets the lock go with the process, so there is no stale lock. (A
        lock that is a link naming a pid is held for ever once the pid is used again.)

        Returns:
            A descriptor; the lock is held until `unlock` gets it.

        Raises:
            BlockingIOError: somebody else holds it.
        """

    def unlock(self, descriptor: int) -> None:
        """
        Let a lock go. Its file stays: to unlink it would race with the next holder.
        """


class System:
    """
    `SystemCalls` of the operating system.
    """

    def makeSocket(self) -> socket.socket:
        """See `SystemCalls`."""
        made = socket.socket(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC
        )
        return self._prepared(made)

    def accept(self, listener: PacketSocket) -> socket.socket:
        """See `SystemCalls`."""
        assert isinstance(listener, socket.socket)
        accepted, _ = listener.accept()
        return self._prepared(accepted)

    @staticmethod
    def _prepared(made: socket.socket) -> socket.socket:
        made.setblocking(False)
        held = made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        if held < _SEND_BUFFER_BYTES_MIN:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES_MIN)
        return made

    def credentials(self, connected: PacketSocket) -> Credentials:
        """See `SystemCalls`."""
        assert isinstance(connected, socket.socket)
        return Credentials(
            *_UCRED.unpack(
                connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
            )
        )

    def euid(self) -> int:
        """See `SystemCalls`."""
        return os.geteuid()

    def bind(self, unbound: PacketSocket, path: bytes, mode: int) -> None:
        """See `SystemCalls`."""
        assert isinstance(unbound, socket.socket)
        # chmod afterwards would leave a moment in which others may connect.
        before = os.umask(0o777 & ~mode)
        try:
            unbound.bind(path)
        finally:
            os.umask(before)

    def lstat(self, path: bytes) -> os.stat_result:
        """See `SystemCalls`."""
        return os.lstat(path)

    def unlink(self, path: bytes) -> None:
        """See `SystemCalls`."""
        os.unlink(path)

    def lock(self, path: bytes) -> int:
        """See `SystemCalls`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def unlock(self, descriptor: int) -> None:
        """See `SystemCalls`."""
        os.close(descriptor)


def pathProblem(path: bytes) -> str | None:
    """
    Why *path* cannot name a socket, or None.

    Python itself refuses a long path with an OSError that has no number.
    """
    if not path:
        return "the path is empty"
    if b"\0" in path:
        return "the path holds a NUL"
    if len(path) > PATH_BYTES_MAX:
        return f"the path has {len(path)} bytes, at most {PATH_BYTES_MAX} are possible"
    return None


def isSocketOf(status: os.stat_result, uid: int) -> bool:
    """
    Whether *status* is that of a socket that belongs to *uid*.
    """
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == uid
