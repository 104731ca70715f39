"""
The operator's channel: one exchange at a time on channel 0.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from twisted_aotx.errors import ChannelBusy, ServiceClosed
from twisted_aotx.interfaces import IMailboxes
from twisted_aotx.seqpacket import PacketClock

#: The channel that no peer gets.
OPERATOR_CHANNEL: Final = 0


class OperatorChannel:
    """
    Sends packets to the device on the operator's behalf.
    """

    def __init__(
        self, clock: PacketClock, mailboxes: IMailboxes, *, seconds: float
    ) -> None:
        self._clock = clock
        self._mailboxes = mailboxes
        self._seconds = seconds
        self._waiting: Deferred[bytes | None] | None = None
        self._timer: IDelayedCall | None = None

    def exchange(self, packet: bytes) -> Deferred[bytes | None]:
        """
        Publish *packet*; fires with the reply, or with None if there is none in time.

        Raises:
            ChannelBusy: an earlier packet has no reply yet.
        """
        if self._waiting is not None:
            raise ChannelBusy(OPERATOR_CHANNEL)
        self._mailboxes.publish(OPERATOR_CHANNEL, packet)
        waiting: Deferred[bytes | None] = Deferred()
        self._waiting = waiting
        self._timer = self._clock.callLater(self._seconds, self._finish, None)
        return waiting

    def answered(self) -> None:
        """
        The device answered; a reply that nobody waits for any more is discarded.
        """
        reply = self._mailboxes.reply(OPERATOR_CHANNEL)
        self._mailboxes.release(OPERATOR_CHANNEL)
        self._finish(reply)

    def close(self) -> None:
        """
        Fail the exchange under way with ServiceClosed.
        """
        waiting = self._forget()
        if waiting is not None:
            waiting.errback(ServiceClosed())

    def _finish(self, reply: bytes | None) -> None:
        waiting = self._forget()
        if waiting is not None:
            waiting.callback(reply)

    def _forget(self) -> Deferred[bytes | None] | None:
        waiting, self._waiting = self._waiting, None
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
        return waiting
