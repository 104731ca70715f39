"""
The segments of a JPEG that come in one piece: APP0, SOF, DRI; and the tables of DQT
and DHT, one at a time (`device.md` §13).

Each function looks at what its segment holds, *size* bytes from byte *at* of P, and
answers a media status, 0 for none; those of tables the bytes that one takes, or -1.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.extent import image_rows, too_long
from twisted_aotx.device.jpeg_state import (
    COEFFICIENTS,
    COMPONENTS,
    REFUSED,
    TABLES,
    big16,
)

#: Bytes of a JFIF segment without its thumbnail.
JFIF_BYTES: Final = 14
#: "JFIF" and NUL.
_JFIF_HIGH: Final = 0x4A46
_JFIF_LOW: Final = 0x4946
#: Code lengths of a Huffman table, and the most symbols that it has.
CODE_LENGTHS: Final = 16
SYMBOLS_MAX: Final = 256


@dev
def jfif_segment(D: Any, P: Any, worker: Any, at: Any, size: Any) -> Any:
    """APP0: a valid JFIF head is what makes three components a colour."""
    if size < JFIF_BYTES:
        return REFUSED
    if big16(P, at) != _JFIF_HIGH or big16(P, at + 2) != _JFIF_LOW or P[at + 4] != 0:
        return REFUSED
    if P[at + 5] != 1 or P[at + 7] > 2:
        return REFUSED
    density = big16(P, at + 8)
    if density == 0 or density != big16(P, at + 10):
        return REFUSED
    if size != JFIF_BYTES + 3 * i64(P[at + 12]) * i64(P[at + 13]):
        return REFUSED
    D.jp_jfif[worker] = 1
    return 0


@dev
def restart_segment(D: Any, P: Any, worker: Any, at: Any, size: Any) -> Any:
    """DRI: how many MCUs lie between two restart markers, 0 for no markers."""
    if size != 2:
        return REFUSED
    D.jp_interval[worker] = big16(P, at)
    return 0


@dev
def _component(D: Any, P: Any, worker: Any, at: Any, n: Any, count: Any) -> Any:
    """Component *n* of *count*, three bytes at byte *at* of P; → status."""
    name = i64(P[at])
    sampling = i64(P[at + 1])
    quantiser = i64(P[at + 2])
    if quantiser >= TABLES:
        return REFUSED
    if count == COMPONENTS and name != n + 1:
        return REFUSED
    if count == COMPONENTS and n == 0:
        # luma: horizontal and vertical, a nibble each
        if sampling != 0x11 and sampling != 0x21 and sampling != 0x22:
            return REFUSED
    elif sampling != 0x11:
        return REFUSED
    D.jp_name[worker, n] = name
    D.jp_quantiser[worker, n] = quantiser
    return 0


@dev
def frame_segment(D: Any, P: Any, worker: Any, at: Any, size: Any) -> Any:
    """
    SOF0 or SOF2, which comes once: components and dimensions.
    """
    if D.jp_components[worker] != 0 or size < 6 or P[at] != 8:
        return REFUSED
    count = i64(P[at + 5])
    if (count != 1 and count != COMPONENTS) or size != 6 + 3 * count:
        return REFUSED
    for n in range(count):
        status = _component(D, P, worker, at + 6 + 3 * n, n, count)
        if status != 0:
            return status
    height = big16(P, at + 1)
    width = big16(P, at + 3)
    if width == 0 or height == 0 or max(width, height) > i64(D.image_dimension):
        return REFUSED
    if width * height > i64(D.image_pixels):
        return REFUSED
    D.jp_components[worker] = count
    D.jp_width[worker] = width
    D.jp_height[worker] = height
    D.jp_rows[worker] = image_rows(width, height, i64(D.image_patches))
    return 0


@dev
def has_extent(D: Any, worker: Any) -> Any:
    """1 if the frame is not too long, and its rows fit what is reserved for them."""
    if too_long(i64(D.jp_width[worker]), i64(D.jp_height[worker])) == 1:
        return 0
    return i64(4 * i64(D.jp_rows[worker]) <= i64(D.image_patches))


@dev
def quantiser_table(D: Any, P: Any, worker: Any, at: Any, size: Any) -> Any:
    """The first table of what is left of a DQT; → its bytes, or -1."""
    if size < 1 + COEFFICIENTS or P[at] >= TABLES:
        return -1
    table = i64(P[at])
    for k in range(COEFFICIENTS):
        entry = P[at + 1 + k]
        if entry == 0:
            return -1
        D.jp_table[worker, table, k] = entry
    return 1 + COEFFICIENTS


@dev
def code_table(D: Any, P: Any, worker: Any, at: Any, size: Any) -> Any:
    """
    The first table of what is left of a DHT; → its bytes, or -1.

    A code of length n takes 2^-n of all bit strings; the code of all ones is left free
    if the codes take less than all together.
    """
    if size < 1 + CODE_LENGTHS:
        return -1
    kind = i64(P[at]) >> 4
    table = i64(P[at]) & 15
    if kind > 1 or table >= TABLES:
        return -1
    symbols = i64(0)
    taken = i64(0)
    for n in range(CODE_LENGTHS):
        count = i64(P[at + 1 + n])
        symbols += count
        taken += count << (CODE_LENGTHS - 1 - n)
    if symbols < 1 or symbols > SYMBOLS_MAX or taken >= 1 << CODE_LENGTHS:
        return -1
    if size < 1 + CODE_LENGTHS + symbols:
        return -1
    D.jp_codes[worker, kind * TABLES + table] = 1
    return 1 + CODE_LENGTHS + symbols
