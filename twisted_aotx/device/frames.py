"""
The device's copies of requests, and the replies that are written into them in place.

A reply keeps every byte of the request header that `wire.md` §3 does not list, so it is
an echo. `served_list` holds the channels answered in this tick; a READ window is copied
from the result into the mailbox by all lanes (`copy_windows`), not through the frame.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import copy_bytes, dev, i64, u64
from twisted_aotx.device.bits import BITMAP_WORDS, read32, write32, write64
from twisted_aotx.device.numbers import FRAME_BYTES, HEADER, OP_SUBMIT
from twisted_aotx.limits import Capacities

MAGIC_LOW = int.from_bytes(b"AOTX", "little")
MAGIC_HIGH = int.from_bytes(b"API1", "little")

#: Byte offsets of the header (`wire.md` §2, §3).
AT_OPERATION = 8
AT_FLAGS = 12
AT_PRINCIPAL = 16
AT_REVISION = 32
AT_EPOCH = 40
AT_ID = 48
AT_CURSOR = 64
AT_ROLE = 72
AT_LIMIT = 76
AT_TEMPERATURE = 80
AT_TOP_P = 84
AT_PAYLOAD_BYTES = 88
AT_SELECTOR_BYTES = 92
AT_RESERVED = 96
AT_FINISH = 92
AT_FAILURE = 96
AT_CANCEL = 100


def frame_fields(capacities: Capacities) -> list[Any]:
    """Per channel one frame and what its reply will be."""
    channels = (capacities.channels,)
    return [
        ("frame", "u1", (capacities.channels, FRAME_BYTES)),
        ("frame_length", "<i8", channels),
        ("reply_length", "<i8", channels),
        ("window_request", "<i8", channels),
        ("window_cursor", "<i8", channels),
        ("window_bytes", "<i8", channels),
        # channels with a request that has not been examined yet
        ("pending", "<u8", (BITMAP_WORDS + 1,)),
        ("scan_position", "<i8"),
        ("claim_list", "<i8", channels),
        ("claimed", "<i8"),
        ("served_list", "<i8", channels),
        ("served", "<i8"),
        # SUBMIT payloads to keep: channel and request entry
        ("store_channel", "<i8", channels),
        ("store_request", "<i8", channels),
        ("stores", "<i8"),
        # 1: the frame just examined gets its reply later
        ("waits", "<i8"),
    ]


@dev
def serve(D: Any, channel: Any) -> None:
    """Note that *channel* gets its reply in this tick."""
    D.served_list[D.served] = channel
    D.served += 1


@dev
def wait_for_store(D: Any) -> None:
    """
    The frame in work gets its reply when the store is done with a record [D12]; until
    then its mailbox and its copy stay as they are.
    """
    D.waits = 1


@dev
def answer(D: Any, channel: Any, status: Any, phase: Any, payload: Any) -> None:
    """
    Write the reply header fields that every reply has; *payload* bytes follow it.
    """
    frame = D.frame[channel]
    write32(frame, 0, MAGIC_LOW)
    write32(frame, 4, MAGIC_HIGH)
    if read32(frame, AT_OPERATION) == OP_SUBMIT:
        write32(frame, AT_FINISH, 0)
    write32(frame, AT_OPERATION, status)
    write32(frame, AT_FLAGS, phase)
    write64(frame, AT_EPOCH, D.epoch)
    write32(frame, AT_PAYLOAD_BYTES, payload)
    D.reply_length[channel] = HEADER + payload
    D.window_bytes[channel] = 0


@dev
def answer_blank(D: Any, channel: Any, status: Any) -> None:
    """Answer a mailbox whose length is no packet's: nothing of it is echoed."""
    frame = D.frame[channel]
    for k in range(HEADER):
        frame[k] = 0
    answer(D, channel, status, 0, 0)


@dev
def is_zero(frame: Any, start: Any, end: Any) -> Any:
    """1 if the bytes from *start* to before *end* are all zero, else 0."""
    seen = i64(0)
    for k in range(start, end):
        seen |= i64(frame[k])
    if seen == 0:
        return i64(1)
    return i64(0)


@dev
def copy_windows(H: Any, D: Any, B: Any, lane: Any, lanes: Any) -> None:
    """
    All lanes: copy the READ windows of this tick into their mailboxes.

    Before the work step: a result reclaimed in this tick is still whole here.
    """
    for n in range(D.served):
        channel = i64(D.served_list[n])
        size = D.window_bytes[channel]
        if size > 0:
            data = H.mail[channel]["data"]
            output = B[D.window_request[channel]]["output"]
            start = D.window_cursor[channel]
            copy_bytes(data, HEADER, output, start, size, lane, lanes)


@dev
def keep_payloads(D: Any, B: Any, lane: Any, lanes: Any) -> None:
    """All lanes: copy the payloads admitted in this tick to their requests."""
    for n in range(D.stores):
        frame = D.frame[D.store_channel[n]]
        request = i64(D.store_request[n])
        size = D.r_payload_bytes[request]
        copy_bytes(B[request]["payload"], 0, frame, HEADER, size, lane, lanes)


@dev
def read_id(frame: Any, at: Any) -> Any:
    """A 16-byte id as two u64."""
    low = u64(read32(frame, at)) | (u64(read32(frame, at + 4)) << u64(32))
    high = u64(read32(frame, at + 8)) | (u64(read32(frame, at + 12)) << u64(32))
    return low, high
