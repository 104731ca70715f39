"""
Places to run transports in: the fake machine, or this one.

Both are driven synchronously with the same verbs, so that one suite can run in both and
prove the fake.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from twisted.internet.epollreactor import EPollReactor
from twisted.python.failure import Failure

from twisted_aotx.seqpacket import (
    PACKET_BYTES_MAX,
    PacketReactor,
    PacketSocket,
    System,
    SystemCalls,
)
from twisted_aotx.testing.memory import MemorySystem
from twisted_aotx.testing.pumped import PumpedReactor


class World(Protocol):
    """
    A reactor and the machine that it runs on.
    """

    @property
    def reactor(self) -> PacketReactor:
        """What transports are given."""

    @property
    def system(self) -> SystemCalls:
        """What transports are given."""

    def path(self, name: str) -> bytes:
        """A path of this world that nothing uses yet."""

    def put_file(self, path: bytes) -> None:
        """Make a regular file at *path*."""

    def settle(self) -> None:
        """Run until nothing more happens."""

    def until(self, reached: Callable[[], object]) -> None:
        """Run until *reached* returns something true; fail if that takes too long."""

    def close(self) -> None:
        """Close what is left."""


class MemoryWorld:
    """
    Everything in memory; time stands until `reactor.advance`.
    """

    def __init__(self) -> None:
        self.system = MemorySystem()
        self.reactor = PumpedReactor(self.system)

    def path(self, name: str) -> bytes:
        """A path of this world that nothing uses yet."""
        return b"/run/" + name.encode()

    def put_file(self, path: bytes) -> None:
        """Make a regular file at *path*."""
        self.system.put_file(path)

    def settle(self) -> None:
        """Run until nothing more happens."""
        self.reactor.settle()

    def until(self, reached: Callable[[], object]) -> None:
        """Run, setting the clock forward up to 5 s if need be, until *reached*."""
        self.reactor.settle()
        for _ in range(500):
            if reached():
                return
            self.reactor.advance(0.01)
        assert reached(), "not reached in 5 s of the fake clock"

    def close(self) -> None:
        """Nothing is left behind."""


class KernelWorld:
    """
    Real sockets below *folder*, and a reactor of its own that nobody else runs.
    """

    #: Seconds; what falls due within them is waited for.
    _moment_seconds = 0.02
    _limit_seconds = 10.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.system = System()
        self.reactor = EPollReactor()

    def path(self, name: str) -> bytes:
        """A path of this world that nothing uses yet."""
        return os.fsencode(self._folder / name)

    def put_file(self, path: bytes) -> None:
        """Make a regular file at *path*."""
        Path(os.fsdecode(path)).touch()

    def settle(self) -> None:
        """
        Run until nothing is ready and nothing falls due in a moment, 10 s at most.

        Both ends of every socket are served here, so what is not ready now will not be.
        """
        self.until(self._is_quiet)

    def until(self, reached: Callable[[], object]) -> None:
        """Run until *reached* returns something true, 10 s at most."""
        deadline = time.monotonic() + self._limit_seconds
        while not reached():
            assert time.monotonic() < deadline, "not reached in 10 s"
            self._turn()

    def _turn(self) -> None:
        self.reactor.runUntilCurrent()
        if self.reactor.getReaders() or self.reactor.getWriters():
            self.reactor.doIteration(self._next_due())
        else:
            time.sleep(self._next_due())

    def _next_due(self) -> float:
        due = self.reactor.timeout()
        return self._moment_seconds if due is None else min(due, self._moment_seconds)

    def _is_quiet(self) -> bool:
        if self._next_due() < self._moment_seconds:
            return False
        masks: dict[int, int] = {}
        for reader in self.reactor.getReaders():
            masks[reader.fileno()] = select.POLLIN
        for writer in self.reactor.getWriters():
            masks[writer.fileno()] = masks.get(writer.fileno(), 0) | select.POLLOUT
        poll = select.poll()
        for descriptor, mask in masks.items():
            poll.register(descriptor, mask)
        return not poll.poll(0)

    def close(self) -> None:
        """Close what is left."""
        for selectable in self.reactor.removeAll():
            selectable.connectionLost(Failure(ConnectionAbortedError()))
        self.settle()


def read_packet(connected: PacketSocket) -> bytes | None:
    """
    The next packet that waits at *connected*: b"" at the end, None if none waits.
    """
    buffer = bytearray(PACKET_BYTES_MAX)
    try:
        size = connected.recv_into(memoryview(buffer), len(buffer), socket.MSG_TRUNC)
    except BlockingIOError:
        return None
    return bytes(buffer[:size])
