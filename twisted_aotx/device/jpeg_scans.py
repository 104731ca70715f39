"""
The scans of a JPEG: what each may hold after those before it, and where its data ends
(`device.md` §13).

Rules:
1. A scan has each of its components once.
2. A scan of SOF0 holds all coefficients of its components, which have had no scan.
3. A scan of SOF2 holds DC, or a band of AC of one component that has had a DC scan; it
   is the first of all its coefficients, or takes each from the bit that it is known to
   (Ah) to the next (Al = Ah - 1).
4. A scan's Huffman tables and quantisers are there before it, and a component's
   quantiser is the same in all its scans, whatever table held it.
5. In the data, 0xFF is followed by 0, or by the next restart number in order if there
   is a restart interval; by anything else it ends.
"""

from __future__ import annotations

from typing import Any, Final

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import read64_first_highest
from twisted_aotx.device.jpeg_state import (
    AT_DATA,
    AT_MARKER,
    COEFFICIENTS,
    COMPONENTS,
    REFUSED,
    TABLES,
)

#: The lowest bit that a first pass may leave out.
LOW_BIT_MAX: Final = 13
_LAST: Final = COEFFICIENTS - 1
_RESTART_0: Final = 0xD0
_RESTART_7: Final = 0xD7

_SEVEN_BITS = u64(0x7F7F7F7F7F7F7F7F)
_LOW_BITS = u64(0x0101010101010101)
_HIGH_BITS = u64(0x8080808080808080)
_NONE = u64(0)


@dev
def _find_component(D: Any, worker: Any, name: Any) -> Any:
    """The component with id *name*, or -1."""
    for n in range(i64(D.jp_components[worker])):
        if D.jp_name[worker, n] == name:
            return n
    return i64(-1)


@dev
def _keep_quantiser(D: Any, worker: Any, n: Any) -> Any:
    """1 if component *n* has the quantiser that it had before, or now its first."""
    table = i64(D.jp_quantiser[worker, n])
    if D.jp_table[worker, table, 0] == 0:
        return 0
    first = D.jp_used[worker, n, 0] == 0
    for k in range(COEFFICIENTS):
        entry = D.jp_table[worker, table, k]
        if first:
            D.jp_used[worker, n, k] = entry
        elif D.jp_used[worker, n, k] != entry:
            return 0
    return 1


@dev
def _advance(D: Any, worker: Any, n: Any, k: Any, high: Any, low: Any) -> Any:
    """1 if coefficient *k* of component *n* is known to bit *high*; now to *low*."""
    known = i64(D.jp_bit[worker, n, k])
    if high == 0 and known != -1:
        return 0
    if high != 0 and known != high:
        return 0
    D.jp_bit[worker, n, k] = low
    return 1


@dev
def _take_band(
    D: Any, worker: Any, n: Any, first: Any, last: Any, high: Any, low: Any
) -> Any:
    """1 if component *n* may have coefficients *first* .. *last* now, as rules 2, 3."""
    if first == 0:
        D.jp_direct[worker, n] = 1
    elif D.jp_direct[worker, n] == 0:
        return 0
    for k in range(first, last + 1):
        if _advance(D, worker, n, k, high, low) == 0:
            return 0
    return 1


@dev
def _has_codes(D: Any, worker: Any, ids: Any, first: Any, last: Any, high: Any) -> Any:
    """1 if the Huffman tables *ids* are valid and those that the band needs there."""
    direct = ids >> 4
    other = ids & 15
    if direct >= TABLES or other >= TABLES:
        return 0
    if first == 0 and high == 0 and D.jp_codes[worker, direct] == 0:
        return 0
    if last > 0 and D.jp_codes[worker, TABLES + other] == 0:
        return 0
    return 1


@dev
def _is_band(
    progressive: Any, count: Any, first: Any, last: Any, high: Any, low: Any
) -> Any:
    """1 if a scan of *count* components may hold such a band at all."""
    if progressive == 0:
        return i64(first == 0 and last == _LAST and high == 0 and low == 0)
    if first == 0:
        if last != 0:
            return i64(0)
    elif last < first or last > _LAST or count != 1:
        return i64(0)
    if high == 0:
        return i64(low <= LOW_BIT_MAX)
    return i64(low == high - 1)


@dev
def scan_segment(D: Any, P: Any, worker: Any, at: Any, size: Any) -> Any:
    """SOS, *size* bytes from byte *at* of P; → status."""
    components = i64(D.jp_components[worker])
    if components == 0 or (components == COMPONENTS and D.jp_jfif[worker] == 0):
        return REFUSED
    if size < 4:
        return REFUSED
    count = i64(P[at])
    if count < 1 or count > components or size != 4 + 2 * count:
        return REFUSED
    first = i64(P[at + 1 + 2 * count])
    last = i64(P[at + 2 + 2 * count])
    high = i64(P[at + 3 + 2 * count]) >> 4
    low = i64(P[at + 3 + 2 * count]) & 15
    progressive = i64(D.jp_progressive[worker])
    if _is_band(progressive, count, first, last, high, low) == 0:
        return REFUSED
    named = i64(0)
    for k in range(count):
        n = _find_component(D, worker, i64(P[at + 1 + 2 * k]))
        if n < 0 or (named >> n) & 1 == 1:
            return REFUSED
        named |= i64(1) << n
        ids = i64(P[at + 2 + 2 * k])
        if (
            _has_codes(D, worker, ids, first, last, high) == 0
            or _keep_quantiser(D, worker, n) == 0
            or _take_band(D, worker, n, first, last, high, low) == 0
        ):
            return REFUSED
    D.jp_restart[worker] = 0
    D.jp_phase[worker] = AT_DATA
    return 0


@dev
def _without_marks(P: Any, at: Any) -> Any:
    """Whether none of the eight bytes from byte *at* is 0xFF."""
    word = read64_first_highest(P, at)
    carried = (word & _SEVEN_BITS) + _LOW_BITS
    return word & carried & _HIGH_BITS == _NONE


@dev
def scan_data(D: Any, P: Any, worker: Any, offset: Any, size: Any, budget: Any) -> Any:
    """
    Pass over at most *budget* + 1 bytes of data from `jp_at` on; → (bytes, status).
    """
    start = offset + i64(D.jp_at[worker])
    end = offset + size
    limit = min(end, start + budget)
    at = start
    while at < limit:
        if at + 8 <= limit and _without_marks(P, at):
            at += 8
        elif P[at] != 0xFF:
            at += 1
        elif at + 1 == end:
            return at - start, REFUSED
        else:
            code = i64(P[at + 1])
            if _RESTART_0 <= code <= _RESTART_7:
                number = i64(D.jp_restart[worker])
                if D.jp_interval[worker] == 0 or code - _RESTART_0 != number:
                    return at - start, REFUSED
                D.jp_restart[worker] = (number + 1) & 7
            elif code != 0:
                D.jp_phase[worker] = AT_MARKER
                break
            at += 2
    D.jp_at[worker] = at - offset
    if at == end:
        return at - start, REFUSED
    return at - start, 0
