"""
The memory that broker and device share: a region head, then mailboxes (`wire.md` §12).

Who owns a mailbox's bytes is told by its state, `numbers.MailboxState`.
"""

from __future__ import annotations

from typing import Final

import attrs

from twisted_aotx.limits import PACKET_BYTES_MAX
from twisted_aotx.wire.kinds import u32, u64
from twisted_aotx.wire.layout import Record, wire_fields

#: The region is rounded up to whole memory pages of this size.
REGION_ROUND_BYTES: Final = 4096


@attrs.frozen(field_transformer=wire_fields)
class RegionHead(Record):
    """
    The start of the region.
    """

    SIZE = 64

    channels: int = attrs.field(metadata=u32(4, low=2, high=1024))
    #: 1 at shutdown.
    closed: int = attrs.field(default=0, metadata=u64(16, high=1))
    epoch: int = attrs.field(default=0, metadata=u64(24))

    schema: int = attrs.field(default=1, init=False, metadata=u32(0))
    frame_bytes: int = attrs.field(
        default=PACKET_BYTES_MAX, init=False, metadata=u32(8)
    )


@attrs.frozen(field_transformer=wire_fields)
class MailboxHead(Record):
    """
    The start of one mailbox; the packet follows.
    """

    SIZE = 64

    #: `numbers.MailboxState`.
    state: int = attrs.field(default=0, metadata=u64(0, high=2))
    #: Raised by the broker at every publish.
    generation: int = attrs.field(default=0, metadata=u64(8))
    #: Bytes of the packet.
    length: int = attrs.field(default=0, metadata=u64(16))


#: One mailbox, head and packet.
MAILBOX_BYTES: Final = MailboxHead.SIZE + PACKET_BYTES_MAX


def mailbox_at(channel: int) -> int:
    """
    Where the mailbox of *channel* begins, in bytes from the start of the region.
    """
    return RegionHead.SIZE + channel * MAILBOX_BYTES


def region_bytes(channels: int) -> int:
    """
    Bytes of a region with *channels* mailboxes, channel 0 included.
    """
    used = mailbox_at(channels)
    return -(-used // REGION_ROUND_BYTES) * REGION_ROUND_BYTES
