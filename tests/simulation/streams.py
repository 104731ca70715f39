"""
TCP in memory: as much of it as Twisted's own transport and HTTP clients need.

A send takes as much as there is room for, or less; a receive gives as much as is there,
or less; both by the draw. What was sent arrives in order or not at all.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Callable
from typing import Any, Final

#: Bytes that may be on the way in one direction, unless SO_SNDBUF says less.
BUFFER_BYTES: Final = 16 << 10
#: Connections that wait for their server.
BACKLOG: Final = 64

Accept = Callable[["StreamSocket"], None]


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class StreamSocket:
    """
    One end of a connection: what `twisted.internet.tcp.Connection` asks of a socket.
    """

    def __init__(self, draw: random.Random, descriptor: int) -> None:
        self._draw = draw
        self._descriptor = descriptor
        self._peer: StreamSocket | None = None
        self._inbox = bytearray()
        self._read_ended = False
        self._write_ended = False
        self._reset = False
        self._resets_peer = False
        #: Bytes of one send or receive at most; small ones make many parts.
        self.part_bytes = BUFFER_BYTES

    def connect_to(self, peer: StreamSocket) -> None:
        """Both ends of a new connection."""
        self._peer, peer._peer = peer, self

    # --- socket.socket ----------------------------------------------------------------

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, blocking: bool) -> None:
        assert not blocking

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 8081

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 40000

    def getsockopt(self, level: int, option: int) -> int:
        return 0

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self._resets_peer = True

    def send(self, data: Any) -> int:
        """Some of *data*, 1 byte or more."""
        peer = self._peer
        if self._reset:
            raise _error(errno.ECONNRESET)
        if peer is None or self._write_ended or peer._descriptor < 0:
            raise _error(errno.EPIPE)
        room = BUFFER_BYTES - len(peer._inbox)
        if room <= 0:
            raise _error(errno.EAGAIN)
        size = min(len(data), room, self._draw.randint(1, self.part_bytes))
        peer._inbox += data[:size]
        return size

    def recv(self, size: int) -> bytes:
        """Some of what is there; b"" at its end."""
        if self._reset:
            self._inbox.clear()
            raise _error(errno.ECONNRESET)
        if not self._inbox:
            if self._read_ended:
                return b""
            raise _error(errno.EAGAIN)
        size = min(size, len(self._inbox), self._draw.randint(1, self.part_bytes))
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        return data

    def shutdown(self, how: int) -> None:
        if self._peer is None or self._reset:
            raise _error(errno.ENOTCONN)
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self._write_ended = True
            self._peer._read_ended = True

    def close(self) -> None:
        """Ends both directions; a reset if something was not read, or was asked for."""
        if self._descriptor < 0:
            return
        self._descriptor = -1
        peer = self._peer
        if peer is None or peer._descriptor < 0:
            return
        if self._inbox or self._resets_peer:
            peer._reset = True
        peer._read_ended = True

    # --- readiness --------------------------------------------------------------------

    def is_readable(self) -> bool:
        return bool(self._inbox or self._read_ended or self._reset)

    def is_writable(self) -> bool:
        peer = self._peer
        if peer is None or peer._descriptor < 0 or self._reset:
            return True
        return len(peer._inbox) < BUFFER_BYTES

    def is_hung_up(self) -> bool:
        return self._reset


class StreamNetwork:
    """
    Who listens at which port.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._listeners: dict[int, Accept] = {}
        self._descriptors = 2_000_000

    def listen(self, port: int, accept: Accept) -> None:
        """Have *accept* called with the server's end of each new connection."""
        self._listeners[port] = accept

    def close(self, port: int) -> None:
        """Nobody listens there any more."""
        self._listeners.pop(port, None)

    def connect(self, port: int) -> StreamSocket | None:
        """A connection to *port*; None if nobody listens."""
        accept = self._listeners.get(port)
        if accept is None:
            return None
        client, server = self._made(), self._made()
        client.connect_to(server)
        accept(server)
        return client

    def _made(self) -> StreamSocket:
        self._descriptors += 1
        made = StreamSocket(self._draw, self._descriptors)
        made.part_bytes = self._draw.choice((16, 512, BUFFER_BYTES, BUFFER_BYTES))
        return made
