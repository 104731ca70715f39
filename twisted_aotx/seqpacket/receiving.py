"""
Packets on their way in from one socket.

What the kernel does, and what follows from it here (Linux, `unix(7)`):

1. The end of the connection and an empty packet read alike, so an empty packet is
   never sent.
2. With MSG_TRUNC, `recv_into` returns the real length of a packet that was cut.
   (`recv` with that flag returns memory behind the data: never use it.)
3. When the peer closes with packets of ours unread, ECONNRESET is reported once and
   *before* the packets that still wait for us. It is not the end: read on.
4. After EPIPE what the peer sent before is still readable, so a failed send does not
   end the connection by itself: reading goes on to the end first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from twisted.internet import main

from twisted_aotx.seqpacket.protocol import PACKET_BYTES_MAX, PacketTooLong
from twisted_aotx.seqpacket.sending import SendQueue
from twisted_aotx.seqpacket.system import PacketSocket

#: Every packet is received here and copied out before its protocol sees it; reactors
#: are single-threaded.
_BUFFER: Final = memoryview(bytearray(PACKET_BYTES_MAX))


class Receiver:
    """
    Receives packets in order, and knows how the connection ended.

    Args:
        queue: What goes out of the same socket; a failed send is told by it (fact 4).
    """

    def __init__(self, connected: PacketSocket, queue: SendQueue) -> None:
        self._socket = connected
        self._queue = queue
        #: ECONNRESET was seen (fact 3).
        self._reset = False

    def receive(
        self, packets_max: int, hand_over: Callable[[bytes], bool]
    ) -> Exception | None:
        """
        Give *hand_over* what waits, until it returns False.

        Returns:
            What ended the connection: `ConnectionDone` or `ConnectionLost`; None if
            nothing did.
        """
        for _ in range(packets_max):
            try:
                size = self._socket.recv_into(
                    _BUFFER, PACKET_BYTES_MAX, socket.MSG_TRUNC
                )
            except BlockingIOError:
                return main.CONNECTION_LOST if self._queue.isBroken() else None
            except ConnectionResetError:
                self._reset = True
                continue
            except OSError:
                return main.CONNECTION_LOST
            if size == 0:
                clean = not (self._reset or self._queue.isBroken())
                return main.CONNECTION_DONE if clean else main.CONNECTION_LOST
            if size > PACKET_BYTES_MAX:
                return PacketTooLong(size)
            if not hand_over(bytes(_BUFFER[:size])):
                break
        return None
