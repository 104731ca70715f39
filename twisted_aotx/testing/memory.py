"""
Seqpacket sockets in memory: a fake of the kernel.

`tests/seqpacket` runs one suite on this and on real sockets. Sizes, errors and their
order are those of Linux, as measured: a socket holds 212,992 bytes unread by its peer,
each packet costs 1,152 bytes more than it carries, and a socket is writable again when
a quarter is used.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections import deque
from typing import Final

import attrs

from twisted_aotx.seqpacket import PATH_BYTES_MAX, Credentials, PacketSocket
from twisted_aotx.testing.faults import Faults, os_error, raise_next

#: Bytes that a socket may have on the way (net.core.wmem_default).
SEND_BUFFER_BYTES: Final = 212_992
#: What the kernel keeps beside the bytes of a packet.
PACKET_COST_BYTES: Final = 1152
_PID: Final = 4242


@attrs.define(eq=False)
class _Node:
    """
    What a path names: a socket, or a file that is none.
    """

    status: os.stat_result
    listener: MemorySocket | None = None


class MemorySystem:
    """
    `SystemCalls` in memory. Whatever shares one instance shares one machine.

    Attributes:
        uid: the effective user of this process, and the one that connects.
        faults: what the next calls do.
    """

    def __init__(self, *, uid: int = 1000) -> None:
        self.uid = uid
        self.faults = Faults()
        self._nodes: dict[bytes, _Node] = {}
        self._locks: dict[bytes, int] = {}
        self._sockets: dict[int, MemorySocket] = {}
        self._descriptors = 100
        self._inodes = 0

    # --- SystemCalls ------------------------------------------------------------------

    def makeSocket(self) -> MemorySocket:
        """See `SystemCalls`."""
        self._descriptors += 1
        made = MemorySocket(self, self._descriptors)
        self._sockets[self._descriptors] = made
        return made

    def accept(self, listener: PacketSocket) -> MemorySocket:
        """See `SystemCalls`."""
        assert isinstance(listener, MemorySocket)
        raise_next(self.faults.accepts)
        if not listener.waiting:
            raise os_error(errno.EAGAIN)
        return listener.waiting.popleft()

    def credentials(self, connected: PacketSocket) -> Credentials:
        """See `SystemCalls`."""
        assert isinstance(connected, MemorySocket)
        return connected.credentials

    def euid(self) -> int:
        """See `SystemCalls`."""
        return self.uid

    def bind(self, unbound: PacketSocket, path: bytes, mode: int) -> None:
        """See `SystemCalls`."""
        assert isinstance(unbound, MemorySocket)
        if path in self._nodes:
            raise os_error(errno.EADDRINUSE)
        self._nodes[path] = _Node(self._status(stat.S_IFSOCK | mode), unbound)

    def lstat(self, path: bytes) -> os.stat_result:
        """See `SystemCalls`."""
        if path not in self._nodes:
            raise os_error(errno.ENOENT)
        return self._nodes[path].status

    def unlink(self, path: bytes) -> None:
        """See `SystemCalls`."""
        raise_next(self.faults.unlinks)
        if self._nodes.pop(path, None) is None:
            raise os_error(errno.ENOENT)

    def lock(self, path: bytes) -> int:
        """See `SystemCalls`."""
        if path in self._locks:
            raise os_error(errno.EAGAIN)
        self._descriptors += 1
        self._locks[path] = self._descriptors
        return self._descriptors

    def unlock(self, descriptor: int) -> None:
        """See `SystemCalls`."""
        for path, held in self._locks.items():
            if held == descriptor:
                del self._locks[path]
                return
        raise os_error(errno.EBADF)

    # --- for tests --------------------------------------------------------------------

    def put_file(self, path: bytes) -> None:
        """Make a regular file at *path*."""
        self._nodes[path] = _Node(self._status(stat.S_IFREG | 0o600))

    def chown(self, path: bytes, uid: int) -> None:
        """Give what is at *path* to *uid*."""
        node = self._nodes[path]
        fields = list(node.status)
        fields[stat.ST_UID] = uid
        node.status = os.stat_result(fields)

    def exists(self, path: bytes) -> bool:
        """Whether *path* names anything."""
        return path in self._nodes

    def socket_at(self, descriptor: int) -> MemorySocket:
        """The open socket with *descriptor*."""
        return self._sockets[descriptor]

    def open_sockets(self) -> int:
        """How many sockets are not closed yet."""
        return len(self._sockets)

    # --- for sockets ------------------------------------------------------------------

    def _status(self, mode: int) -> os.stat_result:
        self._inodes += 1
        return os.stat_result(
            (mode, self._inodes, 1, 1, self.uid, self.uid, 0, 0, 0, 0)
        )

    def node(self, path: bytes) -> _Node | None:
        """What *path* names."""
        return self._nodes.get(path)

    def forget(self, descriptor: int) -> None:
        """The socket was closed; a path that named it is stale from now on."""
        closed = self._sockets.pop(descriptor)
        for node in self._nodes.values():
            if node.listener is closed:
                node.listener = None


class MemorySocket:
    """
    One socket of a `MemorySystem`.
    """

    def __init__(self, system: MemorySystem, descriptor: int) -> None:
        self._system = system
        self._descriptor = descriptor
        self._peer: MemorySocket | None = None
        self._inbox: deque[bytes] = deque()
        #: Bytes, with what they cost, that the peer has not read.
        self._unread = 0
        #: An error that the next call reports, once.
        self._error = 0
        self._read_shut = False
        self._write_shut = False
        self._backlog: int | None = None
        self.waiting: deque[MemorySocket] = deque()
        self.credentials = Credentials(0, -1, -1)

    def fileno(self) -> int:
        """See `PacketSocket`."""
        return self._descriptor

    def listen(self, backlog: int, /) -> None:
        """See `PacketSocket`."""
        raise_next(self._system.faults.listens)
        self._backlog = backlog
        self.credentials = Credentials(_PID, self._system.uid, self._system.uid)

    def connect_ex(self, address: bytes, /) -> int:
        """See `PacketSocket`."""
        if len(address) > PATH_BYTES_MAX:
            raise OSError("AF_UNIX path too long")
        node = self._system.node(address)
        if node is None:
            return errno.ENOENT
        listener = node.listener
        if listener is None or listener._backlog is None:
            return errno.ECONNREFUSED
        if len(listener.waiting) > listener._backlog:
            return errno.EAGAIN
        accepted = self._system.makeSocket()
        self._peer, accepted._peer = accepted, self
        self.credentials = listener.credentials
        accepted.credentials = Credentials(_PID, self._system.uid, self._system.uid)
        listener.waiting.append(accepted)
        return 0

    def send(self, data: bytes, flags: int, /) -> int:
        """See `PacketSocket`."""
        faults = self._system.faults.sends
        fault = faults.popleft() if faults else None
        if fault is not None and fault > 0:
            raise os_error(fault)
        self._raise_error()
        if self._peer is None:
            raise os_error(errno.ENOTCONN)
        if len(data) > SEND_BUFFER_BYTES - 32:
            raise os_error(errno.EMSGSIZE)
        if self._write_shut:
            raise os_error(errno.EPIPE)
        if self._unread >= SEND_BUFFER_BYTES:
            raise os_error(errno.EAGAIN)
        sent = data[:fault] if fault is not None else data
        self._peer._inbox.append(sent)
        self._unread += len(sent) + PACKET_COST_BYTES
        return len(sent)

    def recv_into(self, buffer: memoryview, nbytes: int, flags: int, /) -> int:
        """See `PacketSocket`."""
        self._raise_error()
        raise_next(self._system.faults.receives)
        if not self._inbox:
            if self._read_shut:
                return 0
            raise os_error(errno.EAGAIN)
        packet = self._inbox.popleft()
        if self._peer is not None:
            self._peer._unread -= len(packet) + PACKET_COST_BYTES
        kept = min(len(packet), nbytes)
        buffer[:kept] = packet[:kept]
        return len(packet) if flags & socket.MSG_TRUNC else kept

    def shutdown(self, how: int, /) -> None:
        """See `PacketSocket`."""
        assert how == socket.SHUT_WR
        if self._peer is None:
            raise os_error(errno.ENOTCONN)
        self._write_shut = True
        self._peer._read_shut = True

    def close(self) -> None:
        """See `PacketSocket`."""
        if self._descriptor < 0:
            return
        self._system.forget(self._descriptor)
        self._descriptor = -1
        for accepted in self.waiting:
            accepted.close()
            accepted._reset_peer()
        if self._inbox:
            self._reset_peer()
        if self._peer is not None:
            self._peer._read_shut = self._peer._write_shut = True

    def _reset_peer(self) -> None:
        if self._peer is not None:
            self._peer._error = errno.ECONNRESET

    def _raise_error(self) -> None:
        number, self._error = self._error, 0
        if number:
            raise os_error(number)

    # --- readiness, as epoll reports it -----------------------------------------------

    def is_readable(self) -> bool:
        """EPOLLIN."""
        return bool(self.waiting or self._inbox or self._read_shut or self._error)

    def is_writable(self) -> bool:
        """EPOLLOUT."""
        return self._unread * 4 <= SEND_BUFFER_BYTES

    def is_hung_up(self) -> bool:
        """EPOLLHUP or EPOLLERR."""
        return (self._read_shut and self._write_shut) or bool(self._error)
