"""
Ways to change bytes that know nothing of their meaning; targets add those that do.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

#: Numbers at which something may begin or end.
EDGES: Final = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 47, 48, 49, 63, 64, 65, 71, 72),
    *(100, 127, 128, 129, 255, 256, 257, 512, 1000, 1024, 4095, 4096, 4097, 8191),
    *(8192, 8193, 32767, 32768, 65407, 65408, 65409, 65535, 65536, 65537),
    *(2**24, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1, 2**32, 2**53),
    *(2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1),
)
#: Bytes that mean something somewhere.
BYTES: Final = (
    b"\x00\x01\x02\x03\x04\x09\x0a\x0d\x20\x22\x2c\x2f\x3a\x5c\x7f\x80\xc0\xff"
)
#: Bytes of a piece that is left out, put in or copied.
PIECE_BYTES_MAX: Final = 64
#: How many changes an input gets; one says most about what it hit.
CHANGES: Final = (1, 1, 1, 2, 3, 5)


def number(rng: random.Random, width: int) -> int:
    """An unsigned integer of *width* bytes, mostly at an edge."""
    top = 1 << 8 * width
    if rng.random() < 0.2:
        return rng.randrange(top)
    return (rng.choice(EDGES) + rng.choice((0, 0, 0, -1, 1))) % top


def pack_number(rng: random.Random, width: int) -> bytes:
    """The same in bytes of either order."""
    return number(rng, width).to_bytes(width, rng.choice(("little", "little", "big")))


def _span(rng: random.Random, data: bytearray) -> tuple[int, int]:
    at = rng.randrange(len(data) + 1)
    return at, min(len(data), at + rng.randint(1, PIECE_BYTES_MAX))


def _flip(rng: random.Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _put(rng: random.Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice(BYTES)


def _put_number(rng: random.Random, data: bytearray) -> None:
    width = rng.choice((1, 2, 4, 4, 8))
    if len(data) >= width:
        at = rng.randrange(len(data) - width + 1)
        # Fields lie at multiples of their width, mostly.
        at -= at % width * (rng.random() < 0.7)
        data[at : at + width] = pack_number(rng, width)


def _add(rng: random.Random, data: bytearray) -> None:
    if len(data) >= 4:
        at = rng.randrange(len(data) - 3) & ~3
        value = struct.unpack_from("<I", data, at)[0] + rng.choice((-8, -1, 1, 8))
        struct.pack_into("<I", data, at, value % 2**32)


def _leave_out(rng: random.Random, data: bytearray) -> None:
    at, end = _span(rng, data)
    del data[at:end]


def _put_in(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(
        (rng.randbytes(rng.randint(1, 9)), bytes([rng.choice(BYTES)]))
    )


def _copy(rng: random.Random, data: bytearray) -> None:
    at, end = _span(rng, data)
    to = rng.randrange(len(data) + 1)
    data[to:to] = data[at:end] * rng.choice((1, 1, 1, 2, 40))


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1) :]


_CHANGES: Final[tuple[Callable[[random.Random, bytearray], None], ...]] = (
    *(_flip, _put, _put, _put_number, _put_number, _add),
    *(_leave_out, _put_in, _copy, _cut),
)


def changed(
    rng: random.Random,
    data: bytes,
    others: Sequence[bytes] = (),
    words: Sequence[bytes] = (),
) -> bytes:
    """
    *data* with some `CHANGES`.

    Args:
        others: Inputs of the same kind; the end of one may become this one's.
        words: What may be put in anywhere, or over what stands there.
    """
    made = bytearray(data)
    for _ in range(rng.choice(CHANGES)):
        drawn = rng.random()
        if words and drawn < 0.3:
            word = rng.choice(words)
            at = rng.randrange(len(made) + 1)
            made[at : at + len(word) * rng.randrange(2)] = word
        elif others and drawn < 0.35:
            other = rng.choice(others)
            made[rng.randrange(len(made) + 1) :] = other[
                rng.randrange(len(other) + 1) :
            ]
        else:
            rng.choice(_CHANGES)(rng, made)
    return bytes(made)
