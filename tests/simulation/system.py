"""
What the kernel is to one process: seqpacket sockets with faults, and whose they are.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Protocol

from twisted_aotx.seqpacket import Credentials, PacketSocket
from twisted_aotx.testing.memory import MemorySocket

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.streams import StreamSocket
    from tests.simulation.world import World


class File(Protocol):
    """
    What epoll sees of an open file.
    """

    def is_readable(self) -> bool: ...
    def is_writable(self) -> bool: ...
    def is_hung_up(self) -> bool: ...


class ProcessSystem:
    """
    `SystemCalls` of *process*. What it opens is closed when the process is killed.

    Attributes:
        fails: how likely a call fails that may fail, 0..1.
    """

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self.fails = 0.0
        #: Open files by descriptor, in the order in which they were opened.
        self._files: dict[int, MemorySocket | StreamSocket] = {}
        self._locks: dict[int, None] = {}

    # --- files ------------------------------------------------------------------------

    def file(self, descriptor: int) -> File | None:
        """The open file with *descriptor*."""
        return self._files.get(descriptor)

    def adopt(self, stream: StreamSocket) -> StreamSocket:
        """A stream socket that is this process's from now on."""
        self._files[stream.fileno()] = stream
        return stream

    def open_files(self) -> int:
        """How many sockets are open."""
        return sum(each.fileno() >= 0 for each in self._files.values())

    def close_all(self) -> None:
        """As the kernel does when the process is gone."""
        for file in list(self._files.values()):
            file.close()
        for lock in list(self._locks):
            self._world.packets.unlock(lock)
        self._files.clear()
        self._locks.clear()

    # --- SystemCalls ------------------------------------------------------------------

    def makeSocket(self) -> PacketSocket:
        """See `SystemCalls`."""
        return self._own(self._world.packets.makeSocket())

    def accept(self, listener: PacketSocket) -> PacketSocket:
        """See `SystemCalls`."""
        self._may_fail("accept", errno.EAGAIN, errno.ECONNABORTED, errno.EMFILE)
        assert isinstance(listener, FaultySocket)
        return self._own(self._world.packets.accept(listener.memory))

    def credentials(self, connected: PacketSocket) -> Credentials:
        """See `SystemCalls`."""
        assert isinstance(connected, FaultySocket)
        return connected.memory.credentials

    def euid(self) -> int:
        """See `SystemCalls`."""
        return self._world.packets.uid

    def bind(self, unbound: PacketSocket, path: bytes, mode: int) -> None:
        """See `SystemCalls`."""
        assert isinstance(unbound, FaultySocket)
        self._world.packets.bind(unbound.memory, path, mode)

    def lstat(self, path: bytes) -> os.stat_result:
        """See `SystemCalls`."""
        return self._world.packets.lstat(path)

    def unlink(self, path: bytes) -> None:
        """See `SystemCalls`."""
        self._world.packets.unlink(path)

    def lock(self, path: bytes) -> int:
        """See `SystemCalls`."""
        lock = self._world.packets.lock(path)
        self._locks[lock] = None
        return lock

    def unlock(self, descriptor: int) -> None:
        """See `SystemCalls`."""
        self._locks.pop(descriptor, None)
        self._world.packets.unlock(descriptor)

    def _own(self, made: MemorySocket) -> FaultySocket:
        self._files[made.fileno()] = made
        return FaultySocket(self, made)

    def closed(self, descriptor: int) -> None:
        """A socket of this process was closed."""
        self._files.pop(descriptor, None)

    def has_listener(self, path: bytes) -> bool:
        """Whether somebody listens at *path*."""
        node = self._world.packets.node(path)
        return node is not None and node.listener is not None

    def may_fail(self, call: str, *numbers: int) -> None:
        """Fail with one of *numbers*, if it so happens."""
        self._may_fail(call, *numbers)

    def _may_fail(self, call: str, *numbers: int) -> None:
        if self.fails and self._world.chance(self.fails):
            number = self._world.random.choice(numbers)
            self._world.history.count("fault", f"{call} {errno.errorcode[number]}")
            raise OSError(number, os.strerror(number))


class FaultySocket:
    """
    A `MemorySocket` whose calls may fail.
    """

    def __init__(self, system: ProcessSystem, memory: MemorySocket) -> None:
        self._system = system
        self.memory = memory

    def fileno(self) -> int:
        """See `PacketSocket`."""
        return self.memory.fileno()

    def send(self, data: bytes, flags: int, /) -> int:
        """See `PacketSocket`. Linux sends all of a packet or nothing."""
        self._system.may_fail(
            "send", errno.EAGAIN, errno.EAGAIN, errno.ENOBUFS, errno.EPIPE
        )
        return self.memory.send(data, flags)

    def recv_into(self, buffer: memoryview, nbytes: int, flags: int, /) -> int:
        """See `PacketSocket`."""
        self._system.may_fail(
            "receive", errno.EAGAIN, errno.EAGAIN, errno.ECONNRESET, errno.ENOBUFS
        )
        return self.memory.recv_into(buffer, nbytes, flags)

    def connect_ex(self, address: bytes, /) -> int:
        """See `PacketSocket`."""
        if self._system.has_listener(address):
            # A full backlog, or a listener that goes at this moment.
            try:
                self._system.may_fail("connect", errno.EAGAIN, errno.ECONNREFUSED)
            except OSError as problem:
                return problem.errno or errno.EIO
        return self.memory.connect_ex(address)

    def listen(self, backlog: int, /) -> None:
        """See `PacketSocket`."""
        self.memory.listen(backlog)

    def shutdown(self, how: int, /) -> None:
        """See `PacketSocket`."""
        self.memory.shutdown(how)

    def close(self) -> None:
        """See `PacketSocket`."""
        descriptor = self.memory.fileno()
        self.memory.close()
        self._system.closed(descriptor)
