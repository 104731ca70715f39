"""
Philox4x32-10, a counter-based random generator (Salmon et al., SC 2011), in kernels.

The same key and counter give the same words on every target, so what is drawn depends
on nothing but a lease's seed and a token's index. All words are uint64 that hold 32
bits: products of two stay below 2^64 and nothing wraps by itself.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, u64

#: Rounds; the 10 of the name.
PHILOX_ROUNDS = 10

_M32 = u64(0xFFFFFFFF)
_HALF = u64(32)
_MULTIPLIER_0 = u64(0xD2511F53)
_MULTIPLIER_1 = u64(0xCD9E8D57)
_WEYL_0 = u64(0x9E3779B9)
_WEYL_1 = u64(0xBB67AE85)


@dev
def philox4x32(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """
    The four output words of counter (*c0* .. *c3*) under key (*k0*, *k1*).

    Words in and out are u64 below 2^32.
    """
    for _ in range(PHILOX_ROUNDS):
        p0 = c0 * _MULTIPLIER_0
        p1 = c2 * _MULTIPLIER_1
        c0 = (p1 >> _HALF) ^ c1 ^ k0
        c1 = p1 & _M32
        c2 = (p0 >> _HALF) ^ c3 ^ k1
        c3 = p0 & _M32
        k0 = (k0 + _WEYL_0) & _M32
        k1 = (k1 + _WEYL_1) & _M32
    return c0, c1, c2, c3


@dev
def philox_u64(key: Any, counter: Any) -> Any:
    """
    64 random bits for u64 *key* and *counter*: the first two output words, low first.

    The key's halves are the key words, low first; the counter's the low counter words.
    """
    w0, w1, _, _ = philox4x32(
        counter & _M32, counter >> _HALF, u64(0), u64(0), key & _M32, key >> _HALF
    )
    return w0 | (w1 << _HALF)
