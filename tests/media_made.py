"""
Small JPEGs and WAVs for tests, made on the spot: the same arguments, the same bytes.

JPEGs are Pillow's, WAVs are put together chunk by chunk, so that one chunk can be
another or be missing.
"""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterable
from typing import Final

import numpy as np
from PIL import Image

#: The last fourteen bytes of the sub-format GUID of every encoding with a tag.
GUID_TAIL: Final = bytes.fromhex("0000 00001000800000aa00389b71")
#: Encoding → (tag, bits of one value).
ENCODINGS: Final = {"pcm16": (1, 16), "float32": (3, 32)}
EXTENSIBLE: Final = 0xFFFE
#: Bytes of a whole comment segment, at least and at most: marker, length, text.
COMMENT_BYTES: Final = range(4, 65538)

Chunk = tuple[bytes, bytes]


def picture(width: int, height: int, mode: str = "RGB", seed: int = 1) -> Image.Image:
    """
    Coarse noise over a gradient: every coefficient occurs, and files stay small.
    """
    shape = (height, width) if mode == "L" else (height, width, 3)
    noise = np.random.default_rng(seed).integers(0, 64, shape)
    ramp = np.linspace(0, 191, width).astype(np.int64)
    ramp = ramp if mode == "L" else ramp[:, None]
    return Image.fromarray((noise + ramp).astype(np.uint8))


def make_jpeg(
    width: int = 24,
    height: int = 16,
    mode: str = "RGB",
    *,
    progressive: bool = False,
    sampling: str = "4:2:0",
    restart: int = 0,
    quality: int = 60,
    seed: int = 1,
) -> bytes:
    """
    A JFIF file.

    Args:
        mode: `RGB` or `L`.
        sampling: `4:4:4`, `4:2:2` or `4:2:0`; nothing in mode `L`.
        restart: Blocks (MCUs) between two restart markers, 0 for none.
    """
    out = io.BytesIO()
    extra = {} if mode == "L" else {"subsampling": sampling}
    picture(width, height, mode, seed).save(
        out,
        "JPEG",
        quality=quality,
        progressive=progressive,
        restart_marker_blocks=restart,
        **extra,
    )
    return out.getvalue()


def pad_jpeg(jpeg: bytes, size: int, seed: int = 1) -> bytes:
    """
    *jpeg* of Pillow with random comments behind its APP0, *size* bytes in all; they are
    as many as it has, or four more at least.
    """
    least, most = COMMENT_BYTES[0], COMMENT_BYTES[-1]
    left = size - len(jpeg)
    assert left == 0 or left >= least, left
    draw = random.Random(seed)
    comments = []
    while left:
        taken = min(left, most)
        if 0 < left - taken < least:
            taken -= least
        text = draw.randbytes(taken - least)
        comments.append(b"\xff\xfe" + struct.pack(">H", taken - 2) + text)
        left -= taken
    at = 4 + struct.unpack_from(">H", jpeg, 4)[0]
    return jpeg[:at] + b"".join(comments) + jpeg[at:]


def riff(chunks: Iterable[Chunk]) -> bytes:
    """
    A RIFF/WAVE file of *chunks*, each padded to an even length.
    """
    body = b"WAVE" + b"".join(
        name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
        for name, data in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def make_format(
    encoding: str = "pcm16",
    rate: int = 16000,
    channels: int = 1,
    *,
    size: int = 16,
    mask: int | None = None,
) -> bytes:
    """
    The body of a `fmt ` chunk of 16, 18 or 40 bytes; *mask* is the speakers' of 40.
    """
    tag, bits = ENCODINGS[encoding]
    block = channels * bits // 8
    head = EXTENSIBLE if size == 40 else tag
    body = struct.pack("<HHIIHH", head, channels, rate, rate * block, block, bits)
    if size == 18:
        body += struct.pack("<H", 0)
    if size == 40:
        speakers = (4 if channels == 1 else 3) if mask is None else mask
        body += struct.pack("<HHIH", 22, bits, speakers, tag) + GUID_TAIL
    return body


def make_samples(
    frames: int, encoding: str = "pcm16", channels: int = 1, seed: int = 1
) -> bytes:
    """
    Noise: the body of a `data` chunk. No frame's sum is 0.
    """
    drawn = np.random.default_rng(seed).integers(1, 8192, (frames, channels))
    if encoding == "pcm16":
        return drawn.astype("<i2").tobytes()
    return (drawn / 8192).astype("<f4").tobytes()


def make_wav(
    frames: int = 400,
    encoding: str = "pcm16",
    rate: int = 16000,
    channels: int = 1,
    *,
    format_size: int = 16,
    fact: bool = False,
    silent: bool = False,
    seed: int = 1,
) -> bytes:
    """
    A WAV file of *frames* frames.

    Args:
        encoding: `pcm16` or `float32`.
        rate: Hz.
        format_size: 16, 18 or 40 bytes of `fmt `.
        fact: With the chunk that repeats the number of frames.
        silent: All zero instead of noise.
    """
    samples = make_samples(frames, encoding, channels, seed)
    chunks = [
        (b"fmt ", make_format(encoding, rate, channels, size=format_size)),
        (b"data", bytes(len(samples)) if silent else samples),
    ]
    if fact:
        chunks.insert(1, (b"fact", struct.pack("<I", frames)))
    return riff(chunks)


#: Name → a source that must become ready, a few hundred bytes each.
JPEGS: Final = {
    "4:4:4": make_jpeg(sampling="4:4:4"),
    "4:2:2": make_jpeg(sampling="4:2:2"),
    "4:2:0": make_jpeg(),
    "grayscale": make_jpeg(mode="L"),
    "restarts": make_jpeg(40, 40, restart=2),
    "progressive 4:4:4": make_jpeg(progressive=True, sampling="4:4:4"),
    "progressive 4:2:2": make_jpeg(progressive=True, sampling="4:2:2"),
    "progressive 4:2:0": make_jpeg(progressive=True),
    "progressive grayscale": make_jpeg(mode="L", progressive=True),
    "progressive restarts": make_jpeg(40, 40, progressive=True, restart=2),
    "1x1": make_jpeg(1, 1),
}
WAVS: Final = {
    f"{encoding} {rate} Hz, {channels} channels, format of {size}": make_wav(
        2000, encoding, rate, channels, format_size=size, fact=size != 16
    )
    for encoding in ENCODINGS
    for rate in (16000, 44100, 48000)
    for channels in (1, 2)
    for size in (16, 18, 40)
}
