"""
One connection of `watch.sock`: watches in, notices out.

Notices that the peer does not take wait in its connection, one for each watch at most;
meanwhile nothing more of it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.errors import RemoteWireError
from twisted_aotx.seqpacket import PacketProtocol, SeqPacketConnection
from twisted_aotx.wire.watch import Notice, Watch, join_records, split_records

_log = Logger("aotx.watch")


class Watched(Protocol):
    """
    What a connection reports to (`service.WatchService`).
    """

    def watch(self, peer: WatchProtocol, watches: Sequence[Watch]) -> None:
        """*peer* watches."""

    def lost(self, peer: WatchProtocol) -> None:
        """*peer* is gone."""


@implementer(IPushProducer)
class WatchProtocol(PacketProtocol):
    """
    The connection of one peer. It is its own transport's producer of notices.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def connectionMade(self) -> None:
        """The peer may send."""
        self._socket.bufferSize = 0  # the first that waits is enough to stop reading
        self._socket.registerProducer(self, True)

    def packetReceived(self, packet: bytes) -> None:
        """Take the watches, or close."""
        try:
            watches = split_records(packet, Watch)
        except RemoteWireError as broken:
            _log.warn("a watching peer was closed: {why}", why=str(broken))
            self.close()
        else:
            self._watched.watch(self, watches)

    def tell(self, notices: Sequence[Notice]) -> None:
        """
        Send *notices*.
        """
        for packet in join_records(notices):
            self.sendPacket(packet)

    def close(self) -> None:
        """
        Close now.
        """
        self._socket.abortConnection()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Its watches are over."""
        self._watched.lost(self)

    # --- IPushProducer, of notices ----------------------------------------------------

    def pauseProducing(self) -> None:
        """Notices have to wait until the peer has taken some."""
        self._socket.pauseProducing()

    def resumeProducing(self) -> None:
        """The peer has taken them: read on."""
        self._socket.resumeProducing()

    def stopProducing(self) -> None:
        """Notices cannot be sent."""
        self.close()

    @property
    def _socket(self) -> SeqPacketConnection:
        return cast(SeqPacketConnection, self.transport)
