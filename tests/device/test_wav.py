"""
Which WAVs the kernels take, row by row of `device.md` §13, and what they tell of them.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
import wave
from fractions import Fraction

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.device.capacities import SMALL
from tests.device.content_harness import Judged, judge_wav
from tests.media_made import (
    GUID_TAIL,
    WAVS,
    Chunk,
    make_format,
    make_samples,
    make_wav,
    riff,
)

FRAMES = 400
SAMPLES = make_samples(FRAMES)
FMT = (b"fmt ", make_format())
DATA = (b"data", SAMPLES)
STEREO = (b"fmt ", make_format(channels=2))
COUNT = struct.pack("<I", FRAMES)
WIDE = make_format(size=40)
READY = Judged(0, 0, 0, FRAMES, 1)

FORMAT, LENGTH, NOT_FINITE, SILENT = 10, 2, 11, 9


def put(body: bytes, at: int, value: bytes) -> Chunk:
    """A `fmt ` chunk with other bytes at *at*."""
    return b"fmt ", body[:at] + value + body[at + len(value) :]


def with_format(chunk: Chunk) -> bytes:
    return riff([chunk, DATA])


def u16(value: int) -> bytes:
    return struct.pack("<H", value)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def sized(source: bytes, off: int = 0) -> bytes:
    """With a RIFF size that fits, or is *off* by so much."""
    return source[:4] + u32(max(0, len(source) - 8 + off)) + source[8:]


def by_wave() -> bytes:
    """The standard library's own."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 16000, FRAMES, "NONE", ""))
        file.writeframes(SAMPLES)
    return out.getvalue()


ACCEPTED = {
    "of the standard library": by_wave(),
    "18 bytes of format": with_format((b"fmt ", make_format(size=18))),
    "40 bytes of format": with_format((b"fmt ", WIDE)),
    "40 bytes, no speakers": with_format((b"fmt ", make_format(size=40, mask=0))),
    "fact first": riff([(b"fact", COUNT), FMT, DATA]),
    "fact last": riff([FMT, DATA, (b"fact", COUNT)]),
    "fact of more bytes": riff([FMT, (b"fact", COUNT + b"abc"), DATA]),
    "chunks of others": riff(
        [(b"JUNK", b""), FMT, (b"bext", b"odd"), DATA, (b"id3 ", b"x")]
    ),
    "LIST of INFO": riff([FMT, (b"LIST", b"INFO"), DATA]),
    "list in small letters": riff([FMT, (b"list", b"wavl"), DATA]),
    "one value in all": riff([FMT, (b"data", bytes(798) + b"\1\0")]),
}

REFUSED = {
    "nothing": b"",
    "eleven bytes": riff([])[:11],
    "no chunks": riff([]),
    "RIFX": b"RIFX" + riff([FMT, DATA])[4:],
    "RF64": b"RF64" + riff([FMT, DATA])[4:],
    "not WAVE": riff([FMT, DATA]).replace(b"WAVE", b"AVI "),
    "RIFF size one less": sized(riff([FMT, DATA]), -1),
    "RIFF size one more": sized(riff([FMT, DATA]), 1),
    "a byte behind": riff([FMT, DATA]) + b"\0",
    "no format": riff([DATA]),
    "no data": riff([FMT]),
    "data before format": riff([DATA, FMT]),
    "two formats": riff([FMT, FMT, DATA]),
    "a format after the data": riff([FMT, DATA, FMT]),
    "two data": riff([FMT, DATA, DATA]),
    "empty data": riff([FMT, (b"data", b"")]),
    "half a frame": riff([FMT, (b"data", SAMPLES + b"\0")]),
    "half a frame of two channels": riff([STEREO, (b"data", SAMPLES + b"\0\0")]),
    "small letters": riff([(b"FMT ", FMT[1]), DATA]),
    # of a format
    "14 bytes of format": with_format((b"fmt ", FMT[1][:14])),
    "17 bytes of format": with_format((b"fmt ", FMT[1] + b"\0")),
    "20 bytes of format": with_format((b"fmt ", FMT[1] + bytes(4))),
    "extension of 18 bytes": with_format(put(make_format(size=18), 16, u16(22))),
    "40 bytes of tag 1": with_format(put(WIDE, 0, u16(1))),
    "16 bytes of tag FFFE": with_format(put(FMT[1], 0, u16(0xFFFE))),
    "18 bytes of tag FFFE": with_format(put(make_format(size=18), 0, u16(0xFFFE))),
    "extension of 40 bytes": with_format(put(WIDE, 16, u16(24))),
    "fewer valid bits": with_format(put(WIDE, 18, u16(12))),
    "left speaker": with_format(put(WIDE, 20, u32(1))),
    "mono with the speakers of stereo": with_format(put(WIDE, 20, u32(3))),
    "stereo with the speaker of mono": riff(
        [(b"fmt ", make_format(channels=2, size=40, mask=4)), DATA]
    ),
    "sub-format of A-law": with_format(put(WIDE, 24, u16(6))),
    "sub-format FFFE": with_format(put(WIDE, 24, u16(0xFFFE))),
    **{
        f"byte {at} of the GUID": with_format(put(WIDE, at, b"\x77"))
        for at in range(26, 26 + len(GUID_TAIL))
    },
    "A-law": with_format(put(FMT[1], 0, u16(6))),
    "ADPCM": with_format(put(FMT[1], 0, u16(2))),
    "tag 0": with_format(put(FMT[1], 0, u16(0))),
    "8 bits": with_format((b"fmt ", struct.pack("<HHIIHH", 1, 1, 16000, 16000, 1, 8))),
    "24 bits": riff(
        [
            (b"fmt ", struct.pack("<HHIIHH", 1, 1, 16000, 48000, 3, 24)),
            (b"data", bytes(range(1, 241)) * 5),
        ]
    ),
    "32 bits of tag 1": with_format(
        (b"fmt ", struct.pack("<HHIIHH", 1, 1, 16000, 64000, 4, 32))
    ),
    "16 bits of tag 3": with_format(put(FMT[1], 0, u16(3))),
    "64 bits of tag 3": with_format(
        (b"fmt ", struct.pack("<HHIIHH", 3, 1, 16000, 128000, 8, 64))
    ),
    **{
        f"{rate} Hz": with_format((b"fmt ", make_format(rate=rate)))
        for rate in (0, 8000, 15999, 22050, 96000)
    },
    "no channel": with_format((b"fmt ", make_format(channels=0))),
    "3 channels": riff(
        [(b"fmt ", make_format(channels=3)), (b"data", make_samples(400, channels=3))]
    ),
    "byte rate off by one": with_format(put(FMT[1], 8, u32(32001))),
    "block off by one": with_format(put(FMT[1], 12, u16(3))),
    # of other chunks
    "fact of another count": riff([FMT, (b"fact", u32(FRAMES - 1)), DATA]),
    "fact counts values": riff(
        [STEREO, (b"fact", COUNT), (b"data", make_samples(200, channels=2))]
    ),
    "fact of 3 bytes": riff([FMT, (b"fact", COUNT[:3]), DATA]),
    "fact twice": riff([FMT, (b"fact", COUNT), (b"fact", COUNT), DATA]),
    "fact last and wrong": riff([FMT, DATA, (b"fact", u32(FRAMES + 1))]),
    "plst": riff([FMT, DATA, (b"plst", bytes(4))]),
    "slnt": riff([FMT, DATA, (b"slnt", bytes(4))]),
    "LIST of 3 bytes": riff([FMT, (b"LIST", b"INF"), DATA]),
    "LIST of wavl": riff([FMT, (b"LIST", b"wavl" + bytes(8)), DATA]),
    "a chunk past the end": riff([FMT, DATA]).replace(u32(800), u32(802)),
    "seven bytes at the end": sized(riff([FMT, DATA]) + bytes(7)),
    "no pad byte": sized(riff([FMT, DATA, (b"JUNK", b"odd")])[:-1]),
    "no pad byte between": sized(
        riff([(b"JUNK", b"odd"), FMT, DATA]).replace(b"odd\0", b"odd")
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    assert judge_wav(ACCEPTED[name]) == READY


@pytest.mark.parametrize("name", WAVS)
def test_every_encoding(name: str) -> None:
    rate = int(name.split()[1])
    samples = math.ceil(Fraction(2000 * 16000, rate))

    assert judge_wav(WAVS[name]) == Judged(0, 0, 0, samples, rows_of(samples))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """Every rule broken once (cases G 118)."""
    assert judge_wav(REFUSED[name]) == Judged(FORMAT)


def rows_of(samples: int) -> int:
    """The formula of `device.md` §13."""
    mel = math.ceil(Fraction(samples, 160))
    keys = math.ceil(Fraction(mel, 2))
    return math.floor(Fraction(keys, 2))


@pytest.mark.parametrize("rate", [16000, 44100, 48000])
def test_shortest_and_longest(rate: int) -> None:
    """Over 320 samples at 16 kHz, and 30 s at most: cases G 119."""
    for frames in range(1, 1000):
        samples = -(-frames * 16000 // rate)
        if samples in (320, 321):
            judged = judge_wav(make_wav(frames, rate=rate))
            assert judged == (Judged(0, 0, 0, 321, 1) if samples > 320 else Judged(2))
    if rate == 16000:
        assert judge_wav(make_wav(320)) == Judged(LENGTH)
        assert judge_wav(make_wav(321)) == Judged(0, 0, 0, 321, 1)

    longest = 30 * rate
    assert judge_wav(make_wav(longest, rate=rate)) == Judged(0, 0, 0, 480000, 750)
    assert judge_wav(make_wav(longest + 1, rate=rate)) == Judged(LENGTH)


def test_capacities_of_frames_and_rows() -> None:
    few = attrs.evolve(SMALL, audio_frames=1000)
    assert judge_wav(make_wav(1000), capacities=few).status == 0
    assert judge_wav(make_wav(1001), capacities=few).status == LENGTH

    low = attrs.evolve(SMALL, audio_rows=2)
    assert judge_wav(make_wav(1600), capacities=low).rows == 2
    assert judge_wav(make_wav(1921), capacities=low).status == LENGTH


def pcm(*values: int, channels: int = 1) -> bytes:
    """Silence that ends with *values*."""
    quiet = [0] * (FRAMES * channels - len(values))
    body = struct.pack(f"<{FRAMES * channels}h", *quiet, *values)
    return riff([(b"fmt ", make_format(channels=channels)), (b"data", body)])


def floats(*words: int, channels: int = 1) -> bytes:
    """Silence that begins with floats of these bits."""
    body = struct.pack(f"<{len(words)}I", *words)
    body += bytes(4 * FRAMES * channels - len(body))
    chunk = b"fmt ", make_format("float32", channels=channels)
    return riff([chunk, (b"data", body)])


ONE, MINUS_ONE, ZERO, MINUS_ZERO = 0x3F800000, 0xBF800000, 0, 0x80000000
TINY, MINUS_TINY, LARGEST = 1, 0x80000001, 0x7F7FFFFF
INFINITE, MINUS_INFINITE, NAN = 0x7F800000, 0xFF800000, 0x7F800001

SIGNALS = {
    "zeros": (pcm(), SILENT),
    "the last value": (pcm(1), 0),
    "the least value": (pcm(-32768), 0),
    "two channels of zeros": (pcm(channels=2), SILENT),
    "opposite channels": (pcm(5, -5, -7, 7, channels=2), SILENT),
    "unlike channels": (pcm(5, -5, -7, 8, channels=2), 0),
    "one channel": (pcm(0, 3, channels=2), 0),
    "twice the least value": (pcm(-32768, -32768, channels=2), 0),
    "least and largest": (pcm(-32768, 32767, channels=2), 0),
    "opposite frames": (pcm(5, -5), 0),
    "float zeros": (floats(), SILENT),
    "zeros of both signs": (floats(MINUS_ZERO, ZERO), SILENT),
    "a tiny float": (floats(TINY), 0),
    "the largest float": (floats(LARGEST), 0),
    "opposite floats": (floats(ONE, MINUS_ONE, MINUS_ONE, ONE, channels=2), SILENT),
    "opposite tiny floats": (floats(TINY, MINUS_TINY, channels=2), SILENT),
    "channels of zeros of both signs": (
        floats(ZERO, MINUS_ZERO, MINUS_ZERO, MINUS_ZERO, channels=2),
        SILENT,
    ),
    "almost opposite floats": (floats(ONE, MINUS_ONE + 1, channels=2), 0),
    "equal floats": (floats(ONE, ONE, channels=2), 0),
    "tiny and zero": (floats(TINY, MINUS_ZERO, channels=2), 0),
    "infinite": (floats(ZERO, INFINITE), NOT_FINITE),
    "not a number": (floats(NAN), NOT_FINITE),
    "not a number in the right channel": (floats(ONE, NAN, channels=2), NOT_FINITE),
    "opposite infinities": (floats(INFINITE, MINUS_INFINITE, channels=2), NOT_FINITE),
    "heard before it is infinite": (floats(ONE, MINUS_INFINITE), NOT_FINITE),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_signals(name: str) -> None:
    source, status = SIGNALS[name]

    assert judge_wav(source) == (Judged(status) if status else READY)


def test_which_status_comes_first() -> None:
    """10, then 2, then 11, then 9."""
    bad = struct.pack("<I", NAN)
    form = b"fmt ", make_format("float32")
    long, short = (b"data", bad * 480001), (b"data", bad * 320)
    plain = b"data", bad * FRAMES

    for data in (long, short, plain):
        assert judge_wav(riff([form, data, (b"plst", b"")])).status == FORMAT
        assert judge_wav(riff([form, data, (b"fact", u32(7))])).status == FORMAT
    assert judge_wav(riff([form, long])).status == LENGTH
    assert judge_wav(riff([form, short])).status == LENGTH
    assert judge_wav(riff([form, plain])).status == NOT_FINITE
    assert judge_wav(riff([FMT, (b"data", bytes(640))])).status == LENGTH


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=5), st.data())
def test_a_frame_is_silent_if_its_channels_add_up_to_zero(
    frames: list[tuple[float, float]], data: st.DataObject
) -> None:
    """As a float sum of the two says it."""
    opposite = data.draw(st.lists(st.booleans(), min_size=5, max_size=5))
    pairs = [(a, -a if o else b) for (a, b), o in zip(frames, opposite, strict=False)]
    words = np.array(pairs, "<f4")
    body = words.tobytes() + bytes(8 * FRAMES - 8 * len(pairs))
    source = riff([(b"fmt ", make_format("float32", channels=2)), (b"data", body)])
    with np.errstate(over="ignore"):
        silent = not (words[:, 0] + words[:, 1]).any()

    assert judge_wav(source).status == (SILENT if silent else 0)


TAMED = {
    **ACCEPTED,
    **{name: source for name, (source, _) in SIGNALS.items()},
}
BUDGETS = st.lists(st.integers(1, 300), min_size=1, max_size=6)
FLIPS = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 255)), max_size=3)


@given(st.sampled_from(sorted(TAMED)), FLIPS, BUDGETS)
def test_steps_do_not_matter(
    name: str, flips: list[tuple[int, int]], budgets: list[int]
) -> None:
    """Nor do bytes beside the source."""
    damaged = bytearray(TAMED[name])
    for place, mask in flips:
        damaged[place] ^= mask
    source = bytes(damaged)

    assert judge_wav(source, itertools.cycle(budgets), guard=0) == judge_wav(source)


@given(st.binary(max_size=120), st.integers(0, 900))
def test_any_bytes(tail: bytes, end: int) -> None:
    """On their own, as chunks, and whole files cut."""
    chunk = tail[:4].ljust(4), tail
    for source in (tail, riff([FMT]) + tail, by_wave()[:end], riff([FMT, DATA, chunk])):
        for each in (source, sized(source)):
            judged = judge_wav(each)

            assert judged == judge_wav(each, guard=0)
            assert judged == READY or judged.status in {FORMAT, LENGTH, SILENT}
