"""
One connection to the device: exchanges, one at a time or sent ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from twisted_aotx.client.streaming import Streaming
from twisted_aotx.errors import ConnectFailed, ExchangeFailed
from twisted_aotx.seqpacket import PacketProtocol, SeqPacketConnection

Result = TypeVar("Result")


class Connection(PacketProtocol):
    """
    One connection: a packet out, then a packet in; or several out before the first is
    answered.
    """

    def __init__(self, lost: Callable[[Connection], None]) -> None:
        self._lost = lost
        self._reply: Deferred[bytes] | None = None
        self._streaming: Streaming | None = None

    def exchange(self, packet: bytes) -> Deferred[bytes]:
        """
        Send *packet*; fires with the reply or fails with ExchangeFailed.
        """
        assert self._reply is None
        reply: Deferred[bytes] = Deferred(self._abandon)
        self._reply = reply
        self.sendPacket(packet)
        return reply

    def stream(
        self, packets: Iterator[bytes], accept: Callable[[bytes], object], ahead: int
    ) -> Deferred[None]:
        """
        Send *packets*, at most *ahead* of them unanswered; fires when *accept* got all
        replies, fails with what it raises or with ExchangeFailed.
        """
        assert self._reply is None
        assert self._streaming is None
        done: Deferred[None] = Deferred(self._abandon)
        self._streaming = Streaming(done, self.sendPacket, packets, accept, ahead)
        done.addBoth(self._streamed)
        self._streaming.fill()
        return done

    def _streamed(self, result: Result) -> Result:
        self._streaming = None
        return result

    def _abandon(self, _: object) -> None:
        self._reply = None
        self.drop()

    def fail(self, reason: ExchangeFailed) -> None:
        """
        Give the exchange up and close.
        """
        self.drop()
        self._failed(reason)

    def drop(self) -> None:
        """
        Close, without waiting for anything.
        """
        cast(SeqPacketConnection, self.transport).abortConnection()

    def packetReceived(self, packet: bytes) -> None:
        """The reply, if one is expected."""
        if self._streaming is not None:
            self._streaming.received(packet)
            return
        reply, self._reply = self._reply, None
        if reply is None:
            self.drop()  # nobody asked: whatever this is, it is not our device
        else:
            reply.callback(packet)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """No reply comes any more."""
        self._lost(self)
        self._failed(ConnectFailed("the device closed the connection"))

    def _failed(self, reason: ExchangeFailed) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.errback(reason)
        elif self._streaming is not None:
            self._streaming.failed(reason)


class Connections(Factory):
    """
    Makes `Connection`s and tells when they are gone.
    """

    noisy = False

    def __init__(self, lost: Callable[[Connection], None]) -> None:
        self._lost = lost

    def buildProtocol(self, addr: IAddress | None) -> Connection:
        """A connection for the pool."""
        return Connection(self._lost)
