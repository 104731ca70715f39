"""
Whether the samples of a WAV are finite, and whether there is anything to hear.

Samples are integers here, those of 32-bit floats too: a float is not finite if its
exponent is all ones, and two finite ones add up to 0 if they differ in the sign alone
or are both 0 of either sign. No sum of two floats that is not 0 rounds to 0.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.bits import read32


@dev
def read16(P: Any, at: Any) -> Any:
    """The little-endian u16 at byte *at*, as i64."""
    return i64(P[at]) | (i64(P[at + 1]) << 8)


@dev
def listen16(P: Any, at: Any, end: Any, channels: Any) -> Any:
    """1 if any frame of 16-bit values in bytes *at* .. *end* - 1 of P is heard."""
    for k in range(at, end, 2 * channels):
        value = read16(P, k)
        total = value - ((value & 0x8000) << 1)
        if channels == 2:
            value = read16(P, k + 2)
            total += value - ((value & 0x8000) << 1)
        if total != 0:
            return 1
    return 0


@dev
def listen32(P: Any, at: Any, end: Any, channels: Any) -> Any:
    """
    1 if any frame of 32-bit floats in bytes *at* .. *end* - 1 of P is heard, 0 if none
    is, -1 if a value is not finite.
    """
    heard = 0
    for k in range(at, end, 4 * channels):
        left = read32(P, k)
        right = i64(0)
        if channels == 2:
            right = read32(P, k + 4)
        if (left >> 23) & 255 == 255 or (right >> 23) & 255 == 255:
            return -1
        if ((left | right) & 0x7FFFFFFF) != 0 and (left ^ right) != 0x80000000:
            heard = 1
    return heard
