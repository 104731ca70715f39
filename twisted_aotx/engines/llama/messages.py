"""
What runtime and child say to each other over the child's standard input and output.

A frame is a u32 (bytes that follow), a u8 (the message's KIND) and the message: fixed
fields, then for some a tail of bytes up to the frame's end. Numbers are little-endian.
`frames` cuts a stream into them.

    runtime → child   Load (once, first), Open, Stop, Ping
    child → runtime   Ready or Broken (once), Opened or Refused, Emit, Done, Pong

Rules:
1. Both sides are of one version: a frame that does not fit is a fault.
2. Of a lease comes first `Opened` or `Refused`, and `Done` last (`device.md` §10).
3. A `Stop` may cross a `Done`: who gets a message for a lease that it no longer has
   drops it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import attrs

#: Bytes that follow, and the kind.
HEAD: Final = struct.Struct("<IB")
#: End and class of a span.
SPAN: Final = struct.Struct("<IB")


class FrameError(Exception):
    """
    The other side does not speak this version's frames.
    """


@attrs.frozen(init=False)
class Message:
    """
    One message. Subclasses have a KIND and the layout of their FIELDS, in order; with a
    TAIL, their last field is what follows them.
    """

    KIND: ClassVar[int]
    FIELDS: ClassVar[struct.Struct]
    TAIL: ClassVar[bool] = False

    def pack(self) -> bytes:
        """The frame."""
        values: tuple[Any, ...] = attrs.astuple(self, recurse=False)
        tail = b""
        if self.TAIL:
            values, tail = values[:-1], values[-1]
        body = self.FIELDS.pack(*values) + tail
        return HEAD.pack(1 + len(body), self.KIND) + body

    @classmethod
    def unpack(cls, body: bytes) -> Message:
        """The message from what follows its kind."""
        values: list[Any] = [*cls.FIELDS.unpack_from(body)]
        size = cls.FIELDS.size
        if cls.TAIL:
            values.append(body[size:])
        elif len(body) != size:
            raise FrameError(f"{cls.__name__} has {len(body)} bytes")
        return cls(*values)


@attrs.frozen
class Load(Message):
    """
    Load a model and get ready.
    """

    KIND = 1
    FIELDS = struct.Struct("<IIIiII")
    TAIL = True

    #: Sequences at once.
    capacity: int
    #: Tokens of one sequence.
    context: int
    threads: int
    #: Layers on a GPU; −1 is all.
    gpu_layers: int
    #: Prompt rows in one step.
    prefill_rows: int
    #: How many of `texts` are the message format's `assistant_tail`.
    stop_bytes: int
    #: What stands behind an answer, then the model file's path.
    texts: bytes

    @property
    def stop(self) -> bytes:
        """The message format's `assistant_tail`."""
        return self.texts[: self.stop_bytes]

    @property
    def path(self) -> bytes:
        """The model file."""
        return self.texts[self.stop_bytes :]


@attrs.frozen
class Open(Message):
    """
    Begin a lease (`interfaces.OpenOrder`).
    """

    KIND = 2
    FIELDS = struct.Struct("<IQIffQI")
    TAIL = True

    slot: int
    generation: int
    limit: int
    temperature: float
    top_p: float
    seed: int
    span_count: int
    #: End (u32) and class (u8) of each span, then the rendered prompt.
    prompt: bytes = attrs.field(repr=False)

    @staticmethod
    def join(spans: tuple[tuple[int, int], ...], rendered: bytes) -> bytes:
        """`prompt` of an order's spans and rendered bytes."""
        return b"".join(SPAN.pack(*span) for span in spans) + rendered

    @property
    def spans(self) -> Iterator[tuple[int, bytes]]:
        """(class, bytes) of each span, in order."""
        size = self.span_count * SPAN.size
        if size > len(self.prompt):
            raise FrameError("Open has fewer bytes than its spans")
        start = size
        for end, span_class in SPAN.iter_unpack(self.prompt[:size]):
            yield span_class, self.prompt[start : size + end]
            start = size + end


@attrs.frozen
class Stop(Message):
    """
    A lease has ended: free its sequence.
    """

    KIND = 3
    FIELDS = struct.Struct("<IQ")

    slot: int
    generation: int


@attrs.frozen
class Ping(Message):
    """
    Are you there? Answered at once, also while a step or a load runs.
    """

    KIND = 4
    FIELDS = struct.Struct("<I")

    number: int


@attrs.frozen
class Ready(Message):
    """
    The model is loaded.
    """

    KIND = 64
    FIELDS = struct.Struct("<II")

    #: Tokens of one sequence, at least what was asked for.
    context: int
    #: Milliseconds that loading took.
    load_ms: int


@attrs.frozen
class Broken(Message):
    """
    The child cannot serve, and ends.
    """

    KIND = 65
    FIELDS = struct.Struct("<")
    TAIL = True

    #: A sentence in UTF-8.
    reason: bytes


@attrs.frozen
class Opened(Message):
    """
    The sequence is open.
    """

    KIND = 66
    FIELDS = struct.Struct("<IQI")

    slot: int
    generation: int
    prompt_tokens: int


@attrs.frozen
class Refused(Message):
    """
    The prompt cannot be served.
    """

    KIND = 67
    FIELDS = struct.Struct("<IQI")

    slot: int
    generation: int
    status: int


@attrs.frozen
class Emit(Message):
    """
    Output of a step.
    """

    KIND = 68
    FIELDS = struct.Struct("<IQI")
    TAIL = True

    slot: int
    generation: int
    tokens: int
    data: bytes = attrs.field(repr=False)


@attrs.frozen
class Done(Message):
    """
    The sequence ended and is freed.
    """

    KIND = 69
    FIELDS = struct.Struct("<IQI")

    slot: int
    generation: int
    #: `wire.numbers.Finish`.
    finish: int


@attrs.frozen
class Pong(Message):
    """
    The answer to a `Ping`.
    """

    KIND = 70
    FIELDS = struct.Struct("<IQ")

    number: int
    #: Steps begun or ended so far: what moves shows that no step hangs.
    progress: int


KINDS: Final[Mapping[int, type[Message]]] = {
    message.KIND: message
    for message in (
        *(Load, Open, Stop, Ping),
        *(Ready, Broken, Opened, Refused, Emit, Done, Pong),
    )
}
