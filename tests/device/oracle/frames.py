"""
Request frames and replies by their offsets (`wire.md` §2, §3).
"""

from __future__ import annotations

import struct

import attrs

from tests.device.oracle.state import Entry

MAGIC = b"AOTXAPI1"
HEADER = 128
FRAME = 65536
SUBMIT = 3


def u32(data: bytes, offset: int) -> int:
    return int(struct.unpack_from("<I", data, offset)[0])


def u64(data: bytes, offset: int) -> int:
    return int(struct.unpack_from("<Q", data, offset)[0])


def f32(data: bytes, offset: int) -> float:
    return float(struct.unpack_from("<f", data, offset)[0])


@attrs.frozen
class Frame:
    """A packet whose length is 128..65536."""

    packet: bytes

    @property
    def operation(self) -> int:
        return u32(self.packet, 8)

    @property
    def principal(self) -> bytes:
        return self.packet[16:32]

    @property
    def revision(self) -> int:
        return u64(self.packet, 32)

    @property
    def epoch(self) -> int:
        return u64(self.packet, 40)

    @property
    def id(self) -> bytes:
        return self.packet[48:64]

    @property
    def cursor(self) -> int:
        return u64(self.packet, 64)

    @property
    def selector_bytes(self) -> int:
        return u32(self.packet, 92)

    @property
    def payload(self) -> bytes:
        return self.packet[HEADER:]

    def is_zero(self, start: int, end: int) -> bool:
        return not any(self.packet[start:end])

    def well_formed(self) -> bool:
        """`device.md` §3 row 2."""
        selector = self.selector_bytes
        return (
            self.packet[:8] == MAGIC
            and self.is_zero(12, 16)
            and self.is_zero(96, 128)
            and u32(self.packet, 88) == len(self.packet) - HEADER
            and (selector == 0 or (selector == 48 and self.operation == SUBMIT))
        )


def zeroed_reply(epoch: int) -> bytes:
    """The answer to a mailbox length outside 128..65536."""
    reply = bytearray(HEADER)
    reply[:8] = MAGIC
    struct.pack_into("<I", reply, 8, 400)
    struct.pack_into("<Q", reply, 40, epoch)
    return bytes(reply)


def reply(
    frame: Frame,
    epoch: int,
    status: int,
    *,
    phase: int = 0,
    payload: bytes = b"",
    entry: Entry | None = None,
) -> bytes:
    """
    The request's header with the listed fields overwritten, and *payload*.

    *entry* is the request that a READ or CANCEL 200 describes.
    """
    out = bytearray(frame.packet[:HEADER])
    out[:8] = MAGIC
    struct.pack_into("<II", out, 8, status, phase)
    struct.pack_into("<Q", out, 40, epoch)
    struct.pack_into("<I", out, 88, len(payload))
    if frame.operation == SUBMIT:
        struct.pack_into("<I", out, 92, 0)
    if entry is not None:
        struct.pack_into(
            "<4I",
            out,
            72,
            entry.role,
            len(entry.output),
            entry.prompt_tokens,
            entry.sampled_tokens,
        )
        struct.pack_into("<3I", out, 92, entry.finish, entry.status, entry.cancel)
    return bytes(out) + payload
