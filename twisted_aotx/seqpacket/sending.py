"""
Packets on their way out of one socket.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from typing import Final

from twisted.internet import error

from twisted_aotx.seqpacket.protocol import PACKET_BYTES_MAX
from twisted_aotx.seqpacket.system import PacketSocket

#: Bytes that may wait in one queue.
QUEUE_BYTES_MAX: Final = 256 * PACKET_BYTES_MAX
#: Send errors that pass: the peer has to read first, or the kernel is short of memory.
_TRY_AGAIN: Final = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM})


class SendQueueFull(error.ConnectionLost):
    """
    More than `QUEUE_BYTES_MAX` bytes would wait for the peer.

    Nothing of the packet was sent. A producer that pauses when asked never sees this.
    """


class SendQueue:
    """
    Sends packets in order; those that the kernel does not take yet wait here.

    A packet goes straight to the kernel if none waits, which saves a turn of the
    reactor.

    Attributes:
        queued_bytes: bytes that wait.
    """

    def __init__(self, connected: PacketSocket) -> None:
        self._socket = connected
        self._packets: deque[bytes] = deque()
        self.queued_bytes = 0
        self._broken = False

    def __len__(self) -> int:
        return len(self._packets)

    def isBroken(self) -> bool:
        """
        Whether a send failed or was cut short. Nothing is sent or queued any more.
        """
        return self._broken

    def push(self, packet: bytes) -> None:
        """
        Send *packet* or let it wait.

        Raises:
            SendQueueFull: too much waits.
        """
        if self._broken or (not self._packets and self._send(packet)):
            return
        if self.queued_bytes + len(packet) > QUEUE_BYTES_MAX:
            raise SendQueueFull(f"{self.queued_bytes} bytes wait for the peer")
        self._packets.append(packet)
        self.queued_bytes += len(packet)

    def flush(self) -> None:
        """
        Send what waits, as far as the kernel takes it.
        """
        while self._packets and self._send(self._packets[0]):
            if not self._broken:
                self.queued_bytes -= len(self._packets.popleft())

    def clear(self) -> None:
        """
        Forget what waits.
        """
        self._packets.clear()
        self.queued_bytes = 0

    def _send(self, packet: bytes) -> bool:
        """
        Try to send *packet*; False if it has to wait.
        """
        try:
            sent = self._socket.send(packet, socket.MSG_NOSIGNAL)
        except OSError as problem:
            if problem.errno in _TRY_AGAIN:
                return False
            sent = -1
        if sent != len(packet):
            self._broken = True
            self.clear()
        return True
