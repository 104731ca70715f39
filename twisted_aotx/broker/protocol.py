"""
One peer: packets to its mailbox, replies back.

A packet under 128 bytes, one cut at 65,536 bytes (the transport sees that) and
operation 1 break the rules of `wire.md` §1: the peer is closed without a reply. What
else is in a packet is the device's business.

While a packet is published, and until its reply was handed to the kernel, nothing is
read: a peer that sends ahead waits in its own socket buffer.
"""

from __future__ import annotations

from typing import Final, Protocol, cast

from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.seqpacket import PacketProtocol, PacketTooLong, SeqPacketConnection
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import HEADER_BYTES

#: The operation word of a GRANTS packet, bytes 8..11.
_GRANTS: Final = Operation.GRANTS.to_bytes(4, "little")
_log = Logger("aotx.broker")


class Exchange(Protocol):
    """
    What a peer's protocol reports to (`factory.BrokerFactory`).
    """

    def active(self, peer: BrokerProtocol) -> None:
        """*peer* sent a packet, or took one."""

    def publish(self, peer: BrokerProtocol, packet: bytes) -> None:
        """*peer* sent *packet*; `BrokerProtocol.reply` gets the answer."""

    def lost(self, peer: BrokerProtocol) -> None:
        """*peer* is gone."""


@implementer(IPushProducer)
class BrokerProtocol(PacketProtocol):
    """
    The connection of one peer.

    It is registered with its own transport as a producer of replies: the transport
    tells it when a reply has to wait (EAGAIN), when it was sent, and when that failed.

    Attributes:
        channel: index of the peer's channel.
    """

    def __init__(self, exchange: Exchange, channel: int) -> None:
        self._exchange = exchange
        self.channel = channel
        self._is_reply_waiting = False

    def connectionMade(self) -> None:
        """The peer may send."""
        self._socket.bufferSize = 0  # one reply that waits is one too many
        self._socket.registerProducer(self, True)
        self._exchange.active(self)

    def packetReceived(self, packet: bytes) -> None:
        """Publish, or close."""
        if len(packet) < HEADER_BYTES:
            self._refuse("a packet under 128 bytes")
        elif packet[8:12] == _GRANTS:
            self._refuse("operation 1")
        else:
            self._socket.pauseProducing()
            self._exchange.active(self)
            self._exchange.publish(self, packet)

    def reply(self, packet: bytes) -> None:
        """
        Send the device's reply, then read on.
        """
        self.sendPacket(packet)
        if not self._is_reply_waiting:
            self.resumeProducing()

    def close(self) -> None:
        """
        Close now, whatever is under way.
        """
        self._socket.abortConnection()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """The channel is free, or will be after the reply."""
        if reason is not None and reason.check(PacketTooLong):
            self._warn("a packet over 65,536 bytes")
        self._exchange.lost(self)

    def _refuse(self, why: str) -> None:
        self._warn(why)
        self.close()

    def _warn(self, why: str) -> None:
        _log.warn("channel {channel} closed: {why}", channel=self.channel, why=why)

    # --- IPushProducer, of replies ----------------------------------------------------

    def pauseProducing(self) -> None:
        """The reply has to wait until the peer has read earlier ones."""
        self._is_reply_waiting = True

    def resumeProducing(self) -> None:
        """The reply was sent: read the peer's next packet."""
        self._is_reply_waiting = False
        self._exchange.active(self)
        self._socket.resumeProducing()

    def stopProducing(self) -> None:
        """The reply cannot be sent."""
        self.close()

    @property
    def _socket(self) -> SeqPacketConnection:
        return cast(SeqPacketConnection, self.transport)
