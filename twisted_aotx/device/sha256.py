"""
SHA-256 (FIPS 180-4), resumable, in kernels.

What the media stage calls; the columns `h_*` are indexed by descriptor:

| function | |
|---|---|
| `sha_start(D, index)` | nothing hashed |
| `sha_more(D, P, index, offset, available, budget)` | whole blocks; → bytes consumed |
| `sha_finish(D, P, index, offset, size)` | the rest and the padding |
| `sha_equals(state, digest)` | 1 if a finished state is these 32 bytes |

*offset* is where the source begins in P, *available* how many of its bytes are there,
*size* how many it has. `sha_more` takes at most *budget* bytes, and only whole blocks,
so it may leave less than 64 of either; `sha_finish` takes what is left, less than 64.

Another owner joins columns of its own (`sha_fields("o", count)`) and hands a row of
them to what works on eight words: `sha_reset`, `sha_blocks`, `sha_close`.

Words of 32 bits are u32; sums are u64 and cut to 32 bits, as plain Python wants it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twisted_aotx.device.backend import dev, i64, u32, u64

#: Bytes and words of one block, and bytes of a digest.
BLOCK_BYTES = 64
BLOCK_WORDS = 16
DIGEST_BYTES = 32
#: Bytes of the message's length, which ends the padding.
LENGTH_BYTES = 8

_M32 = u64(0xFFFFFFFF)


# fmt: off
#: The first 32 bits of the fractions of the cube roots of the first 64 primes.
_K = np.array(
    [
        0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1,
        0x923F82A4, 0xAB1C5ED5, 0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3,
        0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174, 0xE49B69C1, 0xEFBE4786,
        0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
        0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147,
        0x06CA6351, 0x14292967, 0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13,
        0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85, 0xA2BFE8A1, 0xA81A664B,
        0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
        0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A,
        0x5B9CCA4F, 0x682E6FF3, 0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208,
        0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2,
    ],
    np.uint32,
)
#: … and of the square roots of the first 8.
_START = np.array(
    [
        0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C,
        0x1F83D9AB, 0x5BE0CD19,
    ],
    np.uint32,
)
# fmt: on


def sha_fields(prefix: str, count: int) -> list[tuple[Any, ...]]:
    """The columns of *count* resumable hashes: eight words, and bytes hashed."""
    return [(f"{prefix}_state", "<u8", (count, 8)), (f"{prefix}_at", "<i8", (count,))]


@dev
def _turn(x: Any, low: Any, high: Any) -> Any:
    """*x* rotated right by *low*; *high* is 32 - *low*."""
    return u32((x >> low) | (x << high))


@dev
def _round(
    a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, w: Any, k: Any
) -> Any:
    """One round: the new values of *d* and *h*; *w* is the message word, *k* K."""
    high = (
        _turn(e, u32(6), u32(26))
        ^ _turn(e, u32(11), u32(21))
        ^ _turn(e, u32(25), u32(7))
    )
    low = (
        _turn(a, u32(2), u32(30))
        ^ _turn(a, u32(13), u32(19))
        ^ _turn(a, u32(22), u32(10))
    )
    choice = g ^ (e & (f ^ g))
    majority = (a & b) ^ (c & (a ^ b))
    first = u64(h) + u64(high) + u64(choice) + u64(k) + u64(w)
    return (
        u32((u64(d) + first) & _M32),
        u32((first + u64(low) + u64(majority)) & _M32),
    )


@dev
def _next(w: Any, w1: Any, w9: Any, w14: Any) -> Any:
    """The message word 16 after *w*."""
    s0 = _turn(w1, u32(7), u32(25)) ^ _turn(w1, u32(18), u32(14)) ^ u32(w1 >> u32(3))
    s1 = (
        _turn(w14, u32(17), u32(15))
        ^ _turn(w14, u32(19), u32(13))
        ^ u32(w14 >> u32(10))
    )
    return u32((u64(w) + u64(s0) + u64(w9) + u64(s1)) & _M32)


@dev
def _word(P: Any, at: Any, left: Any, k: Any, bits: Any) -> Any:
    """
    Word *k* of what is left of a message: *left* bytes from byte *at* of P, then 128
    and zeros, and in the last two words of the last block the message's *bits*.
    """
    if 4 * k + 4 <= left:
        byte = u64(at + 4 * k)
        return u32(
            (u64(P[byte]) << u64(24))
            | (u64(P[byte + u64(1)]) << u64(16))
            | (u64(P[byte + u64(2)]) << u64(8))
            | u64(P[byte + u64(3)])
        )
    last = i64(15)
    if left >= BLOCK_BYTES - LENGTH_BYTES:
        last = i64(31)
    if k == last:
        return u32(bits & _M32)
    if k == last - 1:
        return u32(bits >> u64(32))
    word = u64(0)
    for n in range(4 * k, 4 * k + 4):
        value = u64(0)
        if n < left:
            value = u64(P[at + n])
        elif n == left:
            value = u64(128)
        word = (word << u64(8)) | value
    return u32(word)


@dev
def _compress(state: Any, P: Any, at: Any, left: Any, k: Any, bits: Any) -> None:
    """Take the sixteen words from word *k* on into *state* (see `_word`)."""
    w0 = _word(P, at, left, k, bits)
    w1 = _word(P, at, left, k + 1, bits)
    w2 = _word(P, at, left, k + 2, bits)
    w3 = _word(P, at, left, k + 3, bits)
    w4 = _word(P, at, left, k + 4, bits)
    w5 = _word(P, at, left, k + 5, bits)
    w6 = _word(P, at, left, k + 6, bits)
    w7 = _word(P, at, left, k + 7, bits)
    w8 = _word(P, at, left, k + 8, bits)
    w9 = _word(P, at, left, k + 9, bits)
    w10 = _word(P, at, left, k + 10, bits)
    w11 = _word(P, at, left, k + 11, bits)
    w12 = _word(P, at, left, k + 12, bits)
    w13 = _word(P, at, left, k + 13, bits)
    w14 = _word(P, at, left, k + 14, bits)
    w15 = _word(P, at, left, k + 15, bits)
    a = u32(state[0])
    b = u32(state[1])
    c = u32(state[2])
    d = u32(state[3])
    e = u32(state[4])
    f = u32(state[5])
    g = u32(state[6])
    h = u32(state[7])
    for turn in range(4):
        r = u64(16 * turn)
        d, h = _round(a, b, c, d, e, f, g, h, w0, _K[r + u64(0)])
        c, g = _round(h, a, b, c, d, e, f, g, w1, _K[r + u64(1)])
        b, f = _round(g, h, a, b, c, d, e, f, w2, _K[r + u64(2)])
        a, e = _round(f, g, h, a, b, c, d, e, w3, _K[r + u64(3)])
        h, d = _round(e, f, g, h, a, b, c, d, w4, _K[r + u64(4)])
        g, c = _round(d, e, f, g, h, a, b, c, w5, _K[r + u64(5)])
        f, b = _round(c, d, e, f, g, h, a, b, w6, _K[r + u64(6)])
        e, a = _round(b, c, d, e, f, g, h, a, w7, _K[r + u64(7)])
        d, h = _round(a, b, c, d, e, f, g, h, w8, _K[r + u64(8)])
        c, g = _round(h, a, b, c, d, e, f, g, w9, _K[r + u64(9)])
        b, f = _round(g, h, a, b, c, d, e, f, w10, _K[r + u64(10)])
        a, e = _round(f, g, h, a, b, c, d, e, w11, _K[r + u64(11)])
        h, d = _round(e, f, g, h, a, b, c, d, w12, _K[r + u64(12)])
        g, c = _round(d, e, f, g, h, a, b, c, w13, _K[r + u64(13)])
        f, b = _round(c, d, e, f, g, h, a, b, w14, _K[r + u64(14)])
        e, a = _round(b, c, d, e, f, g, h, a, w15, _K[r + u64(15)])
        w0 = _next(w0, w1, w9, w14)
        w1 = _next(w1, w2, w10, w15)
        w2 = _next(w2, w3, w11, w0)
        w3 = _next(w3, w4, w12, w1)
        w4 = _next(w4, w5, w13, w2)
        w5 = _next(w5, w6, w14, w3)
        w6 = _next(w6, w7, w15, w4)
        w7 = _next(w7, w8, w0, w5)
        w8 = _next(w8, w9, w1, w6)
        w9 = _next(w9, w10, w2, w7)
        w10 = _next(w10, w11, w3, w8)
        w11 = _next(w11, w12, w4, w9)
        w12 = _next(w12, w13, w5, w10)
        w13 = _next(w13, w14, w6, w11)
        w14 = _next(w14, w15, w7, w12)
        w15 = _next(w15, w0, w8, w13)
    state[0] = (state[0] + u64(a)) & _M32
    state[1] = (state[1] + u64(b)) & _M32
    state[2] = (state[2] + u64(c)) & _M32
    state[3] = (state[3] + u64(d)) & _M32
    state[4] = (state[4] + u64(e)) & _M32
    state[5] = (state[5] + u64(f)) & _M32
    state[6] = (state[6] + u64(g)) & _M32
    state[7] = (state[7] + u64(h)) & _M32


@dev
def sha_reset(state: Any) -> None:
    """Make *state*, eight u64 words, that of nothing."""
    for k in range(8):
        state[k] = u64(_START[k])


@dev
def sha_blocks(state: Any, P: Any, at: Any, count: Any) -> None:
    """Take *count* whole blocks from byte *at* of P into *state*."""
    for block in range(count):
        _compress(state, P, at + block * BLOCK_BYTES, i64(BLOCK_BYTES), i64(0), u64(0))


@dev
def sha_close(state: Any, P: Any, at: Any, left: Any, size: Any) -> None:
    """
    Take the last *left* bytes (0..63), from byte *at* of P, and the padding of a
    message of *size* bytes: *state* is then its digest.
    """
    bits = u64(size) << u64(3)
    blocks = 2 if left >= BLOCK_BYTES - LENGTH_BYTES else 1
    for block in range(blocks):
        _compress(state, P, at, left, i64(block) * BLOCK_WORDS, bits)


@dev
def sha_equals(state: Any, digest: Any) -> Any:
    """1 if the finished *state* is the 32 bytes of row *digest*, else 0."""
    differs = u64(0)
    for k in range(DIGEST_BYTES):
        byte = (state[k >> 2] >> u64(24 - 8 * (k & 3))) & u64(255)
        differs = differs | (byte ^ u64(digest[k]))
    return i64(differs == u64(0))


@dev
def sha_start(D: Any, index: Any) -> None:
    """Nothing of the source of descriptor *index* is hashed yet."""
    sha_reset(D.h_state[index])
    D.h_at[index] = 0


@dev
def sha_more(
    D: Any, P: Any, index: Any, offset: Any, available: Any, budget: Any
) -> Any:
    """
    Hash what has arrived, in whole blocks; → bytes consumed, at most *budget*.

    The source begins at byte *offset* of P; *available* bytes of it are there.
    """
    at = i64(D.h_at[index])
    count = min(i64(available) - at, i64(budget)) // BLOCK_BYTES
    if count <= 0:
        return i64(0)
    sha_blocks(D.h_state[index], P, offset + at, count)
    D.h_at[index] = at + count * BLOCK_BYTES
    return count * BLOCK_BYTES


@dev
def sha_finish(D: Any, P: Any, index: Any, offset: Any, size: Any) -> None:
    """
    Hash the last bytes, fewer than 64, and the padding: at most two blocks.

    `D.h_state[index]` is then the digest of the whole source.
    """
    at = i64(D.h_at[index])
    sha_close(D.h_state[index], P, offset + at, i64(size) - at, size)
    D.h_at[index] = size
