"""
Philox4x32-10, as Salmon, Moraes, Dror and Shaw define it (Random123).
"""

from __future__ import annotations

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox(counter: int, key: int) -> tuple[int, int, int, int]:
    """
    The four 32-bit output words of a 128-bit *counter* under a 64-bit *key*.

    Word 0 of both is the least significant.
    """
    c0, c1, c2, c3 = ((counter >> shift) & _LOW for shift in (0, 32, 64, 96))
    k0, k1 = key & _LOW, (key >> 32) & _LOW
    for _ in range(10):
        left = _MULTIPLIERS[0] * c0
        right = _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (right >> 32) ^ c1 ^ k0,
            right & _LOW,
            (left >> 32) ^ c3 ^ k1,
            left & _LOW,
        )
        k0 = (k0 + _WEYL[0]) & _LOW
        k1 = (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


def lease_seed(secret: int, sequence: int) -> int:
    """The seed that a lease of admission *sequence* gets (`device.md` §10)."""
    low, high, _, _ = philox(sequence, secret)
    return high << 32 | low
