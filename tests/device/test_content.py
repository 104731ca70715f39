"""
The kernels' verdict on JPEGs and WAVs against the oracle's, on files that are changed a
little: a byte, a segment, the order of segments (`device.md` §13).
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.device.capacities import SMALL
from tests.device.content_harness import Judged, judge_jpeg, judge_wav
from tests.device.jpeg_surgery import Segment, put_together, take_apart
from tests.device.oracle import jpeg, wav
from tests.media_made import JPEGS, WAVS, make_wav, riff

_LIMITS = jpeg.Limits(SMALL.image_pixels, SMALL.image_dimension, SMALL.image_patches)
_SEGMENTS = [segment for source in JPEGS.values() for segment in take_apart(source)]

#: Values that mean something somewhere.
_values = st.one_of(
    st.integers(0, 255),
    st.sampled_from((0, 1, 2, 3, 4, 0x11, 0x22, 0xC0, 0xC2, 0xD0, 0xD9, 0xDA, 0xFF)),
)


@st.composite
def changed_bytes(draw: st.DrawFn, source: bytes, *, dense: int) -> bytes:
    """*source* with up to three other bytes, most of them before *dense*."""
    data = bytearray(source)
    for _ in range(draw(st.integers(0, 3))):
        last = draw(st.sampled_from((min(dense, len(data)), len(data))))
        data[draw(st.integers(0, last - 1))] = draw(_values)
    return bytes(data)


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """A JPEG whose segments are left out, repeated, swapped or another file's."""
    parts = list(take_apart(draw(st.sampled_from(sorted(JPEGS.values())))))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(parts)))
        kind = draw(st.sampled_from(("drop", "repeat", "swap", "other", "code")))
        if kind == "other" or not parts or at == len(parts):
            parts.insert(at, draw(st.sampled_from(_SEGMENTS)))
        elif kind == "drop":
            del parts[at]
        elif kind == "repeat":
            parts.insert(at, parts[at])
        elif kind == "swap":
            other = draw(st.integers(0, len(parts) - 1))
            parts[at], parts[other] = parts[other], parts[at]
        else:
            code = draw(st.integers(0xC0, 0xFE))
            parts[at] = Segment(code, parts[at].body, parts[at].data)
    return put_together(parts)


jpegs = st.one_of(
    st.sampled_from(sorted(JPEGS.values())).flatmap(
        lambda source: changed_bytes(source, dense=len(source))
    ),
    segments(),
    segments().flatmap(lambda source: changed_bytes(source, dense=len(source))),
    st.builds(
        lambda source, cut, more: source[: len(source) - cut] + more,
        st.sampled_from(sorted(JPEGS.values())),
        st.integers(0, 4),
        st.binary(max_size=3),
    ),
)


@given(source=jpegs)
def test_jpegs(source: bytes) -> None:
    """`device.md` §13, JPEG."""
    expected = jpeg.judge(source, _LIMITS)

    assert judge_jpeg(source) == Judged(
        expected.status, expected.width, expected.height, 0, expected.rows
    )


_CHUNKS = (
    (b"fact", b"\x90\x01\0\0"),
    (b"fact", b"abc"),
    (b"LIST", b"INFO"),
    (b"LIST", b"wavl"),
    (b"LIST", b"abc"),
    (b"plst", bytes(4)),
    (b"slnt", bytes(4)),
    (b"junk", b"odd"),
    (b"junk", b""),
)


@st.composite
def chunked(draw: st.DrawFn) -> bytes:
    """A WAV whose chunks are left out, repeated, swapped, or joined by others."""
    source = make_wav(400, fact=draw(st.booleans()), channels=draw(st.integers(1, 2)))
    chunks: list[tuple[bytes, bytes]] = []
    at = 12
    while at < len(source):
        size = int.from_bytes(source[at + 4 : at + 8], "little")
        chunks.append((source[at : at + 4], source[at + 8 : at + 8 + size]))
        at += 8 + size + size % 2
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(chunks)))
        kind = draw(st.sampled_from(("drop", "repeat", "swap", "other", "other")))
        if kind == "other" or not chunks or at == len(chunks):
            chunks.insert(at, draw(st.sampled_from(_CHUNKS)))
        elif kind == "drop":
            del chunks[at]
        elif kind == "repeat":
            chunks.insert(at, chunks[at])
        else:
            other = draw(st.integers(0, len(chunks) - 1))
            chunks[at], chunks[other] = chunks[other], chunks[at]
    return riff(chunks)


_edges = [
    make_wav(frames, encoding, rate, channels)
    for frames in (1, 320, 321, 322)
    for encoding in ("pcm16", "float32")
    for rate in (16000, 44100, 48000)
    for channels in (1, 2)
]

wavs = st.one_of(
    st.sampled_from(sorted(WAVS.values())).flatmap(
        lambda source: changed_bytes(source, dense=90)
    ),
    chunked(),
    chunked().flatmap(lambda source: changed_bytes(source, dense=90)),
    st.sampled_from(_edges),
    st.builds(
        lambda source, cut, more: source[: len(source) - cut] + more,
        st.sampled_from(_edges),
        st.integers(0, 4),
        st.binary(max_size=3),
    ),
)


@given(source=wavs)
def test_wavs(source: bytes) -> None:
    """`device.md` §13, WAV."""
    expected = wav.judge(source, SMALL.audio_frames)

    assert judge_wav(source) == Judged(
        expected.status, 0, 0, expected.samples, expected.rows
    )
