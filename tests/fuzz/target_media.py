"""
JPEGs and WAVs: the kernels' verdict is the oracle's, however their work is parted, and
no byte beside a source counts; what they take, Pillow decodes or refuses, and Python's
own reader finds the samples that they count.
"""

from __future__ import annotations

import contextlib
import io
import random
import struct
import wave
import zlib
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from tests.device.capacities import SMALL
from tests.device.content_harness import Judged, judge_jpeg, judge_wav
from tests.device.jpeg_surgery import Segment, put_together, take_apart
from tests.device.oracle import jpeg, wav
from tests.fuzz.harness import Features, Target, demand
from tests.fuzz.mutations import changed, number
from tests.media_made import JPEGS, WAVS, make_jpeg, make_wav
from twisted_aotx.runtime.jpeg import fault_of

_LIMITS: Final = jpeg.Limits(
    SMALL.image_pixels, SMALL.image_dimension, SMALL.image_patches
)
_SEGMENTS: Final = [each for one in JPEGS.values() for each in take_apart(one)]
_JPEG_WORDS: Final = tuple(
    bytes([0xFF, code])
    for code in (0, 1, *range(0xC0, 0xE3), 0xEC, 0xED, 0xEE, 0xF0, 0xFE, 0xFF)
)
_WAV_WORDS: Final = (
    *(b"RIFF", b"WAVE", b"fmt ", b"data", b"fact", b"LIST", b"wavl", b"plst", b"slnt"),
    *(b"junk\x03\0\0\0odd\0", b"fact\x04\0\0\0", b"\xfe\xff", b"RF64", b"\0\0\xc0\x7f"),
)
#: Pixels of an image that is decoded here; headers tell of up to 4 million.
_DECODED_PIXELS_MAX: Final = 1 << 18

Judge = Callable[..., Judged]


class MediaTarget(Target):
    """
    Args:
        judge: walks a JPEG.
    """

    name: ClassVar[str] = "media"
    count: ClassVar[int] = 1500

    def __init__(self, judge: Judge = judge_jpeg) -> None:
        self._jpeg = judge

    def seeds(self) -> Sequence[bytes]:
        return [
            *JPEGS.values(),
            *WAVS.values(),
            make_wav(320),
            make_wav(321),
            make_wav(400, silent=True),
            make_jpeg(201, 1, mode="L"),
        ]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        data = rng.choice(corpus)
        drawn = rng.random()
        if drawn < 0.05:
            return data[: len(data) - rng.randrange(5)] + rng.randbytes(
                rng.randrange(3)
            )
        if data[:2] == b"\xff\xd8":
            if drawn < 0.5:
                with contextlib.suppress(AssertionError, IndexError):
                    return _segments(rng, take_apart(data))
            return changed(rng, data, corpus, _JPEG_WORDS)
        if drawn < 0.6:
            return _chunks(rng, data)
        # Samples make up most of a file; what matters stands before them.
        head = changed(rng, data[:90], (), _WAV_WORDS)
        return head + data[90:]

    def judge(self, data: bytes) -> Features:
        if not data:
            return frozenset()
        rng = random.Random(zlib.crc32(data))
        if data[:2] == b"\xff\xd8":
            return self._judge_jpeg(data, rng)
        return self._judge_wav(data, rng)

    def _judge_jpeg(self, data: bytes, rng: random.Random) -> Features:
        expected = jpeg.judge(data, _LIMITS)
        found = self._jpeg(data)
        told = expected.status, expected.width, expected.height, 0, expected.rows
        demand(found == Judged(*told), f"{found}, and the oracle says {expected}")
        parted = self._jpeg(data, _budgets(rng), guard=rng.choice((0, 0xFF)))
        demand(parted == found, f"{parted} in parts, {found} at once")
        decoded = None
        if not found.status and found.width * found.height <= _DECODED_PIXELS_MAX:
            decoded = not fault_of(io.BytesIO(data), found.width, found.height)
        return frozenset({("jpeg", found.status, decoded, data[-2:] == b"\xff\xd9")})

    def _judge_wav(self, data: bytes, rng: random.Random) -> Features:
        expected = wav.judge(data, SMALL.audio_frames)
        found = judge_wav(data)
        told = expected.status, 0, 0, expected.samples, expected.rows
        demand(found == Judged(*told), f"{found}, and the oracle says {expected}")
        parted = judge_wav(data, _budgets(rng), guard=rng.choice((0, 0xFF)))
        demand(parted == found, f"{parted} in parts, {found} at once")
        if not found.status:
            _check_samples(data, found.samples)
        return frozenset({("wav", found.status, found.rows > 0)})


def _budgets(rng: random.Random) -> list[int]:
    """Bytes of work, step after step, enough of them."""
    return [rng.choice((1, 2, 7, 64, 600, 5000)) for _ in range(40)] + [1 << 30] * 4


def _check_samples(data: bytes, samples: int) -> None:
    """Python's reader, which knows plain PCM alone, counts the same frames."""
    try:
        with wave.open(io.BytesIO(data)) as opened:
            frames, rate = opened.getnframes(), opened.getframerate()
    except (wave.Error, EOFError):
        return
    demand(-(-frames * 16000 // rate) == samples, f"{samples} samples, {frames} frames")


def _segments(rng: random.Random, parts: list[Segment]) -> bytes:
    """Other segments: left out, repeated, of another file, of another kind."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(parts) + 1)
        drawn = rng.random()
        if drawn < 0.3 or at == len(parts):
            parts.insert(at, rng.choice(_SEGMENTS))
        elif drawn < 0.4:
            del parts[at]
        elif drawn < 0.5:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif drawn < 0.6:
            code = rng.randrange(0xC0, 0xFF)
            parts[at] = Segment(code, parts[at].body, parts[at].data)
        elif drawn < 0.85:
            body = changed(rng, parts[at].body)
            parts[at] = Segment(parts[at].code, body[:65533], parts[at].data)
        else:
            data = changed(rng, parts[at].data, (), _JPEG_WORDS)
            parts[at] = Segment(parts[at].code, parts[at].body, data)
    return put_together(parts)


def _chunks(rng: random.Random, data: bytes) -> bytes:
    """Other chunks, with sizes that are mostly right."""
    chunks: list[list[bytes]] = []
    at = 12
    while at + 8 <= len(data) and len(chunks) < 20:
        (size,) = struct.unpack_from("<I", data, at + 4)
        chunks.append([data[at : at + 4], data[at + 8 : at + 8 + size]])
        at += 8 + size + size % 2
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not chunks:
            break
        index = rng.randrange(len(chunks))
        drawn = rng.random()
        name, body = chunks[index]
        if drawn < 0.2:
            chunks.insert(
                rng.randrange(len(chunks)), [rng.choice(_WAV_WORDS)[:4], b"1234"]
            )
        elif drawn < 0.3:
            del chunks[index]
        elif drawn < 0.4:
            chunks.append(chunks.pop(index))
        elif drawn < 0.5:
            chunks[index][0] = rng.choice(_WAV_WORDS)[:4].ljust(4)
        elif drawn < 0.6:
            chunks[index][1] = body[: rng.choice((0, 1, 640, 642, number(rng, 2)))]
        else:
            chunks[index][1] = changed(rng, body[:64]) + body[64:]
    made = b"WAVE"
    for name, body in chunks:
        size = len(body) if rng.random() < 0.95 else number(rng, 4)
        made += name + struct.pack("<I", size) + body
        made += bytes(len(body) % 2 if rng.random() < 0.95 else 1)
    size = len(made) if rng.random() < 0.95 else number(rng, 4)
    return b"RIFF" + struct.pack("<I", size) + made
