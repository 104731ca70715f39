"""
The kernels' small integer tools, against Python's own.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.device.backend import copy_bytes, dev
from twisted_aotx.device.bits import (
    BITMAP_WORDS,
    add64,
    bitmap_clear,
    bitmap_from,
    bitmap_has,
    bitmap_set,
    keyed_hash,
    read32,
    read64,
    read64_first_highest,
    trailing_zeros,
    write32,
    write64,
)

MEMBERS = BITMAP_WORDS * 64
M64 = (1 << 64) - 1

words = st.integers(0, M64)
members = st.integers(0, MEMBERS - 1)


@given(st.lists(st.tuples(members, st.booleans())), st.integers(0, MEMBERS))
def test_bitmap_is_a_set(steps: list[tuple[int, bool]], start: int) -> None:
    """Members up to 1,023; the lowest at or above any start, or -1."""
    bitmap = np.zeros(BITMAP_WORDS + 1, np.uint64)
    expected: set[int] = set()
    for member, is_in in steps:
        (bitmap_set if is_in else bitmap_clear)(bitmap, member)
        (expected.add if is_in else expected.discard)(member)
        assert bitmap_has(bitmap, member) == is_in

    above = [member for member in expected if member >= start]
    assert bitmap_from(bitmap, start) == min(above, default=-1)


@pytest.mark.parametrize("bit", range(64))
def test_trailing_zeros(bit: int) -> None:
    assert trailing_zeros(np.uint64(1 << bit)) == bit
    assert trailing_zeros(np.uint64(M64 << bit & M64)) == bit


@given(st.binary(min_size=24, max_size=24), st.integers(0, 16), words)
def test_words_of_frames(data: bytes, at: int, word: int) -> None:
    """Little endian at any byte, without touching the others."""
    frame = np.frombuffer(data, np.uint8).copy()
    assert read32(frame, at) == int.from_bytes(data[at : at + 4], "little")
    assert read64(frame, at) == int.from_bytes(data[at : at + 8], "little")
    assert read64_first_highest(frame, at) == int.from_bytes(data[at : at + 8], "big")
    write64(frame, at, np.uint64(word))
    written = data[:at] + word.to_bytes(8, "little") + data[at + 8 :]
    assert frame.tobytes() == written
    write32(frame, at, word & 0xFFFFFFFF)
    assert frame.tobytes() == written


@given(words, words)
def test_sums_wrap(a: int, b: int) -> None:
    assert int(add64(np.uint64(a), np.uint64(b))) == (a + b) & M64


def _siphash_1_3(key: int, message: tuple[int, ...]) -> int:
    """SipHash-1-3 with both halves of its key the same, of whole words."""

    def rotate(value: int, count: int) -> int:
        return (value << count | value >> (64 - count)) & M64

    v = [
        key ^ int.from_bytes(text, "big")
        for text in (b"somepseu", b"dorandom", b"lygenera", b"tedbytes")
    ]

    def turn() -> None:
        v[0] = (v[0] + v[1]) & M64
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & M64
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & M64
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & M64
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    for word in (*message, 8 * len(message) << 56):
        v[3] ^= word
        turn()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        turn()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@given(words, st.tuples(words, words, words, words))
def test_keyed_hash_is_siphash(key: int, message: tuple[int, ...]) -> None:
    """What an index's place in device memory hangs on [D6]."""
    hashed = keyed_hash(np.uint64(key), *map(np.uint64, message))
    assert hashed == _siphash_1_3(key, message) >> 2


@dev
def _copy(target, at, source, start, size):  # type: ignore[no-untyped-def]
    copy_bytes(target, at, source, start, size, 0, 1)


@given(st.binary(min_size=40, max_size=40), st.data())
def test_copies(data: bytes, draw: st.DataObject) -> None:
    """Any part to any place; nothing at a size of 0 or less."""
    source = np.frombuffer(data, np.uint8)
    target = np.zeros(40, np.uint8)
    size = draw.draw(st.integers(-3, 40))
    at, start = (draw.draw(st.integers(0, 40 - max(0, size))) for _ in range(2))
    _copy(target, at, source, start, size)
    expected = bytearray(40)
    expected[at : at + max(0, size)] = data[start : start + max(0, size)]
    assert target.tobytes() == bytes(expected)
