"""
Mailboxes without a device.
"""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from twisted_aotx.devices import IMailboxes
from twisted_aotx.errors import ChannelBusy
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import MailboxState, Status
from twisted_aotx.wire.packet import HEADER_BYTES, RequestHeader


@implementer(IMailboxes)
class MemoryMailboxes:
    """
    `IMailboxes` whose requests a test answers itself.

    Attributes:
        published: (channel, packet) of every publication, in order.
    """

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.published: list[tuple[int, bytes]] = []
        self._states = [MailboxState.BROKER] * channels
        self._packets = [b""] * channels
        self._answered: list[int] = []

    def is_free(self, channel: int) -> bool:
        """Whether the mailbox is the broker's."""
        return self._states[channel] is MailboxState.BROKER

    def publish(self, channel: int, packet: bytes) -> None:
        """Take a request."""
        if not self.is_free(channel):
            raise ChannelBusy(channel)
        self.published.append((channel, packet))
        self._packets[channel] = packet
        self._states[channel] = MailboxState.REQUEST

    def collect(self) -> Sequence[int]:
        """The channels answered since the last call."""
        answered, self._answered = self._answered, []
        return answered

    def reply(self, channel: int) -> bytes:
        """The reply in *channel*."""
        if self._states[channel] is not MailboxState.REPLY:
            raise ChannelBusy(channel)
        return self._packets[channel]

    def release(self, channel: int) -> None:
        """Take the mailbox back."""
        if self._states[channel] is not MailboxState.REPLY:
            raise ChannelBusy(channel)
        self._states[channel] = MailboxState.BROKER

    # --- the device's side ------------------------------------------------------------

    def pending(self) -> list[int]:
        """The channels whose requests have no answer yet."""
        states = enumerate(self._states)
        return [channel for channel, state in states if state is MailboxState.REQUEST]

    def answer(self, channel: int, reply: bytes) -> None:
        """Publish *reply* in *channel*, as a tick does."""
        assert self._states[channel] is MailboxState.REQUEST
        self._packets[channel] = reply
        self._states[channel] = MailboxState.REPLY
        self._answered.append(channel)

    def answer_all(self) -> None:
        """Refuse everything with 403, as a device without grants does."""
        for channel in self.pending():
            request = RequestHeader.unpack(self._packets[channel][:HEADER_BYTES])
            self.answer(channel, reply_to(request, Status.FORBIDDEN))
