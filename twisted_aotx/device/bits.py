"""
Small integer tools of the kernels: bytes, bitmaps, keyed hashing.

A bitmap is 16 words of 64 bits and one summary word, enough for 1,024 entries; finding
the next member takes the same number of steps whatever the capacity (D6).
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64

#: Words of a bitmap: 16 × 64 = 1,024 entries, the most slots or channels [D7].
BITMAP_WORDS = 16

_ONE = u64(1)
_ZERO = u64(0)
_FULL = u64(0xFFFFFFFFFFFFFFFF)
_TOP = u64(1 << 63)
_REST = u64((1 << 63) - 1)


@dev
def read32(frame: Any, at: Any) -> Any:
    """The u32 at byte *at*, as i64."""
    return (
        i64(frame[at])
        | (i64(frame[at + 1]) << 8)
        | (i64(frame[at + 2]) << 16)
        | (i64(frame[at + 3]) << 24)
    )


@dev
def read64(frame: Any, at: Any) -> Any:
    """The u64 at byte *at*, as u64."""
    return u64(read32(frame, at)) | (u64(read32(frame, at + 4)) << u64(32))


@dev
def read64_first_highest(frame: Any, at: Any) -> Any:
    """
    Eight bytes from byte *at* as u64.

    Unsigned indexes: a signed one may count from the end, and looking at its sign keeps
    the compiler from reading all eight at once.
    """
    k = u64(at)
    return (
        (u64(frame[k]) << u64(56))
        | (u64(frame[k + u64(1)]) << u64(48))
        | (u64(frame[k + u64(2)]) << u64(40))
        | (u64(frame[k + u64(3)]) << u64(32))
        | (u64(frame[k + u64(4)]) << u64(24))
        | (u64(frame[k + u64(5)]) << u64(16))
        | (u64(frame[k + u64(6)]) << u64(8))
        | u64(frame[k + u64(7)])
    )


@dev
def write32(frame: Any, at: Any, value: Any) -> None:
    """Write the low 32 bits of i64 *value* at byte *at*."""
    frame[at] = value & 255
    frame[at + 1] = (value >> 8) & 255
    frame[at + 2] = (value >> 16) & 255
    frame[at + 3] = (value >> 24) & 255


@dev
def write64(frame: Any, at: Any, value: Any) -> None:
    """Write u64 *value* at byte *at*."""
    write32(frame, at, i64(value & u64(0xFFFFFFFF)))
    write32(frame, at + 4, i64(value >> u64(32)))


@dev
def trailing_zeros(word: Any) -> Any:
    """The index of the lowest set bit of a nonzero u64."""
    low = word & (~word + _ONE)
    count = i64(0)
    if (low & u64(0xFFFFFFFF00000000)) != _ZERO:
        count += 32
    if (low & u64(0xFFFF0000FFFF0000)) != _ZERO:
        count += 16
    if (low & u64(0xFF00FF00FF00FF00)) != _ZERO:
        count += 8
    if (low & u64(0xF0F0F0F0F0F0F0F0)) != _ZERO:
        count += 4
    if (low & u64(0xCCCCCCCCCCCCCCCC)) != _ZERO:
        count += 2
    if (low & u64(0xAAAAAAAAAAAAAAAA)) != _ZERO:
        count += 1
    return count


@dev
def bitmap_set(words: Any, member: Any) -> None:
    """Add *member* (0..1023); `words[16]` is the summary."""
    word = member >> 6
    words[word] = words[word] | (_ONE << u64(member & 63))
    words[BITMAP_WORDS] = words[BITMAP_WORDS] | (_ONE << u64(word))


@dev
def bitmap_clear(words: Any, member: Any) -> None:
    """Remove *member*."""
    word = member >> 6
    left = words[word] & ~(_ONE << u64(member & 63))
    words[word] = left
    if left == _ZERO:
        words[BITMAP_WORDS] = words[BITMAP_WORDS] & ~(_ONE << u64(word))


@dev
def bitmap_has(words: Any, member: Any) -> Any:
    """1 if *member* is in the bitmap, else 0."""
    return i64((words[member >> 6] >> u64(member & 63)) & _ONE)


@dev
def bitmap_from(words: Any, start: Any) -> Any:
    """The lowest member at or above *start* (0..1024), or -1."""
    if start >= BITMAP_WORDS * 64:
        return i64(-1)
    word = start >> 6
    here = words[word] & (_FULL << u64(start & 63))
    if here != _ZERO:
        return (word << 6) + trailing_zeros(here)
    above = words[BITMAP_WORDS] & ((_FULL << u64(word)) << _ONE)
    if above == _ZERO:
        return i64(-1)
    word = trailing_zeros(above)
    return (word << 6) + trailing_zeros(words[word])


@dev
def add64(a: Any, b: Any) -> Any:
    """a + b modulo 2^64; as plain Python, `+` would warn of the overflow."""
    return ((a & _REST) + (b & _REST)) ^ ((a ^ b) & _TOP)


@dev
def _rotate(value: Any, count: Any) -> Any:
    return (value << count) | (value >> (u64(64) - count))


@dev
def keyed_hash(key: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """
    SipHash-1-3 of four words, as i64 0..2^62-1.

    The ids are the client's, so the index is keyed with a secret drawn at start [D6].
    """
    v0 = key ^ u64(0x736F6D6570736575)
    v1 = key ^ u64(0x646F72616E646F6D)
    v2 = key ^ u64(0x6C7967656E657261)
    v3 = key ^ u64(0x7465646279746573)
    for turn in range(8):
        word = _ZERO
        if turn == 0:
            word = a
        elif turn == 1:
            word = b
        elif turn == 2:
            word = c
        elif turn == 3:
            word = d
        elif turn == 4:
            word = u64(32) << u64(56)
        if turn <= 4:
            v3 = v3 ^ word
        if turn == 5:
            v2 = v2 ^ u64(0xFF)
        v0 = add64(v0, v1)
        v1 = _rotate(v1, u64(13)) ^ v0
        v0 = _rotate(v0, u64(32))
        v2 = add64(v2, v3)
        v3 = _rotate(v3, u64(16)) ^ v2
        v0 = add64(v0, v3)
        v3 = _rotate(v3, u64(21)) ^ v0
        v2 = add64(v2, v1)
        v1 = _rotate(v1, u64(17)) ^ v2
        v2 = _rotate(v2, u64(32))
        if turn <= 4:
            v0 = v0 ^ word
    return i64((v0 ^ v1 ^ v2 ^ v3) >> u64(2))
