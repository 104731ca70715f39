"""
The 128-byte headers of requests and replies, and packets made of them
(`wire.md` §1–§4).

A header record holds any value that its fields can carry, so that frames which break a
rule can be built, and their replies be read; `split_request` holds the rules.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.limits import (
    HEADER_BYTES,
    PACKET_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    SELECTOR_BYTES,
)
from twisted_aotx.wire.kinds import f32, raw, u32, u64
from twisted_aotx.wire.layout import BrokenRule, Record, offset_of, wire_fields
from twisted_aotx.wire.numbers import Operation, Status

__all__ = [
    "HEADER_BYTES",
    "MAGIC",
    "PACKET_BYTES_MAX",
    "PAYLOAD_BYTES_MAX",
    "ReplyHeader",
    "RequestHeader",
    "join",
    "split_reply",
    "split_request",
]

_LENGTH: Final = struct.Struct("<I")
MAGIC: Final = b"AOTXAPI1"


@attrs.frozen(field_transformer=wire_fields)
class RequestHeader(Record):
    """
    What stands before the payload of a request (`wire.md` §2).
    """

    SIZE = HEADER_BYTES

    #: `numbers.Operation`; any number, so that unknown ones can be sent.
    operation: int = attrs.field(metadata=u32(8))
    principal: bytes = attrs.field(metadata=raw(16, 16))
    #: Grant revision of the principal.
    revision: int = attrs.field(metadata=u64(32))
    #: Runtime epoch, 0 where the operation has none.
    epoch: int = attrs.field(default=0, metadata=u64(40))
    #: Request id or media transfer id.
    id: bytes = attrs.field(default=bytes(16), metadata=raw(48, 16))
    cursor: int = attrs.field(default=0, metadata=u64(64))
    #: `numbers.Role`, SUBMIT only.
    role: int = attrs.field(default=0, metadata=u32(72))
    #: Output tokens with SUBMIT, rows with GRANTS.
    limit: int = attrs.field(default=0, metadata=u32(76))
    temperature: float = attrs.field(default=0.0, metadata=f32(80))
    top_p: float = attrs.field(default=0.0, metadata=f32(84))
    payload_bytes: int = attrs.field(default=0, metadata=u32(88))
    #: 0, or 48 with SUBMIT.
    selector_bytes: int = attrs.field(default=0, metadata=u32(92))

    magic: bytes = attrs.field(
        default=MAGIC, init=False, repr=False, metadata=raw(0, 8)
    )


@attrs.frozen(field_transformer=wire_fields)
class ReplyHeader(Record):
    """
    What stands before the payload of a reply (`wire.md` §3).

    On a SUBMIT reply `total_bytes`, `prompt_tokens` and `sampled_tokens` are echoes of
    the limit, the temperature bits and the top_p bits.
    """

    SIZE = HEADER_BYTES

    #: `numbers.Status`, 200..599.
    status: int = attrs.field(metadata=u32(8, low=200, high=599))
    #: Request phase, or the policy state on operation 12; else 0.
    phase: int = attrs.field(metadata=u32(12, high=6))
    principal: bytes = attrs.field(metadata=raw(16, 16))
    revision: int = attrs.field(metadata=u64(32))
    #: The device's current epoch.
    epoch: int = attrs.field(metadata=u64(40))
    id: bytes = attrs.field(default=bytes(16), metadata=raw(48, 16))
    #: Echo; the next table position on MEDIA_LIST.
    cursor: int = attrs.field(default=0, metadata=u64(64))
    role: int = attrs.field(default=0, metadata=u32(72))
    #: Output bytes so far.
    total_bytes: int = attrs.field(default=0, metadata=u32(76))
    prompt_tokens: int = attrs.field(default=0, metadata=u32(80))
    sampled_tokens: int = attrs.field(default=0, metadata=u32(84))
    payload_bytes: int = attrs.field(default=0, metadata=u32(88))
    #: `numbers.Finish`.
    finish: int = attrs.field(default=0, metadata=u32(92))
    #: How the request ended: 0, or 400..599.
    failure_status: int = attrs.field(default=0, metadata=u32(96))
    #: 0 or 1.
    cancel_requested: int = attrs.field(default=0, metadata=u32(100))
    #: Zero, except in the answer to a frame whose own reserved bytes were not.
    echo: bytes = attrs.field(default=bytes(24), repr=False, metadata=raw(104, 24))

    magic: bytes = attrs.field(
        default=MAGIC, init=False, repr=False, metadata=raw(0, 8)
    )

    def check(self) -> None:
        """
        Hold bytes 92..127 to their rules, unless they may echo a malformed frame.
        """
        if self.status == Status.INVALID:
            return
        if self.finish > 2:
            raise BrokenRule("finish", "not within 0..2")
        if self.failure_status and not 400 <= self.failure_status <= 599:
            raise BrokenRule("failure_status", "neither 0 nor within 400..599")
        if self.cancel_requested > 1:
            raise BrokenRule("cancel_requested", "neither 0 nor 1")
        if any(self.echo):
            raise BrokenRule("echo", "must be zero")


def join(header: RequestHeader | ReplyHeader, payload: bytes = b"") -> bytes:
    """
    One packet of *header*, with its payload length set, and *payload*.

    Raises:
        LocalWireError: the packet would be longer than 65,536 bytes.
    """
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise LocalWireError(
            type(header).__name__,
            "payload_bytes",
            offset_of(type(header), "payload_bytes"),
            f"{len(payload)} bytes are more than {PAYLOAD_BYTES_MAX}",
        )
    packed = bytearray(header.pack())
    # A copy of the record would be checked field by field, for this field's sake.
    _LENGTH.pack_into(packed, offset_of(type(header), "payload_bytes"), len(payload))
    return bytes(packed) + payload


def split_request(packet: bytes) -> tuple[RequestHeader, bytes]:
    """
    Read a request; holds every rule of `wire.md` §2 but the grant's.

    Raises:
        RemoteWireError: the packet breaks one of them.
    """
    header = RequestHeader.unpack(_head_of(packet, "RequestHeader"))
    payload = _payload_of(packet, header)
    if header.selector_bytes:
        if header.operation != Operation.SUBMIT:
            raise _remote(header, "selector_bytes", "only SUBMIT has a selector")
        if header.selector_bytes != SELECTOR_BYTES:
            raise _remote(header, "selector_bytes", "neither 0 nor 48")
        if len(payload) < SELECTOR_BYTES:
            raise _remote(header, "selector_bytes", "longer than the payload")
    if header.operation not in (Operation.SUBMIT, Operation.GRANTS):
        # By bytes: the float fields have a negative zero.
        for name in ("role", "limit", "temperature", "top_p"):
            at = offset_of(RequestHeader, name)
            if any(packet[at : at + 4]):
                raise _remote(header, name, "only SUBMIT has it")
    return header, payload


def split_reply(packet: bytes) -> tuple[ReplyHeader, bytes]:
    """
    Read a reply. Whose it is, the caller must check (`wire.md` §3).

    Raises:
        RemoteWireError: the packet is not a reply.
    """
    header = ReplyHeader.unpack(_head_of(packet, "ReplyHeader"))
    return header, _payload_of(packet, header)


def _head_of(packet: bytes, record: str) -> bytes:
    if not HEADER_BYTES <= len(packet) <= PACKET_BYTES_MAX:
        raise RemoteWireError(
            record,
            "length",
            min(len(packet), PACKET_BYTES_MAX),
            f"{len(packet)} bytes are not within {HEADER_BYTES}..{PACKET_BYTES_MAX}",
        )
    return packet[:HEADER_BYTES]


def _payload_of(packet: bytes, header: RequestHeader | ReplyHeader) -> bytes:
    payload = packet[HEADER_BYTES:]
    if len(payload) != header.payload_bytes:
        raise _remote(
            header,
            "payload_bytes",
            f"says {header.payload_bytes}, but {len(payload)} bytes follow",
        )
    return payload


def _remote(
    header: RequestHeader | ReplyHeader, field: str, reason: str
) -> RemoteWireError:
    return RemoteWireError(
        type(header).__name__, field, offset_of(type(header), field), reason
    )
