"""
Reserved markers in caller text (`device.md` §5).

The last sixteen rendered bytes are two u64, newest byte lowest. A marker counts when
its window touches a text byte, so one cut over parts or begun by a template is found
too. `age` is how many rendered bytes ago the last text byte was (0: it is the newest).
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64

#: What `seen_marker` found.
NO_MARKER = 0
MEDIA_LINK = 1
ENGINE_MARKER = 2

_TEXT = (
    (b"[image:", MEDIA_LINK),
    (b"[audio:", MEDIA_LINK),
    (b"<|vision_", ENGINE_MARKER),
    (b"<|image_pad|>", ENGINE_MARKER),
    (b"<|video_pad|>", ENGINE_MARKER),
    (b"<|audio_", ENGINE_MARKER),
    (b"<|AUDIO|>", ENGINE_MARKER),
)
_LONG = (1 << 64) - 1


def _words(marker: bytes) -> tuple[int, int, int, int]:
    """(low word, low mask, high word, high mask) of a marker at the end of a window."""
    value = int.from_bytes(marker, "big")
    mask = (1 << (8 * len(marker))) - 1
    return value & _LONG, mask & _LONG, value >> 64, mask >> 64


_LOW = tuple(u64(_words(text)[0]) for text, _ in _TEXT)
_LOW_MASK = tuple(u64(_words(text)[1]) for text, _ in _TEXT)
_HIGH = tuple(u64(_words(text)[2]) for text, _ in _TEXT)
_HIGH_MASK = tuple(u64(_words(text)[3]) for text, _ in _TEXT)
_SIZE = tuple(len(text) for text, _ in _TEXT)
_KIND = tuple(kind for _, kind in _TEXT)
_COUNT = len(_TEXT)

_EACH = 0x0101010101010101
_TOP_BITS = u64(0x80 * _EACH)
_LOW_BITS = u64(0x7F * _EACH)
_UNDERSCORES = u64(0x5F * _EACH)
#: `:` and `>` differ in bit 2 alone.
_COLONS = u64(0x3A * _EACH)
_NO_BIT_2 = u64(0xFB * _EACH)

#: No window that old touches text any more.
AGE_MAX = max(_SIZE)


@dev
def may_end_marker(byte: Any) -> Any:
    """1 for the bytes that markers end in: `:`, `_` and `>`."""
    if byte == 0x3A or byte == 0x5F or byte == 0x3E:
        return i64(1)
    return i64(0)


@dev
def is_plain(word: Any) -> Any:
    """1 if eight bytes are ASCII and none of them may end a marker, else 0."""
    if (word & _TOP_BITS) != u64(0):
        return i64(0)
    # Adding 0x7F sets the top bit of every byte that is not zero: not equal.
    others = ((word & _NO_BIT_2) ^ _COLONS) + _LOW_BITS
    others = others & ((word ^ _UNDERSCORES) + _LOW_BITS)
    if (others & _TOP_BITS) == _TOP_BITS:
        return i64(1)
    return i64(0)


@dev
def seen_marker(low: Any, high: Any, age: Any) -> Any:
    """Which kind of marker ends at the newest byte and touches text."""
    for n in range(_COUNT):
        if (
            age < _SIZE[n]
            and (low & _LOW_MASK[n]) == _LOW[n]
            and (high & _HIGH_MASK[n]) == _HIGH[n]
        ):
            return i64(_KIND[n])
    return i64(NO_MARKER)
