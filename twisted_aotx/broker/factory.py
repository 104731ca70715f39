"""
Which peer has which channel.
"""

from __future__ import annotations

from typing import cast

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from twisted_aotx.broker.channel import Channel, ChannelEvent, ChannelState
from twisted_aotx.broker.protocol import BrokerProtocol
from twisted_aotx.devices import IMailboxes
from twisted_aotx.seqpacket import Deadlines, PacketClock, SeqPacketAddress

_log = Logger("aotx.broker")


class BrokerFactory(Factory):
    """
    Gives each new peer a free channel, or closes it at once without a byte.

    A peer is welcome if it runs as *uid* and a channel without a pending reply is left.
    A peer that does nothing for *idle_seconds*, or does not take its reply, is closed.
    """

    noisy = False

    def __init__(
        self,
        clock: PacketClock,
        mailboxes: IMailboxes,
        *,
        uid: int,
        idle_seconds: float,
    ) -> None:
        self._mailboxes = mailboxes
        self._uid = uid
        self._channels = [Channel(index) for index in range(mailboxes.channels)]
        #: Free channels, the lowest last. 0 is the operator's.
        self._free = list(range(mailboxes.channels - 1, 0, -1))
        self._peers: dict[int, BrokerProtocol] = {}
        self._idle: Deadlines[BrokerProtocol] = Deadlines(
            clock, idle_seconds, BrokerProtocol.close
        )

    def buildProtocol(self, addr: IAddress | None) -> BrokerProtocol | None:
        """A peer connected; *addr* is a `SeqPacketAddress` with its credentials."""
        credentials = cast(SeqPacketAddress, addr).credentials
        if credentials is None or credentials.uid != self._uid:
            _log.warn("a peer of another user was closed")
            return None
        if not self._free:
            _log.warn("a peer was closed: every channel is taken")
            return None
        channel = self._channels[self._free.pop()]
        channel.happened(ChannelEvent.ATTACHED)
        peer = BrokerProtocol(self, channel.index)
        self._peers[channel.index] = peer
        return peer

    def answered(self, channel: int) -> None:
        """
        The device answered in *channel*: send the reply, or discard it if its peer has
        gone, and take the mailbox back.
        """
        reply = self._mailboxes.reply(channel)
        # First: the peer's next packet may be published from within `reply`.
        self._mailboxes.release(channel)
        state = self._channels[channel].happened(ChannelEvent.ANSWERED)
        if state is ChannelState.IDLE:
            self._peers[channel].reply(reply)
        else:
            self._free.append(channel)

    def drop_peers(self) -> int:
        """
        Close every peer, whatever is under way; they may connect again.

        Returns:
            How many they were.
        """
        peers = list(self._peers.values())
        for peer in peers:
            peer.close()
        return len(peers)

    def close(self) -> None:
        """
        Close every peer, and welcome no more.
        """
        self._free.clear()
        self._idle.close()
        self.drop_peers()

    # --- what peers report ------------------------------------------------------------

    def active(self, peer: BrokerProtocol) -> None:
        """The peer has its full time again."""
        self._idle.start(peer)

    def publish(self, peer: BrokerProtocol, packet: bytes) -> None:
        """Hand the packet to the device."""
        self._mailboxes.publish(peer.channel, packet)
        self._channels[peer.channel].happened(ChannelEvent.PUBLISHED)

    def lost(self, peer: BrokerProtocol) -> None:
        """Free the channel, now or after its reply."""
        self._idle.stop(peer)
        del self._peers[peer.channel]
        state = self._channels[peer.channel].happened(ChannelEvent.LOST)
        if state is ChannelState.FREE:
            self._free.append(peer.channel)
