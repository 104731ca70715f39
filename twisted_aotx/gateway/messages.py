"""
The messages of a body: JSON to the messages of a SUBMIT (`http.md` §5).

Layer 4, sans-IO. Media parts are judged in shape, in message order; which of them a
model takes is `forms`' to say, and what stands in them `inline`'s.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeAlias

import attrs

from twisted_aotx.errors import RemoteWireError
from twisted_aotx.gateway.problems import invalid_field
from twisted_aotx.limits import MESSAGES_MAX, PARTS_MAX
from twisted_aotx.wire.handles import parse_media_handle
from twisted_aotx.wire.numbers import MessageRole, PartKind
from twisted_aotx.wire.requests import TextPart

_ROLES: Final = {
    "system": MessageRole.SYSTEM,
    "user": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
}
#: Keys of an answer's message that mean nothing when they are null, so that a standard
#: client can send back what it got [D17].
_NULLABLE: Final = frozenset(
    {"refusal", "name", "audio", "annotations", "tool_calls", "function_call"}
)
_DATA_URL: Final = "data:image/jpeg;base64,"
_MEDIA_KINDS: Final = {"image": PartKind.IMAGE, "audio": PartKind.AUDIO}


@attrs.frozen
class InlineSource:
    """
    A source whose bytes stand in the message.
    """

    kind: PartKind
    #: Not yet looked at.
    base64: str = attrs.field(repr=False)
    #: Of errors about the bytes.
    param: str


@attrs.frozen
class RemoteSource:
    """
    An image that is to be imported.
    """

    #: Not yet looked at.
    url: str = attrs.field(repr=False)
    kind: ClassVar[PartKind] = PartKind.IMAGE


@attrs.frozen
class OwnedSource:
    """
    A source that the caller names.
    """

    kind: PartKind
    #: 16 bytes, not all zero.
    transfer_id: bytes


SourcePart: TypeAlias = InlineSource | RemoteSource | OwnedSource


@attrs.frozen
class Turn:
    """
    One message that was accepted.
    """

    role: MessageRole
    parts: tuple[TextPart | SourcePart, ...] = attrs.field(repr=False)

    @property
    def media(self) -> tuple[SourcePart, ...]:
        """
        The media parts, in order.
        """
        return tuple(part for part in self.parts if not isinstance(part, TextPart))


def conversation(messages: Any, *, native: bool) -> tuple[Turn, ...]:
    """
    Judge the value of `messages`.

    Raises:
        Problem: 400 with the param of `http.md` §5.
    """
    if not isinstance(messages, list) or not 1 <= len(messages) <= MESSAGES_MAX:
        raise invalid_field("messages", f"messages is a list of 1 to {MESSAGES_MAX}.")
    turns = []
    for message in messages:
        role, content = _message(message, native=native)
        parts = [_part(part, role, native=native) for part in _parts(content)]
        turns.append(Turn(role, tuple(parts)))
    return tuple(turns)


def _message(message: Any, *, native: bool) -> tuple[MessageRole, Any]:
    if not isinstance(message, dict):
        raise invalid_field("messages", "A message is an object.")
    keys = {
        name
        for name, value in message.items()
        if native or value is not None or name not in _NULLABLE
    }
    if keys != {"role", "content"}:
        raise invalid_field("messages", "A message has exactly role and content.")
    name = message["role"]
    if name == "developer" and not native:
        return MessageRole.SYSTEM, message["content"]
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise invalid_field("messages.role", "role must be system, user or assistant.")
    return role, message["content"]


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list) and 1 <= len(content) <= PARTS_MAX:
        return content
    message = f"content is a string or a list of 1 to {PARTS_MAX} parts."
    raise invalid_field("messages.content", message)


def _part(part: Any, role: MessageRole, *, native: bool) -> TextPart | SourcePart:
    if not isinstance(part, dict) or "type" not in part:
        raise invalid_field("messages.content", "A part is an object with a type.")
    kind = part["type"]
    if kind == "text":
        _exactly(part, {"type", "text"})
        if not isinstance(part["text"], str):
            raise invalid_field("messages.content.text", "text must be a string.")
        return TextPart(part["text"].encode())
    if kind == "image_url":
        _exactly(part, {"type", "image_url"}, role)
        return _image_url(part["image_url"], native=native)
    if kind == "input_audio":
        _exactly(part, {"type", "input_audio"}, role)
        return _input_audio(part["input_audio"])
    if kind == "media" and native:
        _exactly(part, {"type", "media_id", "modality"}, role)
        return _media(part)
    raise invalid_field("messages.content.type", "There is no such type of content.")


def _exactly(
    part: dict[str, Any], keys: set[str], role: MessageRole = MessageRole.USER
) -> None:
    """
    The keys of a part, and for media the role of its message.
    """
    if part.keys() != keys:
        message = f"This part has exactly {' and '.join(sorted(keys))}."
        raise invalid_field("messages.content", message)
    if role != MessageRole.USER:
        raise invalid_field("messages.content", "Only the user's messages take media.")


def _image_url(image: Any, *, native: bool) -> SourcePart:
    param = "image_url"
    if not isinstance(image, dict) or not {"url"} <= image.keys() <= {"url", "detail"}:
        raise invalid_field(param, "image_url has url and, if need be, detail.")
    detail = image.get("detail", "auto")
    if detail != "auto" and (native or detail is not None):
        raise invalid_field(param, "detail must be auto.")
    url = image["url"]
    if not isinstance(url, str) or not url:
        raise invalid_field(param, "url must be a string.")
    if not url.startswith("data:"):
        return RemoteSource(url)
    if not url.startswith(_DATA_URL):
        raise invalid_field(param, f"A data URL begins with {_DATA_URL}")
    return InlineSource(PartKind.IMAGE, url.removeprefix(_DATA_URL), param)


def _input_audio(audio: Any) -> SourcePart:
    param = "input_audio"
    if not isinstance(audio, dict) or audio.keys() != {"data", "format"}:
        raise invalid_field(param, "input_audio has exactly data and format.")
    if audio["format"] != "wav":
        raise invalid_field(param, "format must be wav.")
    if not isinstance(audio["data"], str):
        raise invalid_field(param, "data must be a string.")
    return InlineSource(PartKind.AUDIO, audio["data"], param)


def _media(part: dict[str, Any]) -> SourcePart:
    modality = part["modality"]
    kind = _MEDIA_KINDS.get(modality) if isinstance(modality, str) else None
    if kind is None:
        raise invalid_field("modality", "modality must be image or audio.")
    handle = part["media_id"]
    try:
        transfer_id = parse_media_handle(handle) if isinstance(handle, str) else b""
    except RemoteWireError:
        transfer_id = b""
    if not any(transfer_id):
        raise invalid_field("media_id", "media_id must be the handle of a source.")
    return OwnedSource(kind, transfer_id)
