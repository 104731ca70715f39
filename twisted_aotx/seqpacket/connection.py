"""
A connected seqpacket socket as a Twisted transport.

Packets come in through a `Receiver` and go out through a `SendQueue`; what is here is
the order of things between reactor, protocol and producer. (Linux, `unix(7)`: a socket
is writable again only when a quarter of its send buffer is in use or less.)
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import ClassVar, cast

from twisted.internet import error, interfaces, main
from twisted.internet.abstract import FileDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.seqpacket.descriptor import PacketDescriptor
from twisted_aotx.seqpacket.protocol import PACKET_BYTES_MAX, PacketTooLong
from twisted_aotx.seqpacket.receiving import Receiver
from twisted_aotx.seqpacket.sending import SendQueue
from twisted_aotx.seqpacket.system import (
    PacketReactor,
    PacketSocket,
    SeqPacketAddress,
)


@implementer(interfaces.ITransport, interfaces.IHalfCloseableDescriptor)
class SeqPacketConnection(PacketDescriptor):
    """
    A connected socket: one `write` is one packet, one `dataReceived` is one packet.

    `FileDescriptor` serves for its consumer, producer and disconnect states only. Its
    write side joins what is queued and sends the rest of a short send, and both would
    destroy packets; it is replaced by a queue of packets.
    """

    #: Packets delivered per readiness event, so that no peer keeps the others waiting.
    readBatch: ClassVar[int] = 16
    #: Queued bytes above which a push producer is paused.
    bufferSize = 4 * PACKET_BYTES_MAX

    def __init__(
        self,
        reactor: PacketReactor,
        connected: PacketSocket,
        protocol: interfaces.IProtocol,
        host: SeqPacketAddress,
        peer: SeqPacketAddress,
    ) -> None:
        super().__init__(reactor)
        self._socket = connected
        self._host = host
        self._peer = peer
        self._prefix = self._getLogPrefix(protocol)
        self.protocol = protocol
        self._queue = SendQueue(connected)
        self._receiver = Receiver(connected, self._queue)
        #: The consumer asked for a pause; the descriptor may still be registered.
        self._readPaused = False
        #: Something may have arrived meanwhile; the descriptor is not registered.
        self._heldBack = False
        #: The peer's end was reported to the protocol.
        self._readClosed = False
        self._aborting = False
        self.connected = 1

    def begin(self) -> None:
        """
        Connect the protocol and start to read. Call once, after construction.

        What `makeConnection` raises is passed on; the socket is closed then.
        """
        try:
            self.protocol.makeConnection(self)
        except Exception:
            FileDescriptor.connectionLost(self, Failure())
            self._socket.close()
            raise
        if not self._isEnding():
            self.startReading()

    # --- reading ----------------------------------------------------------------------

    def doRead(self) -> Exception | None:
        """Deliver what waits, at most `readBatch` packets."""
        if self._readPaused:
            self.stopReading()
            self._heldBack = True
            return None
        return self._receiver.receive(self.readBatch, self._handOver)

    def _handOver(self, packet: bytes) -> bool:
        """Deliver *packet*; whether the next one may follow."""
        self.protocol.dataReceived(packet)
        return not (self._readPaused or self._isEnding())

    def _isEnding(self) -> bool:
        return bool(self.disconnecting) or self._aborting or not self.connected

    def pauseProducing(self) -> None:
        """
        Deliver nothing until `resumeProducing`.

        The descriptor is taken from the reactor only when something arrives meanwhile:
        a protocol that pauses while it answers costs no system call.
        """
        self._readPaused = True

    def resumeProducing(self) -> None:
        """
        Deliver again.

        What arrived meanwhile is delivered from in here, a packet, without a turn of
        the reactor; if the protocol pauses for that one too, the reactor stays out of
        it altogether.
        """
        self._readPaused = False
        if self._isEnding() or self._readClosed:
            return
        if self._queue.isBroken():
            self._clock.callLater(0, self._readToEnd)
        if not self._heldBack:
            self.startReading()
            return
        self._heldBack = False
        why = self._receiver.receive(1, self._handOver)
        if isinstance(why, PacketTooLong):
            # Not from in here: the caller does not expect it. Any other end is met
            # again, and the reactor tells a half close from a whole one.
            self._clock.callLater(0, self.connectionLost, Failure(why))
        elif self._isEnding():
            return
        elif self._readPaused:
            self._heldBack = True
        else:
            self.startReading()

    # --- writing ----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """
        Send *data* as one packet; see `PacketProtocol.sendPacket`.
        """
        if self._isEnding() or self._writeDisconnecting or self._queue.isBroken():
            return
        if not 0 < len(data) <= PACKET_BYTES_MAX:
            raise error.MessageLengthError(f"{len(data)} byte packet")
        self._queue.push(data)
        if self._queue.isBroken():
            self._breakWrite()
        elif self._queue:
            self.startWriting()
            self._pauseProducerIfFull()
        elif self.producer is not None and not self.streamingProducer:
            self.startWriting()  # a pull producer is asked for more by doWrite

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        """Send each element as a packet of its own."""
        for packet in iovec:
            self.write(packet)

    def _pauseProducerIfFull(self) -> None:
        if (
            self.producer is not None
            and self.streamingProducer
            and self._queue.queued_bytes > self.bufferSize
        ):
            self.producerPaused = True
            cast(interfaces.IPushProducer, self.producer).pauseProducing()

    def _breakWrite(self) -> None:
        # Never connectionLost from inside write(): the caller does not expect it, and
        # the peer's last packets are still to be read.
        self.stopWriting()
        self._clock.callLater(0, self._readToEnd)
        if self.producer is not None:
            producer, self.producer = self.producer, None
            producer.stopProducing()

    def _readToEnd(self) -> None:
        """Read what is left after a failed send, a batch a turn, then end."""
        if not self.connected or self._readPaused or self._aborting:
            return  # resumeProducing comes back here
        if self.disconnecting or self._readClosed:
            self.connectionLost(Failure(main.CONNECTION_LOST))
            return
        why = self.doRead()
        if why is not None:
            self.connectionLost(Failure(why))
        elif self.connected:
            self._clock.callLater(0, self._readToEnd)

    def doWrite(self) -> Exception | None:
        """Send what is queued; then resume the producer, or close."""
        self._queue.flush()
        if self._queue.isBroken():
            self._breakWrite()
            return main.CONNECTION_LOST if self.disconnecting else None
        if self._queue:
            return None
        self.stopWriting()
        if self.producer is not None and (
            not self.streamingProducer or self.producerPaused
        ):
            self.producerPaused = False
            cast(interfaces.IPushProducer, self.producer).resumeProducing()
        elif self.disconnecting:
            return main.CONNECTION_DONE
        elif self._writeDisconnecting and not self._writeDisconnected:
            self._writeDisconnected = True
            self._closeWriteConnection()
        return None

    # --- closing ----------------------------------------------------------------------

    def _closeWriteConnection(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the peer is gone, reading will tell
        half = interfaces.IHalfCloseableProtocol(self.protocol, None)
        if half is not None:
            half.writeConnectionLost()

    def readConnectionLost(self, reason: Failure) -> None:
        """The peer sends nothing more: half closed if the protocol can, else closed."""
        half = interfaces.IHalfCloseableProtocol(self.protocol, None)
        if half is None or self._writeDisconnected:
            self.connectionLost(reason)
        else:
            self._readClosed = True
            half.readConnectionLost()

    def loseWriteConnection(self) -> None:
        """Tell the peer, once everything queued was sent, that nothing follows."""
        if not self._isEnding():
            FileDescriptor.loseWriteConnection(self)

    def loseConnection(self) -> None:
        """Close once everything queued was sent."""
        if not self._aborting:
            FileDescriptor.loseConnection(self)

    def abortConnection(self) -> None:
        """Close in the next turn; what is queued is dropped."""
        if not self.connected or self._aborting:
            return
        self._aborting = True
        self.stopReading()
        self.stopWriting()
        self._queue.clear()
        self._clock.callLater(
            0, self.connectionLost, Failure(error.ConnectionAborted())
        )

    def connectionLost(self, reason: Failure) -> None:
        """The socket is finished with: close it and tell the protocol, once."""
        if not self.connected:
            return
        FileDescriptor.connectionLost(self, reason)
        self._queue.clear()
        self._socket.close()
        self.protocol.connectionLost(reason)

    # --- description ------------------------------------------------------------------

    def fileno(self) -> int:
        """The socket's descriptor; -1 once closed."""
        return self._socket.fileno()

    def getHost(self) -> SeqPacketAddress:
        """This end."""
        return self._host

    def getPeer(self) -> SeqPacketAddress:
        """The other end, with who it is."""
        return self._peer

    def logPrefix(self) -> str:
        """The protocol's name."""
        return self._prefix
