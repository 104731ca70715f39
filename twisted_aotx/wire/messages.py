"""
The messages of a SUBMIT: turns of parts, back to back (`wire.md` §8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.limits import MESSAGES_MAX, PARTS_MAX
from twisted_aotx.wire.kinds import u32
from twisted_aotx.wire.layout import BrokenRule, Record, wire_fields
from twisted_aotx.wire.numbers import MessageRole, PartKind

_DIGEST_BYTES: Final = 32
_T = TypeVar("_T")
_Head = TypeVar("_Head", bound=Record)


@attrs.frozen(field_transformer=wire_fields)
class PayloadHead(Record):
    """
    What the payload begins with.
    """

    SIZE = 4

    messages: int = attrs.field(metadata=u32(0, low=1, high=MESSAGES_MAX))


@attrs.frozen(field_transformer=wire_fields)
class MessageHead(Record):
    """
    What every message begins with.
    """

    SIZE = 8

    #: `numbers.MessageRole`.
    role: int = attrs.field(metadata=u32(0, high=2))
    parts: int = attrs.field(metadata=u32(4, low=1, high=PARTS_MAX))


@attrs.frozen(field_transformer=wire_fields)
class PartHead(Record):
    """
    What every part begins with.
    """

    SIZE = 8

    #: `numbers.PartKind`.
    kind: int = attrs.field(metadata=u32(0, high=2))
    #: What follows: text of any length, or a digest.
    bytes: int = attrs.field(metadata=u32(4))

    def check(self) -> None:
        """
        A digest has one length.
        """
        if self.kind != PartKind.TEXT and self.bytes != _DIGEST_BYTES:
            raise BrokenRule("bytes", "a digest that is not 32 bytes")


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
            raise LocalWireError("TextPart", "text", 0, "not UTF-8") from None

    def head(self) -> PartHead:
        """
        What stands before the text.
        """
        return PartHead(PartKind.TEXT, len(self.text))


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
        if self.head().kind == PartKind.TEXT:
            raise LocalWireError("PartHead", "kind", 0, "neither image nor audio")

    def head(self) -> PartHead:
        """
        What stands before the digest.
        """
        return PartHead(self.kind, len(self.digest))


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
        self.head()
        if self.role != MessageRole.USER and any(
            isinstance(part, DigestPart) for part in self.parts
        ):
            raise LocalWireError(
                "MessageHead", "role", 0, "only the user's messages hold media"
            )

    def head(self) -> MessageHead:
        """
        What stands before the parts.
        """
        return MessageHead(self.role, len(self.parts))


def pack_messages(messages: tuple[Message, ...]) -> bytes:
    """
    The bytes of 1..64 messages; they may be more than a packet holds.
    """
    out = [PayloadHead(len(messages)).pack()]
    for message in messages:
        out.append(message.head().pack())
        for part in message.parts:
            data = part.text if isinstance(part, TextPart) else part.digest
            out += (part.head().pack(), data)
    return b"".join(out)


def unpack_messages(data: bytes) -> tuple[Message, ...]:
    """
    Read messages up to the last byte of *data*.

    Raises:
        RemoteWireError: a rule of `wire.md` §8 is broken.
    """
    return _Reader(data).messages()


class _Reader:
    """
    Walks the messages of a payload.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def messages(self) -> tuple[Message, ...]:
        count = self._head(PayloadHead).messages
        messages = tuple(self._message() for _ in range(count))
        if self._at != len(self._data):
            raise RemoteWireError(
                "Submission", "length", self._at, "bytes are left over"
            )
        return messages

    def _message(self) -> Message:
        start = self._at
        head = self._head(MessageHead)
        parts = tuple(self._part() for _ in range(head.parts))
        return _made(start, lambda: Message(head.role, parts))

    def _part(self) -> Part:
        head = self._head(PartHead)
        start = self._at
        data = self._take(head.bytes, "PartHead", "bytes")
        if head.kind == PartKind.TEXT:
            return _made(start, lambda: TextPart(data))
        return DigestPart(head.kind, data)

    def _head(self, record: type[_Head]) -> _Head:
        start = self._at
        data = self._take(record.SIZE, record.__name__, "length")
        return record.unpack(data, at=start)

    def _take(self, size: int, record: str, field: str) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            raise RemoteWireError(
                record, field, len(self._data), "beyond the end of the messages"
            )
        self._at += size
        return data


def _made(start: int, make: Callable[[], _T]) -> _T:
    try:
        return make()
    except LocalWireError as error:
        raise RemoteWireError(
            error.record, error.field, start + error.offset, error.reason
        ) from None
