"""
The protocol that suits packets, and how large they may be.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Protocol

#: Bytes of the largest packet, in either direction.
PACKET_BYTES_MAX: Final = 65536


class PacketTooLong(ConnectionLost):
    """
    The peer sent a packet of more than `PACKET_BYTES_MAX` bytes.

    Attributes:
        packet_bytes: its real length.
    """

    def __init__(self, packet_bytes: int) -> None:
        super().__init__(f"{packet_bytes} byte packet, limit {PACKET_BYTES_MAX}")
        self.packet_bytes = packet_bytes


class PacketProtocol(Protocol):
    """
    A protocol that gets whole packets. Works over anything that keeps their bounds.
    """

    def packetReceived(self, packet: bytes) -> None:
        """
        The peer sent *packet*, 1 to `PACKET_BYTES_MAX` bytes.
        """
        raise NotImplementedError

    def sendPacket(self, packet: bytes) -> None:
        """
        Send *packet* as it is; dropped if the connection is gone or closing.

        Raises:
            MessageLengthError: it is empty or longer than a packet can be.
            SendQueueFull: too much waits for the peer already.
        """
        assert self.transport is not None
        self.transport.write(packet)

    def dataReceived(self, data: bytes) -> None:
        """Hand the packet on under its proper name."""
        self.packetReceived(data)
