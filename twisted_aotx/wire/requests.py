"""
The payload of SUBMIT: messages of parts, and the control selector (`wire.md` §8).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.limits import MESSAGES_MAX, PARTS_MAX, SELECTOR_BYTES
from twisted_aotx.wire.info import DOSE_MAX
from twisted_aotx.wire.layout import (
    Record,
    i32,
    raw,
    u32,
    wire_fields,
)
from twisted_aotx.wire.numbers import MessageRole, Operation, PartKind
from twisted_aotx.wire.packet import RequestHeader

_U32 = struct.Struct("<I")
_PAIR = struct.Struct("<II")
_DIGEST_BYTES: Final = 32
_T = TypeVar("_T")


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


@attrs.frozen
class TextPart:
    """
    Text of a message; may be empty.
    """

    #: Strict UTF-8, complete in itself.
    text: bytes = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        try:
            self.text.decode("utf-8")
        except UnicodeDecodeError:
            raise LocalWireError("TextPart", "text", 8, "not UTF-8") from None


@attrs.frozen
class DigestPart:
    """
    A media source of the caller, named by its digest.
    """

    #: `PartKind.IMAGE` or `PartKind.AUDIO`.
    kind: int
    #: SHA-256, 32 bytes.
    digest: bytes = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        if self.kind not in (PartKind.IMAGE, PartKind.AUDIO):
            raise LocalWireError("DigestPart", "kind", 0, "neither image nor audio")
        if len(self.digest) != _DIGEST_BYTES:
            raise LocalWireError("DigestPart", "digest", 8, "not 32 bytes")


Part: TypeAlias = TextPart | DigestPart


@attrs.frozen
class Message:
    """
    One turn of a conversation.
    """

    #: `numbers.MessageRole`.
    role: int
    #: 1..32; digests only in messages of the user.
    parts: tuple[Part, ...]

    def __attrs_post_init__(self) -> None:
        if self.role not in tuple(MessageRole):
            raise LocalWireError("Message", "role", 0, "unknown")
        if not 1 <= len(self.parts) <= PARTS_MAX:
            raise LocalWireError("Message", "parts", 4, f"not 1..{PARTS_MAX}")
        if self.role != MessageRole.USER and any(
            isinstance(part, DigestPart) for part in self.parts
        ):
            raise LocalWireError(
                "Message", "parts", 8, "media of another than the user"
            )


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
    temperature: float
    #: Above 0, at most 1, rounded to binary32.
    top_p: float
    #: 1..64.
    messages: tuple[Message, ...]
    #: Nothing or 48 bytes: `Selector.pack()`, or zeros, which select nothing.
    selector: bytes = b""

    def __attrs_post_init__(self) -> None:
        # The header's own checks hold for role, limit and what binary32 can carry.
        header = self.header(principal=bytes(16), revision=0)
        broken = _broken_header(header)
        if broken is not None:
            raise LocalWireError("Submission", *broken)
        if not 1 <= len(self.messages) <= MESSAGES_MAX:
            raise LocalWireError("Submission", "messages", 0, f"not 1..{MESSAGES_MAX}")
        if len(self.selector) not in (0, SELECTOR_BYTES):
            raise LocalWireError("Submission", "selector", 92, "neither 0 nor 48 bytes")
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
        id: bytes = bytes(16),  # noqa: A002  # the name of the field
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
    out = [_U32.pack(len(submission.messages))]
    for message in submission.messages:
        out.append(_PAIR.pack(message.role, len(message.parts)))
        for part in message.parts:
            if isinstance(part, TextPart):
                kind, data = int(PartKind.TEXT), part.text
            else:
                kind, data = part.kind, part.digest
            out += (_PAIR.pack(kind, len(data)), data)
    out.append(submission.selector)
    return b"".join(out)


def decode(header: RequestHeader, payload: bytes) -> Submission:
    """
    Read the SUBMIT that *header* and *payload* make. Offsets count from the payload,
    those of header fields from the header.

    Raises:
        RemoteWireError: a rule of `wire.md` §8 is broken.
    """
    broken = _broken_header(header)
    if broken is not None:
        raise RemoteWireError("Submission", *broken)
    if header.selector_bytes not in (0, SELECTOR_BYTES):
        raise RemoteWireError("Submission", "selector", 92, "neither 0 nor 48 bytes")
    end = len(payload) - header.selector_bytes
    if end < 0:
        raise RemoteWireError("Submission", "selector", 92, "longer than the payload")
    selector = payload[end:]
    if any(selector):
        Selector.unpack(selector, at=end)
    messages = _Reader(payload[:end]).messages()
    return Submission(
        role=header.role,
        limit=header.limit,
        temperature=header.temperature,
        top_p=header.top_p,
        messages=messages,
        selector=selector,
    )


def _broken_header(header: RequestHeader) -> tuple[str, int, str] | None:
    """
    Field, offset and reason of the first number that no device takes.
    """
    if header.limit < 1:
        return "limit", 76, "zero"
    if not 0 <= header.temperature <= 2:
        return "temperature", 80, "not within 0..2"
    if not 0 < header.top_p <= 1:
        return "top_p", 84, "not above 0 and at most 1"
    return None


class _Reader:
    """
    Walks the messages of a payload.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def messages(self) -> tuple[Message, ...]:
        if len(self._data) < 4:
            raise self._wrong("Submission", "messages", "cut")
        count = _U32.unpack_from(self._data)[0]
        if not 1 <= count <= MESSAGES_MAX:
            raise self._wrong("Submission", "messages", f"not 1..{MESSAGES_MAX}")
        self._at = 4
        messages = tuple(self._message() for _ in range(count))
        if self._at != len(self._data):
            raise self._wrong("Submission", "length", "bytes left over")
        return messages

    def _message(self) -> Message:
        start = self._at
        role, count = self._pair("Message", "role")
        if not 1 <= count <= PARTS_MAX:
            self._at = start + 4
            raise self._wrong("Message", "parts", f"not 1..{PARTS_MAX}")
        parts = tuple(self._part() for _ in range(count))
        return self._made(start, lambda: Message(role, parts))

    def _part(self) -> Part:
        start = self._at
        kind, size = self._pair("Part", "kind")
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            self._at = start + 4
            raise self._wrong("Part", "bytes", "beyond the payload")
        self._at += size
        if kind == PartKind.TEXT:
            return self._made(start, lambda: TextPart(data))
        return self._made(start, lambda: DigestPart(kind, data))

    def _pair(self, record: str, field: str) -> tuple[int, int]:
        if len(self._data) - self._at < _PAIR.size:
            self._at = len(self._data)
            raise self._wrong(record, field, "cut")
        first, second = _PAIR.unpack_from(self._data, self._at)
        self._at += _PAIR.size
        return first, second

    def _made(self, start: int, make: Callable[[], _T]) -> _T:
        try:
            return make()
        except LocalWireError as error:
            raise RemoteWireError(
                error.record, error.field, start + error.offset, error.reason
            ) from None

    def _wrong(self, record: str, field: str, reason: str) -> RemoteWireError:
        return RemoteWireError(record, field, self._at, reason)
