"""
A client that knows only `wire.md`: packets by hand over `service.sock`.

Nothing of the package is used here, so that nothing of it is believed.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

import attrs

POLICY: Final = 12
GRANTS: Final = 1
PATIENCE: Final = 30.0

PAUSE, RESUME, STOP, REVIEW_ON, REVIEW_OFF = 1, 2, 3, 4, 5
OFF, QUIET, ACTIVE, PAUSED, STOPPED, ERROR, RECORDING = range(7)


@attrs.frozen(kw_only=True)
class Frame:
    """
    A request, field by field (`wire.md` §2). A write's payload is `schema`, `action`
    and `expected`, with `surplus` bytes more.
    """

    magic: bytes = b"AOTXAPI1"
    operation: int = POLICY
    flags: int = 0
    principal: bytes
    revision: int
    epoch: int = 0
    id: bytes = bytes(16)
    cursor: int = 0
    words: tuple[int, int, int, int] = (0, 0, 0, 0)
    selector: int = 0
    reserved: bytes = bytes(32)
    is_write: bool = False
    schema: int = 1
    action: int = 0
    expected: int = 0
    surplus: bytes = b""

    def pack(self) -> bytes:
        payload = self.surplus
        if self.is_write:
            payload = struct.pack("<IIQ", self.schema, self.action, self.expected)
            payload += self.surplus
        head = self.magic + struct.pack("<II", self.operation, self.flags)
        head += self.principal + struct.pack("<QQ", self.revision, self.epoch)
        head += self.id + struct.pack("<Q4I", self.cursor, *self.words)
        head += struct.pack("<II", len(payload), self.selector) + self.reserved
        assert len(head) == 128
        return head + payload


@attrs.frozen
class Reply:
    """
    A reply to operation 12 (`wire.md` §3, §11).
    """

    packet: bytes

    def u32(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.packet, at)[0])

    def u64(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self.packet, at)[0])

    @property
    def status(self) -> int:
        return self.u32(8)

    @property
    def epoch(self) -> int:
        return self.u64(40)

    @property
    def state(self) -> int:
        return self.u32(128 + 12)

    @property
    def review(self) -> int:
        return self.u32(128 + 16)

    @property
    def pending(self) -> int:
        return self.u32(128 + 20)

    @property
    def revision(self) -> int:
        return self.u64(128 + 32)

    @property
    def frontier(self) -> int:
        return self.u64(128 + 40)

    @property
    def saved_generation(self) -> int:
        return self.u64(128 + 80)


def check_reply(frame: Frame, reply: Reply) -> None:
    """What holds for every reply, and for a status payload."""
    sent, packet = frame.pack(), reply.packet
    assert packet[:8] == b"AOTXAPI1"
    # Principal and revision; id and cursor: echoes.
    assert packet[16:40] == sent[16:40]
    assert packet[48:72] == sent[48:72]
    assert reply.u32(88) == len(packet) - 128
    if reply.status != 200:
        assert len(packet) == 128
        return
    assert len(packet) == 128 + 160
    assert (reply.u32(128), reply.u32(132), reply.u32(136)) == (1, 3, 2)
    # The phase is the policy's state.
    assert reply.u32(12) == reply.state
    assert packet[128 + 124 :] == bytes(36)


class Connection:
    """
    One connection; `ask` sends a frame and waits for its reply.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(str(path))

    def ask(self, frame: Frame) -> Reply:
        assert self._socket.send(frame.pack()) == len(frame.pack())
        reply = Reply(self._socket.recv(65536))
        check_reply(frame, reply)
        return reply

    def close(self) -> None:
        self._socket.close()


def grants(revision: int, actions: dict[bytes, int]) -> bytes:
    """A grant table: role 2, every quota small (`wire.md` §6)."""
    rows = b"".join(
        principal
        + struct.pack("<QIIIIII", revision, mask, 1 << 2, 0, 100, 2, 0)
        + struct.pack("<QQ", 0, 0)
        for principal, mask in actions.items()
    )
    head = b"AOTXAPI1" + struct.pack("<I", GRANTS) + bytes(20)
    head += struct.pack("<Q", revision) + bytes(36)
    head += struct.pack("<I", len(actions)) + bytes(8)
    return head + struct.pack("<I", len(rows)) + bytes(36) + rows
