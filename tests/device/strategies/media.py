"""
Media frames: files that become ready and others, frames in order and out of it.
"""

from __future__ import annotations

import hashlib
import struct

import attrs
from hypothesis import strategies as st

from tests.device.strategies.damage import SOUND, Damage, maybe_damaged
from tests.device.strategies.frames import Intent
from tests.device.strategies.tables import PRINCIPALS
from tests.media_made import make_jpeg, make_wav
from twisted_aotx.wire.numbers import Operation

BEGIN, CHUNK, END, CANCEL = 1, 2, 3, 4
JPEG, WAV = 1, 3
CHUNK_BYTES = 8192


@attrs.frozen
class File:
    """What is uploaded, and whether its digest is told rightly."""

    data: bytes = attrs.field(repr=False)
    format: int
    honest: bool = True

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.data if self.honest else self.data + b"!").digest()


_GOOD = (
    File(make_jpeg(), JPEG),
    File(make_jpeg(16, 40, mode="L", progressive=True), JPEG),
    File(make_wav(400), WAV),
    File(make_wav(2000, "float32", 16000, 2), WAV),
)
_BAD = (
    File(make_jpeg()[:-1], JPEG),
    File(make_jpeg(201, 1, mode="L"), JPEG),
    File(make_wav(320), WAV),
    File(make_wav(400, silent=True), WAV),
    File(make_wav(400) + b"\0", WAV),
    # Of the other family, and not what was told.
    File(make_wav(400), JPEG),
    File(make_jpeg(), WAV),
    File(make_wav(400), WAV, honest=False),
)
FILES = (*_GOOD, *_BAD)
#: By what BEGIN tells of it.
BY_DIGEST = {file.sha256: file for file in FILES}

files = st.sampled_from(_GOOD * 3 + _BAD)
numbers = st.integers(1, 9)
owners = st.sampled_from((PRINCIPALS[0],) * 4 + PRINCIPALS[1:3])


@attrs.frozen
class Twist:
    """What is wrong about a frame; mostly nothing."""

    size_off: int = 0
    offset_off: int = 0
    length_off: int = 0
    schema: int = 1
    reserved: int = 0
    #: Of BEGIN: format, width, height.
    format: int | None = None
    extent: int = 0
    damage: Damage = SOUND


RIGHT = Twist()
twists = st.one_of(
    *[st.just(RIGHT)] * 10,
    st.builds(Twist, size_off=st.sampled_from((-1, 1, 2**20, 2**40))),
    st.builds(Twist, offset_off=st.sampled_from((-1, 1, 2**63))),
    st.builds(Twist, length_off=st.sampled_from((-1, 1))),
    st.builds(Twist, schema=st.sampled_from((0, 2))),
    st.builds(Twist, reserved=st.just(1)),
    st.builds(Twist, format=st.sampled_from((0, 2, 4, 2**31))),
    st.builds(Twist, extent=st.just(1)),
    st.builds(Twist, damage=maybe_damaged),
)


def frame(
    command: int,
    owner: bytes,
    number: int,
    *,
    size: int = 0,
    offset: int = 0,
    data: bytes = b"",
    twist: Twist = RIGHT,
) -> Intent:
    """One MEDIA frame."""
    head = struct.pack(
        "<II16sQQI20s",
        twist.schema,
        command,
        number.to_bytes(16, "big"),
        (size + twist.size_off) % 2**64,
        (offset + twist.offset_off) % 2**64,
        (len(data) + twist.length_off) % 2**32,
        bytes([twist.reserved] + [0] * 19),
    )
    return Intent(
        Operation.MEDIA,
        owner,
        payload=head + data,
        number=number,
        addressed=False,
        damage=twist.damage,
    )


def begin(file: File, owner: bytes, number: int, twist: Twist = RIGHT) -> Intent:
    form = file.format if twist.format is None else twist.format
    data = struct.pack("<4I32s", form, twist.extent, 0, 0, file.sha256)
    size = len(file.data)
    return frame(BEGIN, owner, number, size=size, data=data, twist=twist)


def whole(file: File, owner: bytes, number: int) -> list[Intent]:
    """An upload in as few frames as can be."""
    size = len(file.data)
    frames = [begin(file, owner, number)]
    for at in range(0, size, CHUNK_BYTES):
        data = file.data[at : at + CHUNK_BYTES]
        frames.append(frame(CHUNK, owner, number, size=size, offset=at, data=data))
    return [*frames, frame(END, owner, number, size=size, offset=size)]


looks: st.SearchStrategy[Intent] = st.one_of(
    st.builds(
        Intent,
        operation=st.just(Operation.MEDIA_READ),
        principal=owners,
        payload=st.sampled_from((b"",) * 3 + (b"x",)),
        number=st.one_of(numbers, numbers, st.just(0)),
        cursor=st.sampled_from((0,) * 7 + (1,)),
        addressed=st.sampled_from((False,) * 7 + (True,)),
        damage=maybe_damaged,
    ),
    st.builds(
        Intent,
        operation=st.just(Operation.MEDIA_LIST),
        principal=owners,
        payload=st.sampled_from((b"",) * 7 + (b"x",)),
        number=st.sampled_from((0,) * 7 + (1,)),
        cursor=st.sampled_from((0, 0, 0, 1, 3, 15, 16, 17, 2**63)),
        addressed=st.sampled_from((False,) * 7 + (True,)),
        damage=maybe_damaged,
    ),
)
