"""
SUBMIT: its payload, the control selector, and the header fields that belong to it
(`wire.md` §8).
"""

from __future__ import annotations

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.limits import SELECTOR_BYTES
from twisted_aotx.wire.info import DOSE_MAX
from twisted_aotx.wire.kinds import i32, raw, to_f32, u32
from twisted_aotx.wire.layout import Record, offset_of, wire_fields
from twisted_aotx.wire.messages import (
    DigestPart,
    Message,
    PayloadHead,
    TextPart,
    pack_messages,
    unpack_messages,
)
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader

__all__ = [
    "DigestPart",
    "Message",
    "Selector",
    "Submission",
    "TextPart",
    "decode",
    "encode",
]


@attrs.frozen(field_transformer=wire_fields)
class Selector(Record):
    """
    Which control a request wants, and how much of it; the end of a payload.
    """

    SIZE = SELECTOR_BYTES

    #: Unit 0.0001.
    dose: int = attrs.field(metadata=i32(8, low=-DOSE_MAX, high=DOSE_MAX, nonzero=True))
    qualification_sha256: bytes = attrs.field(metadata=raw(16, 32, nonzero=True))

    version: int = attrs.field(default=1, init=False, metadata=u32(0))
    kind: int = attrs.field(default=1, init=False, metadata=u32(4))


def _binary32(field: str, value: float) -> float:
    try:
        return to_f32(value)
    except ValueError as error:
        at = offset_of(RequestHeader, field)
        raise LocalWireError("Submission", field, at, str(error)) from None


def _temperature(value: float) -> float:
    return _binary32("temperature", value)


def _top_p(value: float) -> float:
    return _binary32("top_p", value)


@attrs.frozen
class Submission:
    """
    Everything that a SUBMIT asks for. Whether it is granted, the device decides.
    """

    #: `numbers.Role`.
    role: int
    #: Output tokens, 1 or more.
    limit: int
    #: 0..2, rounded to binary32.
    temperature: float = attrs.field(converter=_temperature)
    #: Above 0, at most 1, rounded to binary32.
    top_p: float = attrs.field(converter=_top_p)
    #: 1..64.
    messages: tuple[Message, ...]
    #: Nothing or 48 bytes: `Selector.pack()`, or zeros, which select nothing.
    selector: bytes = b""

    def __attrs_post_init__(self) -> None:
        # Making the header checks what its fields can carry.
        broken = _broken(self.header(principal=bytes(16), revision=0))
        if broken is not None:
            raise LocalWireError("Submission", *broken)
        PayloadHead(len(self.messages))
        if any(self.selector):
            try:
                Selector.unpack(self.selector)
            except RemoteWireError as error:
                raise LocalWireError(
                    error.record, error.field, error.offset, error.reason
                ) from None

    def header(
        self,
        *,
        principal: bytes,
        revision: int,
        epoch: int = 0,
        id: bytes = bytes(16),
    ) -> RequestHeader:
        """
        The header that carries this submission, without its payload length.
        """
        return RequestHeader(
            operation=Operation.SUBMIT,
            principal=principal,
            revision=revision,
            epoch=epoch,
            id=id,
            role=self.role,
            limit=self.limit,
            temperature=self.temperature,
            top_p=self.top_p,
            selector_bytes=len(self.selector),
        )


def encode(submission: Submission) -> bytes:
    """
    The payload of *submission*. It may be longer than a packet holds.
    """
    return pack_messages(submission.messages) + submission.selector


def decode(header: RequestHeader, payload: bytes) -> Submission:
    """
    Read the SUBMIT that *header* and *payload* make. Offsets count from the payload,
    those of header fields from the header.

    Raises:
        RemoteWireError: a rule of `wire.md` §8 is broken.
    """
    broken = _broken(header)
    if broken is not None:
        raise RemoteWireError("Submission", *broken)
    end = len(payload) - header.selector_bytes
    if end < 0:
        at = offset_of(RequestHeader, "selector_bytes")
        raise RemoteWireError(
            "Submission", "selector_bytes", at, "longer than the payload"
        )
    if any(payload[end:]):
        Selector.unpack(payload[end:], at=end)
    return Submission(
        role=header.role,
        limit=header.limit,
        temperature=header.temperature,
        top_p=header.top_p,
        messages=unpack_messages(payload[:end]),
        selector=payload[end:],
    )


def _broken(header: RequestHeader) -> tuple[str, int, str] | None:
    """
    Field, offset and reason of the first header field that no device takes.
    """
    if header.limit < 1:
        field, reason = "limit", "zero"
    elif not 0 <= header.temperature <= 2:
        field, reason = "temperature", "not within 0..2"
    elif not 0 < header.top_p <= 1:
        field, reason = "top_p", "not above 0 and at most 1"
    elif header.selector_bytes not in (0, SELECTOR_BYTES):
        field, reason = "selector_bytes", "neither 0 nor 48"
    else:
        return None
    return field, offset_of(RequestHeader, field), reason
