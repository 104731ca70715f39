"""
Peers' mailboxes: the region of `wire.md` §12 and the two rings beside it.

Who owns a mailbox's bytes is its state word: 0 the broker, 1 the device (a request is
published), 2 the broker again (a reply is published). The words change by release and
acquire only.

So that neither side scans all mailboxes [D6], the broker also puts the channel number
into the publish ring and the device into the reply ring. Each ring has one writer and
one reader and holds every channel at once, so it can never be full.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import (
    copy_bytes,
    dev,
    i64,
    load_acquire,
    store_release,
    u64,
)
from twisted_aotx.device.bits import bitmap_set
from twisted_aotx.device.numbers import (
    ANSWERED,
    FRAME_BYTES,
    HEADER,
    OURS,
    PUBLISHED,
    WORD_PUBLISH_HEAD,
    WORD_PUBLISH_TAIL,
    WORD_REPLY_HEAD,
    WORD_REPLY_TAIL,
)
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.mailbox import mailbox_at, region_bytes

_MAILBOX = [
    ("state", "<u8"),
    ("generation", "<u8"),
    ("length", "<u8"),
    ("reserved", "u1", (40,)),
    ("data", "u1", (FRAME_BYTES,)),
]


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least *count*."""
    return 1 << max(0, count - 1).bit_length()


def region_fields(capacities: Capacities) -> list[Any]:
    """The region's head and mailboxes, padded to 4,096 bytes."""
    tail = region_bytes(capacities.channels) - mailbox_at(capacities.channels)
    return [
        ("schema", "<u4"),
        ("channel_count", "<u4"),
        ("frame_bytes", "<u4"),
        ("head_reserved", "<u4"),
        ("closed", "<u8", (1,)),
        ("region_epoch", "<u8"),
        ("head_tail", "u1", (32,)),
        ("mail", _MAILBOX, (capacities.channels,)),
        *([("region_tail", "u1", (tail,))] if tail else []),
    ]


def ring_fields(capacities: Capacities) -> list[Any]:
    """Publish ring and reply ring: channel numbers."""
    entries = power_of_two(capacities.channels)
    return [
        ("publish_ring", "<i4", (entries,)),
        ("reply_ring", "<i4", (entries,)),
    ]


# --- the broker's side ----------------------------------------------------------------


@dev
def mailbox_state(H: Any, channel: Any) -> Any:
    """The state word of *channel*, as i64."""
    return i64(load_acquire(H.mail["state"], channel))


@dev
def publish(H: Any, channel: Any, packet: Any, size: Any, length: Any) -> Any:
    """
    Copy *size* bytes of *packet* in and publish them as a request of *length* bytes.

    Returns 1, or 0 when the mailbox is not the broker's (nothing was written).
    """
    if mailbox_state(H, channel) != OURS:
        return i64(0)
    data = H.mail[channel]["data"]
    copy_bytes(data, 0, packet, 0, size, 0, 1)
    H.mail["length"][channel] = u64(length)
    H.mail["generation"][channel] = H.mail["generation"][channel] + u64(1)
    store_release(H.mail["state"], channel, u64(PUBLISHED))
    tail = H.word[WORD_PUBLISH_TAIL]
    H.publish_ring[tail & (len(H.publish_ring) - 1)] = channel
    store_release(H.word, WORD_PUBLISH_TAIL, tail + 1)
    return i64(1)


@dev
def next_reply(H: Any) -> Any:
    """The next channel of the reply ring, or -1."""
    head = H.word[WORD_REPLY_HEAD]
    if head == load_acquire(H.word, WORD_REPLY_TAIL):
        return i64(-1)
    channel = i64(H.reply_ring[head & (len(H.reply_ring) - 1)])
    store_release(H.word, WORD_REPLY_HEAD, head + 1)
    return channel


@dev
def copy_reply(H: Any, channel: Any, out: Any) -> Any:
    """Copy the reply of *channel* to *out* (65,536 bytes); its length, or -1: none."""
    if mailbox_state(H, channel) != ANSWERED:
        return i64(-1)
    size = i64(H.mail["length"][channel])
    data = H.mail[channel]["data"]
    copy_bytes(out, 0, data, 0, size, 0, 1)
    return size


@dev
def release(H: Any, channel: Any) -> Any:
    """Take the mailbox back; 0 when there was no reply in it."""
    if mailbox_state(H, channel) != ANSWERED:
        return i64(0)
    store_release(H.mail["state"], channel, u64(OURS))
    return i64(1)


# --- the device's side ----------------------------------------------------------------


@dev
def claim(H: Any, D: Any) -> None:
    """
    Lane 0: list the channels published since the last tick and mark them pending.
    """
    head = H.word[WORD_PUBLISH_HEAD]
    tail = load_acquire(H.word, WORD_PUBLISH_TAIL)
    D.claimed = 0
    while head < tail:
        channel = i64(H.publish_ring[head & (len(H.publish_ring) - 1)])
        head += 1
        if mailbox_state(H, channel) == PUBLISHED:
            D.frame_length[channel] = i64(H.mail["length"][channel])
            D.claim_list[D.claimed] = channel
            D.claimed += 1
            bitmap_set(D.pending, channel)
    store_release(H.word, WORD_PUBLISH_HEAD, head)


@dev
def copy_in(H: Any, D: Any, lane: Any, lanes: Any) -> None:
    """
    All lanes: copy the claimed requests into the device's frames.

    The device works on its copy, so nothing that a peer does later can change it.
    """
    for n in range(D.claimed):
        channel = i64(D.claim_list[n])
        size = D.frame_length[channel]
        if size >= HEADER and size <= FRAME_BYTES:
            source = H.mail[channel]["data"]
            frame = D.frame[channel]
            copy_bytes(frame, 0, source, 0, size, lane, lanes)


@dev
def copy_out(H: Any, D: Any, lane: Any, lanes: Any) -> None:
    """
    All lanes: copy the replies of this tick; READ windows are there already.
    """
    for n in range(D.served):
        channel = i64(D.served_list[n])
        size = D.reply_length[channel]
        frame = D.frame[channel]
        data = H.mail[channel]["data"]
        copy_bytes(data, 0, frame, 0, size, lane, lanes)


@dev
def publish_replies(H: Any, D: Any) -> None:
    """
    Lane 0: hand the answered mailboxes back to the broker.
    """
    tail = H.word[WORD_REPLY_TAIL]
    for n in range(D.served):
        channel = i64(D.served_list[n])
        H.mail["length"][channel] = u64(
            D.reply_length[channel] + D.window_bytes[channel]
        )
        store_release(H.mail["state"], channel, u64(ANSWERED))
        H.reply_ring[tail & (len(H.reply_ring) - 1)] = channel
        tail += 1
    if D.served > 0:
        D.ring_broker = 1
    store_release(H.word, WORD_REPLY_TAIL, tail)
    D.served = 0
