"""
Strict UTF-8, one byte at a time (`wire.md` §8).

The state is what the next byte must be: 0 a first byte; else
`need | low << 8 | high << 16`, with *need* continuation bytes left and the next one
within low..high. The bounds refuse overlong forms, surrogates and what lies above
U+10FFFF.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64

BROKEN = -1


@dev
def _expect(need: Any, low: Any, high: Any) -> Any:
    return i64(need) | (i64(low) << 8) | (i64(high) << 16)


@dev
def first_byte(byte: Any) -> Any:
    """The state after *byte* (128..255) at a boundary, or BROKEN."""
    if byte < 0xC2 or byte > 0xF4:
        return i64(BROKEN)
    if byte < 0xE0:
        return _expect(1, 0x80, 0xBF)
    if byte == 0xE0:
        return _expect(2, 0xA0, 0xBF)
    if byte == 0xED:
        return _expect(2, 0x80, 0x9F)
    if byte < 0xF0:
        return _expect(2, 0x80, 0xBF)
    if byte == 0xF0:
        return _expect(3, 0x90, 0xBF)
    if byte == 0xF4:
        return _expect(3, 0x80, 0x8F)
    return _expect(3, 0x80, 0xBF)


@dev
def next_state(state: Any, byte: Any) -> Any:
    """The state after *byte* in *state*, which expects one; 0 at a boundary."""
    if byte < ((state >> 8) & 255) or byte > (state >> 16):
        return i64(BROKEN)
    if (state & 255) == 1:
        return i64(0)
    return _expect((state & 255) - 1, 0x80, 0xBF)
