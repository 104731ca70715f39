"""
Rendering a SUBMIT payload and its span map (`device.md` §5, `wire.md` §8).

The pages name the rules, not which of two broken ones is told. Here the shape of the
whole payload comes first (400). Then, part by part in order: strict UTF-8 (400), the
room for what is rendered so far (413), links in it (400), and of a digest what its role
can see (400) and whether the caller has it (404).
"""

from __future__ import annotations

import attrs

from tests.device.oracle.frames import u32
from tests.device.oracle.media_state import JPEG, WAV, Media, MediaSource
from tests.device.oracle.state import CALLER, LINK, TEMPLATE, Model, Prompt

#: Caller text that would look like a media link is refused at once.
LINKS = (b"[image:", b"[audio:")
#: Caller text that spells an engine's media markers fails once leased.
FORBIDDEN = (
    b"<|vision_",
    b"<|image_pad|>",
    b"<|video_pad|>",
    b"<|audio_",
    b"<|AUDIO|>",
)


TEXT, IMAGE, AUDIO = 0, 1, 2
#: By kind of a digest part: how its link begins, its modality bit, its format.
KINDS = {IMAGE: (b"[image:", 2, JPEG), AUDIO: (b"[audio:", 4, WAV)}
USER = 1
LINK_BYTES = 72


class Refusal(Exception):
    """The payload breaks a rule; `status` is what the SUBMIT is answered."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@attrs.define
class _Text:
    """The prompt so far, with the class of every byte."""

    limit: int
    data: bytearray = attrs.field(factory=bytearray)
    classes: bytearray = attrs.field(factory=bytearray)
    linked: bool = False
    forbidden: bool = False

    def add(self, piece: bytes, span_class: int) -> None:
        start = len(self.data)
        self.data += piece
        self.classes += bytes([span_class]) * len(piece)
        if any(self._spelled(marker, start) for marker in LINKS):
            self.linked = True
        if any(self._spelled(marker, start) for marker in FORBIDDEN):
            self.forbidden = True

    def check(self) -> None:
        if len(self.data) > self.limit:
            raise Refusal(413)
        if self.linked:
            raise Refusal(400)

    def _spelled(self, marker: bytes, start: int) -> bool:
        """Whether a window that the last piece ended, and that touches text, is it."""
        at = self.data.find(marker, max(0, start - len(marker) + 1))
        while at >= 0:
            if CALLER in self.classes[at : at + len(marker)]:
                return True
            at = self.data.find(marker, at + 1)
        return False

    def spans(self) -> tuple[tuple[int, int], ...]:
        spans: list[tuple[int, int]] = []
        for end, span_class in enumerate(self.classes, start=1):
            if spans and spans[-1][1] == span_class:
                spans.pop()
            spans.append((end, span_class))
        return tuple(spans)


@attrs.define
class _Payload:
    """A cursor over the messages."""

    data: bytes
    at: int = 0

    def u32(self) -> int:
        if len(self.data) - self.at < 4:
            raise Refusal(400)
        self.at += 4
        return u32(self.data, self.at - 4)

    def take(self, count: int) -> bytes:
        if len(self.data) - self.at < count:
            raise Refusal(400)
        self.at += count
        return self.data[self.at - count : self.at]


@attrs.define
class _References:
    """Digest parts so far."""

    media: Media
    owner: bytes
    modalities: int
    limit: int
    found: list[tuple[int, MediaSource]] = attrs.field(factory=list)

    def add(self, kind: int, digest: bytes) -> None:
        """The source of a digest part of *kind* in a user's message."""
        _, modality, form = KINDS[kind]
        if not self.media.is_on or form not in self.media.families:
            raise Refusal(400)
        if not self.modalities & modality:
            raise Refusal(400)
        for source in self.media.sources():
            own = source.owner == self.owner and source.is_usable
            if own and source.format == form and source.sha256 == digest:
                break
        else:
            raise Refusal(404)
        if len(self.found) == self.limit:
            raise Refusal(413)
        self.found.append((kind, source))


def render(
    payload: bytes, model: Model, media: Media, owner: bytes, prompt_bytes: int
) -> Prompt:
    """
    Render *payload* (without its selector) for *model* with the sources of *owner*.

    Raises:
        Refusal: 400, 404, or 413 when more than *prompt_bytes* would be rendered.
    """
    form = model.message_format
    messages = _split(_Payload(payload))
    heads = (
        form.system_head[form.prefix_bytes :],
        form.user_head,
        form.assistant_head,
    )
    tails = (form.system_tail, form.user_tail, form.assistant_tail)
    text = _Text(prompt_bytes)
    limit = prompt_bytes // LINK_BYTES + 1
    references = _References(media, owner, model.modalities, limit)
    text.add(form.system_head[: form.prefix_bytes], TEMPLATE)
    for role, parts in messages:
        text.add(heads[role], TEMPLATE)
        for kind, piece in parts:
            _part(text, references, kind, piece)
        text.add(tails[role], TEMPLATE)
    for span in (form.generation_head, form.think_open, form.think_close):
        text.add(span, TEMPLATE)
    text.check()
    return Prompt(
        data=bytes(text.data),
        spans=text.spans(),
        forbidden=text.forbidden,
        references=tuple(references.found),
    )


def _split(source: _Payload) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """(role, parts) per message; parts are (kind, bytes)."""
    messages = []
    count = source.u32()
    if not 1 <= count <= 64:
        raise Refusal(400)
    for _ in range(count):
        role, parts = source.u32(), source.u32()
        if role > 2 or not 1 <= parts <= 32:
            raise Refusal(400)
        pieces = []
        for _ in range(parts):
            kind = source.u32()
            piece = source.take(source.u32())
            digest = role == USER and kind in KINDS and len(piece) == 32
            if kind != TEXT and not digest:
                raise Refusal(400)
            pieces.append((kind, piece))
        messages.append((role, pieces))
    if source.at != len(source.data):
        raise Refusal(400)
    return messages


def _part(text: _Text, references: _References, kind: int, piece: bytes) -> None:
    if kind == TEXT:
        try:
            piece.decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise Refusal(400) from None
        text.add(piece, CALLER)
        text.check()
        return
    head, _, _ = KINDS[kind]
    text.add(head + piece.hex().encode() + b"]", LINK)
    text.check()
    references.add(kind, piece)
