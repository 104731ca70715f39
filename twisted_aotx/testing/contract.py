"""
The tests that every kind of mailboxes has to pass. Needs pytest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest

from twisted_aotx.devices import IMailboxes
from twisted_aotx.errors import ChannelBusy
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import (
    HEADER_BYTES,
    MAGIC,
    PACKET_BYTES_MAX,
    RequestHeader,
    join,
)


class MailboxHarness(Protocol):
    """
    Mailboxes with a device behind them that has no grants.
    """

    @property
    def mailboxes(self) -> IMailboxes:
        """At least four channels, all free."""

    @property
    def settle(self) -> Callable[[], None]:
        """Let the device answer everything that was published."""


class MailboxContract:
    """
    The tests of `IMailboxes`. A subclass named Test… provides the fixture `harness`.
    """

    @pytest.fixture
    def harness(self) -> MailboxHarness:
        """What is tested (`MailboxHarness`)."""
        raise NotImplementedError

    def test_all_free_at_first(self, harness: MailboxHarness) -> None:
        """Every channel is the broker's, the operator's included."""
        boxes = harness.mailboxes

        assert all(boxes.is_free(channel) for channel in range(boxes.channels))
        assert list(boxes.collect()) == []

    def test_published_is_taken(self, harness: MailboxHarness) -> None:
        """A published channel is taken, its neighbours are not; there is no reply."""
        boxes = harness.mailboxes

        boxes.publish(2, _info(2))

        free = [boxes.is_free(channel) for channel in (1, 2, 3)]
        assert free == [True, False, True]
        with pytest.raises(ChannelBusy):
            boxes.reply(2)

    def test_second_publication_refused(self, harness: MailboxHarness) -> None:
        """A taken channel refuses, and the first request is the one answered."""
        boxes = harness.mailboxes
        boxes.publish(1, _info(1))

        with pytest.raises(ChannelBusy) as caught:
            boxes.publish(1, _info(9))
        harness.settle()

        assert caught.value.channel == 1
        assert boxes.reply(1)[16:32] == bytes([1]) * 16

    def test_replies_are_told_once(self, harness: MailboxHarness) -> None:
        """collect names each answered channel once, and the reply is there."""
        boxes = harness.mailboxes
        for channel in (3, 1):
            boxes.publish(channel, _info(channel))
        harness.settle()

        collected = sorted(boxes.collect())

        assert collected == [1, 3]
        assert list(boxes.collect()) == []
        for channel in collected:
            reply = boxes.reply(channel)
            assert reply[:8] == MAGIC
            assert reply[16:32] == bytes([channel]) * 16

    def test_only_a_reply_can_be_released(self, harness: MailboxHarness) -> None:
        """A mailbox that is the device's, or free, is nobody's to take back."""
        boxes = harness.mailboxes
        with pytest.raises(ChannelBusy):
            boxes.release(1)
        boxes.publish(1, _info(1))
        with pytest.raises(ChannelBusy):
            boxes.release(1)
        assert not boxes.is_free(1)
        harness.settle()

        assert list(boxes.collect()) == [1]
        boxes.release(1)
        with pytest.raises(ChannelBusy):
            boxes.release(1)

    def test_reply_stays_until_release(self, harness: MailboxHarness) -> None:
        """reply may be called again and hands out copies; release frees the channel."""
        boxes = harness.mailboxes
        boxes.publish(1, _info(1))
        harness.settle()
        boxes.collect()

        first = boxes.reply(1)
        assert not boxes.is_free(1)
        assert boxes.reply(1) == first
        with pytest.raises(ChannelBusy):
            boxes.publish(1, _info(1))
        boxes.release(1)

        assert boxes.is_free(1)
        with pytest.raises(ChannelBusy):
            boxes.reply(1)
        boxes.publish(1, _info(7))
        harness.settle()
        assert list(boxes.collect()) == [1]
        assert boxes.reply(1)[16:32] == bytes([7]) * 16
        assert first[16:32] == bytes([1]) * 16

    def test_largest_packet(self, harness: MailboxHarness) -> None:
        """65,536 bytes fit, and the neighbour's mailbox is untouched."""
        boxes = harness.mailboxes
        boxes.publish(2, _info(2))

        boxes.publish(1, _info(1, bytes(PACKET_BYTES_MAX - HEADER_BYTES)))
        harness.settle()

        assert sorted(boxes.collect()) == [1, 2]
        assert boxes.reply(1)[16:32] == bytes([1]) * 16
        assert boxes.reply(2)[16:32] == bytes([2]) * 16


def _info(mark: int, payload: bytes = b"") -> bytes:
    principal = bytes([mark]) * 16
    return join(RequestHeader(Operation.INFO, principal, revision=1), payload)
