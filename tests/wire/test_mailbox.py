"""
The shared region (`wire.md` §12).
"""

from __future__ import annotations

from twisted_aotx.wire.mailbox import (
    MAILBOX_BYTES,
    MailboxHead,
    RegionHead,
    mailbox_at,
    region_bytes,
)


def test_sizes_of_the_region() -> None:
    assert MAILBOX_BYTES == 65600
    assert region_bytes(128) == 8400896
    assert region_bytes(2) == 135168
    assert region_bytes(1024) == 67178496
    for channels in range(2, 1025):
        used = 64 + channels * 65600
        assert region_bytes(channels) % 4096 == 0
        assert used <= region_bytes(channels) < used + 4096


def test_mailboxes_follow_the_head() -> None:
    assert [mailbox_at(channel) for channel in (0, 1, 127)] == [64, 65664, 8331264]


def test_heads_as_bytes() -> None:
    assert RegionHead(128, 1, 9).pack().hex() == (
        "0100000080000000000001000000000001000000000000000900000000000000" + "00" * 32
    )
    assert MailboxHead(1, 3, 128).pack().hex() == (
        "010000000000000003000000000000008000000000000000" + "00" * 40
    )
