"""
Packets and what goes on around them, as a script in bytes: any bytes are a script.

Scripts are drawn from the golden packets (`tests/vectors`) and from whole conversations
(a request to its end, an upload); then fields, lengths, ids and payloads are changed by
what they mean, and bytes by what they are.
"""

from __future__ import annotations

import functools
import hashlib
import random
import struct
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from tests.device.making import HELLO, message, part, payload_of
from tests.device.strategies.media import BEGIN, CHUNK, END, FILES, File, whole
from tests.fuzz.mutations import changed, number
from tests.wire.samples import vectors
from twisted_aotx.limits import HEADER_BYTES, PACKET_BYTES_MAX
from twisted_aotx.wire.grants import GrantRow
from twisted_aotx.wire.info import ControlRow
from twisted_aotx.wire.layout import Record, layout_of
from twisted_aotx.wire.media import BeginData, FrameHead
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.policy import PolicyWrite
from twisted_aotx.wire.requests import Selector

#: What the golden packets were made for.
REVISION: Final = 7
EPOCH: Final = 0x0123456789ABCDEF
PRINCIPALS: Final = tuple(bytes(15) + bytes([n]) for n in (1, 2, 3, 4))
ID: Final = bytes(range(16))
TRANSFER: Final = bytes(range(0xF0, 0x100))
#: What the golden selector names, and another.
CONTROLS: Final = (
    ControlRow(
        name="caution",
        layers=1,
        qualification_sha256=hashlib.sha256(b"source").digest(),
        doses=(-5000, 5000),
    ),
    ControlRow(name="verve", layers=1, qualification_sha256=b"\2" * 32, doses=(1,)),
)
#: Steps of a script that are played; the rest is left out.
STEPS_MAX: Final = 24
#: Mailbox lengths that are no lie.
_HONEST: Final = 2**32 - 1
_TEXTS: Final = (
    *(b"[image:", b"[audio:", b"[ima", b"ge:", b"<|image_pad|>", b"<|vision_"),
    *(b"<|im_end|>", b"<|audio_", b"\0", b"\xc0\x80", b"\xed\xa0\x80", b"\x80"),
    *(b"\xf4\x8f\xbf\xbf", b"\xe2\x82", b"x" * 70, b"y" * 4000),
)


@attrs.frozen
class Packet:
    """
    A packet in a channel, or from a peer.
    """

    channel: int
    data: bytes
    #: What the mailbox says of its length, when that is a lie.
    length: int | None = None


@attrs.frozen
class Event:
    """
    Anything else that happens.
    """

    #: See `KINDS`.
    kind: int
    value: int = 0


#: Kinds of events: time passes; engines serve; the store is done; the media worker is;
#: the hold; a peer goes.
TIME, SERVE, STORE, WORK, HOLD, LEAVE = range(1, 7)
KINDS: Final = (TIME, SERVE, STORE, WORK, HOLD, LEAVE)
Step = Packet | Event

_PACKET: Final = struct.Struct("<BBII")
_EVENT: Final = struct.Struct("<BQ")


def pack(steps: Iterable[Step]) -> bytes:
    """A script of *steps*."""
    parts = []
    for step in steps:
        if isinstance(step, Event):
            parts.append(_EVENT.pack(step.kind, step.value % 2**64))
            continue
        told = _HONEST if step.length is None else step.length % 2**32
        data = step.data[: PACKET_BYTES_MAX + 1]
        parts.append(_PACKET.pack(0, step.channel % 256, told, len(data)))
        parts.append(data)
    return b"".join(parts)


def unpack(script: bytes) -> list[Step]:
    """The first `STEPS_MAX` steps of *script*, whatever it holds."""
    steps: list[Step] = []
    at = 0
    while at < len(script) and len(steps) < STEPS_MAX:
        kind = script[at]
        if kind in KINDS:
            fixed = script[at : at + _EVENT.size].ljust(_EVENT.size, b"\0")
            steps.append(Event(*_EVENT.unpack(fixed)))
            at += _EVENT.size
            continue
        fixed = script[at : at + _PACKET.size].ljust(_PACKET.size, b"\0")
        _, channel, told, size = _PACKET.unpack(fixed)
        at += _PACKET.size
        data = script[at : at + min(size, PACKET_BYTES_MAX + 1)]
        at += len(data)
        steps.append(Packet(channel, data, None if told == _HONEST else told))
    return steps


# --- whole packets --------------------------------------------------------------------


def packet(operation: int, payload: bytes = b"", **fields: object) -> bytes:
    """A packet of the first principal; nothing of it is checked but its shape."""
    given = {"principal": PRINCIPALS[0], "revision": REVISION, **fields}
    header = RequestHeader(operation=operation, **given)  # type: ignore[arg-type]
    return attrs.evolve(header, payload_bytes=len(payload)).pack() + payload


def submit(payload: bytes = HELLO, selector: bytes = b"", **fields: object) -> bytes:
    """A SUBMIT of the first principal."""
    given = {"epoch": EPOCH, "id": ID, "role": 2, "limit": 8, "top_p": 1.0, **fields}
    return packet(
        Operation.SUBMIT, payload + selector, selector_bytes=len(selector), **given
    )


@functools.cache
def golden() -> tuple[bytes, ...]:
    """The golden requests of peers, and then some that they lack."""
    found = [each.data for each in vectors().values() if each.layout == "packet"]
    policy = {"epoch": EPOCH}
    return (
        *found,
        *(packet(Operation.INFO, principal=each) for each in PRINCIPALS[1:]),
        *(
            packet(Operation.POLICY, PolicyWrite(action, 1).pack(), **policy)
            for action in (1, 2, 3, 4, 5)
        ),
        packet(Operation.MEDIA_LIST),
        packet(Operation.READ, epoch=EPOCH, id=ID),
        submit(selector=bytes(48)),
        submit(selector=Selector(1, b"\2" * 32).pack()),
        submit(role=4),
        *(packet(operation) for operation in (0, 1, 10, 11, 13, 99)),
    )


def uploaded(file: File, transfer: int = 3) -> list[bytes]:
    """The packets of a whole upload by the first principal."""
    return [
        intent.packet(EPOCH, REVISION)
        for intent in whole(file, PRINCIPALS[0], transfer)
    ]


def about(file: File) -> bytes:
    """A SUBMIT whose message refers to *file*."""
    kind = 1 if file.format == 1 else 2
    parts = part(b"what is this? ") + part(file.sha256, kind)
    head = struct.pack("<II", 1, 2)
    return submit(payload_of(head + parts), role=4)


@functools.cache
def conversations() -> tuple[bytes, ...]:
    """Scripts in which all is well, from the first packet to the last."""
    ready = [Event(TIME, 1), Event(WORK, 1), Event(TIME, 1), Event(STORE, 1)]
    read = Packet(1, packet(Operation.READ, epoch=EPOCH, id=ID))
    cancel = Packet(2, packet(Operation.CANCEL, epoch=EPOCH, id=ID))
    made: list[list[Step]] = [
        [Packet(1, submit()), Event(SERVE, 0), Event(TIME, 1), read, cancel],
        [Packet(1, submit(role=4)), Event(SERVE, 5), read, cancel, read],
        [Packet(1, submit()), Event(HOLD, 1), cancel, Event(HOLD, 0), cancel],
        [Packet(1, submit()), Event(TIME, 31 * 10**9), read],
        [Packet(1, each) for each in golden()],
    ]
    for file in FILES[:8]:
        sent: list[Step] = [Packet(1, each) for each in uploaded(file)]
        seen = Packet(1, packet(Operation.MEDIA_LIST))
        made.append([*sent, *ready, seen, Packet(2, about(file)), Event(SERVE, 0)])
        made.append([*sent[:-1], Event(TIME, 11 * 10**9), seen, *sent[-1:]])
    return tuple(map(pack, made))


# --- changes by meaning ---------------------------------------------------------------

_RECORDS: Final[tuple[tuple[type[Record], int], ...]] = (
    *((RequestHeader, 0), (RequestHeader, 0), (FrameHead, HEADER_BYTES)),
    *((PolicyWrite, HEADER_BYTES), (BeginData, HEADER_BYTES + FrameHead.SIZE)),
    (GrantRow, HEADER_BYTES),
)
#: Values that a field of that name may be right with.
_RIGHT: Final[dict[str, Sequence[int | bytes]]] = {
    "operation": (*range(14), *range(2, 13)),
    "principal": (*PRINCIPALS, bytes(16)),
    "revision": (REVISION, REVISION, REVISION + 1, REVISION - 1),
    "epoch": (EPOCH, EPOCH, EPOCH + 1, 0),
    "id": (ID, TRANSFER, (3).to_bytes(16, "big"), bytes(16)),
    "transfer_id": (ID, TRANSFER, (3).to_bytes(16, "big"), bytes(16)),
    "role": (0, 1, 2, 2, 3, 4, 4, 5),
    "limit": (0, 1, 8, 64, 65, 8191, 8192),
    "selector_bytes": (0, 47, 48, 49),
    "command": (0, BEGIN, CHUNK, END, 4, 5),
    "format": (0, 1, 2, 3, 4),
    "action": (0, 1, 2, 3, 4, 5, 6),
    "actions": (0, 1, 2, 8, 128, 255, 256, 511),
    "models": (0, 4, 8, 16, 28, 29, 32),
    "payload_bytes": (0, 48, 64, 65408, 65409),
}


def _field(rng: random.Random, data: bytearray) -> None:
    """Another value for one field of the header, of a frame, or of what is reserved."""
    record, base = rng.choice(_RECORDS)
    layout = layout_of(record)
    places = [(name, kind.offset, kind.width) for name, kind in layout.fields]
    places += [("", offset, width) for offset, width in layout.gaps]
    name, offset, width = rng.choice(places)
    at = base + offset
    if at + width > len(data):
        return
    right = _RIGHT.get(name)
    if right is not None and rng.random() < 0.7:
        value = rng.choice(right)
    elif width > 8:
        value = bytes(data[at : at + width])
        value = changed(rng, value)[:width].ljust(width, b"\0")
    else:
        value = number(rng, width)
    raw = value if isinstance(value, bytes) else value.to_bytes(width, "little")
    data[at : at + width] = raw


def _payload(rng: random.Random, data: bytearray) -> None:
    """Other bytes behind the header."""
    data[HEADER_BYTES:] = changed(rng, bytes(data[HEADER_BYTES:]), words=_TEXTS)


def _prompt(rng: random.Random, data: bytearray) -> None:
    """Another conversation behind the header."""
    texts = [rng.choice((b"hi", b"", *_TEXTS)) for _ in range(rng.randint(1, 6))]
    made = [message(rng.randrange(4), *texts) for _ in range(rng.choice((1, 1, 2, 64)))]
    selector = bytes(data[-48:]) if data[92:93] == b"\x30" else b""
    data[HEADER_BYTES:] = payload_of(*made) + selector


def _relength(data: bytearray) -> None:
    size = len(data) - HEADER_BYTES
    if size >= 0:
        struct.pack_into("<I", data, 88, size)


def _size(rng: random.Random, data: bytearray) -> None:
    """As long as a packet can be, or a byte more or less."""
    size = rng.choice((0, 1, 127, 128, 8256, 8257, 65535, 65536, 65537))
    data[:] = bytes(data).ljust(size, b"\0")[:size]


def other_packet(rng: random.Random, data: bytes) -> bytes:
    """*data*, changed by what it means; its length is mostly told rightly."""
    made = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        rng.choice((_field, _field, _field, _field, _payload, _payload, _prompt))(
            rng, made
        )
    if rng.random() < 0.03:
        _size(rng, made)
    if rng.random() < 0.85:
        _relength(made)
    if rng.random() < 0.05:
        return changed(rng, bytes(made))
    return bytes(made)


def _event(rng: random.Random) -> Event:
    kind = rng.choice(KINDS)
    if kind == TIME:
        return Event(kind, rng.choice((0, 1, 1, 10**9, 10 * 10**9, 30 * 10**9 + 1)))
    return Event(kind, rng.choice((0, 1, 1, 1, 2, 5, number(rng, 2))))


def draw(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """A script: one of the corpus or golden packets, changed step by step."""
    if rng.random() < 0.02:
        return changed(rng, rng.choice(corpus))
    steps = unpack(rng.choice(corpus))
    if rng.random() < 0.4:
        steps = [Packet(rng.randrange(16), rng.choice(golden()))]
    changes = rng.choice((1, 1, 1, 2, 3, 6))
    for _ in range(changes):
        at = rng.randrange(len(steps) + 1)
        drawn = rng.random()
        if drawn < 0.15:
            steps.insert(at, _event(rng))
        elif drawn < 0.3:
            steps.insert(at, Packet(rng.randrange(16), rng.choice(golden())))
        elif at == len(steps):
            continue
        elif drawn < 0.37:
            del steps[at]
        elif drawn < 0.42:
            steps.insert(rng.randrange(len(steps)), steps[at])
        else:
            step = steps[at]
            if isinstance(step, Packet):
                lie = number(rng, 4) if rng.random() < 0.03 else None
                data = other_packet(rng, step.data)
                steps[at] = attrs.evolve(step, data=data, length=lie)
    return pack(steps)
