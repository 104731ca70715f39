"""
What the kernels say of a JPEG's markers and limits (`device.md` §13), on whole bytes.

Pixels are not looked at: that is the media worker's.
"""

from __future__ import annotations

import math
import struct

import attrs

OK, REFUSED, EXTENT = 0, 5, 6


@attrs.frozen
class Limits:
    """`image pixels`, `image dimension`, `image patches` of `wire.md` §13."""

    pixels: int
    dimension: int
    patches: int


@attrs.frozen
class Verdict:
    """The sizes count only with status 0."""

    status: int
    width: int = 0
    height: int = 0
    rows: int = 0


class _Refused(Exception):
    """A rule with status 5 is broken."""


def _demand(held: bool) -> None:
    if not held:
        raise _Refused


def judge(data: bytes, limits: Limits) -> Verdict:
    try:
        width, height = _Parser(data).parse()
        _demand(1 <= width <= limits.dimension and 1 <= height <= limits.dimension)
        _demand(width * height <= limits.pixels)
    except _Refused:
        return Verdict(REFUSED)
    if max(width, height) > 200 * min(width, height):
        return Verdict(EXTENT)
    rows = image_rows(width, height, limits.patches)
    if rows > limits.patches // 4:
        return Verdict(EXTENT)
    return Verdict(OK, width, height, rows)


def image_rows(width: int, height: int, patches: int) -> int:
    """The table's row `rows`."""
    most = min(16777216, patches * 256)
    wide, high = (max(32, 32 * round(side / 32)) for side in (width, height))
    if wide * high > most:
        wide, high = (
            32 * max(1, math.isqrt(most * side // other) // 32)
            for side, other in ((width, height), (height, width))
        )
    elif wide * high < 65536:
        wide, high = (
            32 * _ceil_root(65536 * side, 1024 * other)
            for side, other in ((width, height), (height, width))
        )
    return wide * high // 1024


def _ceil_root(numerator: int, denominator: int) -> int:
    """The smallest k with k² ≥ numerator / denominator."""
    k = math.isqrt(numerator // denominator)
    while k * k * denominator < numerator:
        k += 1
    return k


@attrs.define
class _Component:
    sampling: tuple[int, int]
    table: int
    #: The quantisation table of its first scan.
    quantised_by: bytes | None = None
    #: The low bit that each coefficient was coded down to; absent: not coded.
    low: dict[int, int] = attrs.field(factory=dict)


class _Parser:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 2
        self.progressive = False
        self.size: tuple[int, int] | None = None
        self.components: dict[int, _Component] = {}
        self.tables: dict[int, bytes] = {}
        self.codes: set[tuple[int, int]] = set()
        self.interval = 0
        self.has_jfif = False
        self.scans = 0

    def parse(self) -> tuple[int, int]:
        """Width and height."""
        _demand(self.data[:2] == b"\xff\xd8")
        while True:
            marker = self._marker()
            if marker == 0xD9:
                break
            self._segment(marker)
        _demand(self.at == len(self.data) and self.scans > 0)
        _demand(all(0 in c.low for c in self.components.values()))
        assert self.size is not None
        return self.size

    def _marker(self) -> int:
        _demand(len(self.data) - self.at >= 2 and self.data[self.at] == 0xFF)
        self.at += 2
        return self.data[self.at - 1]

    def _segment(self, marker: int) -> None:
        known = {
            0xC0: self._frame,
            0xC2: self._frame,
            0xC4: self._huffman,
            0xDA: self._scan,
            0xDB: self._quantisation,
            0xDD: self._restart_interval,
            0xE0: self._jfif,
        }
        ignored = (*range(0xE3, 0xEE), 0xEF, 0xFE)
        _demand(marker in known or marker in ignored)
        _demand(len(self.data) - self.at >= 2)
        (length,) = struct.unpack_from(">H", self.data, self.at)
        _demand(length >= 2 and self.at + length <= len(self.data))
        body = self.data[self.at + 2 : self.at + length]
        self.at += length
        if marker in known:
            self.progressive = self.progressive or marker == 0xC2
            known[marker](body)

    def _frame(self, body: bytes) -> None:
        _demand(self.size is None and len(body) >= 6)
        precision, height, width, count = struct.unpack_from(">BHHB", body)
        _demand(precision == 8 and count in (1, 3) and len(body) == 6 + 3 * count)
        for n in range(count):
            name, sampling, table = body[6 + 3 * n : 9 + 3 * n]
            _demand(table <= 3 and name not in self.components)
            self.components[name] = _Component((sampling >> 4, sampling & 15), table)
        samplings = [c.sampling for c in self.components.values()]
        if count == 1:
            _demand(samplings == [(1, 1)])
        else:
            _demand(list(self.components) == [1, 2, 3])
            _demand(samplings[0] in ((1, 1), (2, 1), (2, 2)))
            _demand(samplings[1:] == [(1, 1), (1, 1)])
        self.size = (width, height)

    def _jfif(self, body: bytes) -> None:
        _demand(len(body) >= 14 and body[:5] == b"JFIF\0")
        major, _, units, x, y, wide, high = struct.unpack_from(">BBBHHBB", body, 5)
        _demand(len(body) == 14 + 3 * wide * high)
        _demand(major == 1 and units <= 2 and x == y and x > 0)
        self.has_jfif = True

    def _quantisation(self, body: bytes) -> None:
        _demand(len(body) > 0 and len(body) % 65 == 0)
        for at in range(0, len(body), 65):
            table = body[at + 1 : at + 65]
            _demand(body[at] <= 3 and 0 not in table)
            self.tables[body[at]] = table

    def _huffman(self, body: bytes) -> None:
        _demand(len(body) > 0)
        while body:
            _demand(len(body) >= 17)
            kind, name = body[0] >> 4, body[0] & 15
            counts = body[1:17]
            _demand(kind <= 1 and name <= 3 and 1 <= sum(counts) <= 256)
            _demand(len(body) >= 17 + sum(counts))
            # In units of the longest code; all of them would use all ones.
            taken = sum(n << (15 - at) for at, n in enumerate(counts))
            _demand(taken < 1 << 16)
            self.codes.add((kind, name))
            body = body[17 + sum(counts) :]

    def _restart_interval(self, body: bytes) -> None:
        _demand(len(body) == 2)
        (self.interval,) = struct.unpack(">H", body)

    def _scan(self, body: bytes) -> None:
        _demand(self.size is not None and len(body) >= 1)
        count = body[0]
        _demand(1 <= count <= len(self.components) and len(body) == 4 + 2 * count)
        _demand(len(self.components) == 1 or self.has_jfif)
        first, last, approximation = body[1 + 2 * count :]
        high, low = approximation >> 4, approximation & 15
        names = []
        for n in range(count):
            name, codes = body[1 + 2 * n : 3 + 2 * n]
            _demand(name in self.components and name not in names)
            names.append(name)
            self._needs_codes(codes, first, high)
        if self.progressive:
            _demand(last == 0 if first == 0 else first <= last <= 63 and count == 1)
            _demand(low <= 13)
        else:
            _demand((first, last, high, low) == (0, 63, 0, 0))
        for name in names:
            self._cover(self.components[name], first, last, high, low)
        self.scans += 1
        self._entropy()

    def _needs_codes(self, codes: int, first: int, high: int) -> None:
        kinds = {0: codes >> 4, 1: codes & 15}
        _demand(max(kinds.values()) <= 3)
        if self.progressive:
            needed = [] if first == 0 and high else [int(first > 0)]
        else:
            needed = [0, 1]
        _demand(all((kind, kinds[kind]) in self.codes for kind in needed))

    def _cover(
        self, component: _Component, first: int, last: int, high: int, low: int
    ) -> None:
        table = self.tables.get(component.table)
        _demand(table is not None and component.quantised_by in (None, table))
        component.quantised_by = table
        _demand(first == 0 or 0 in component.low)
        for k in range(first, last + 1):
            if high == 0:
                _demand(k not in component.low)
            else:
                _demand(high == low + 1 and component.low.get(k) == high)
            component.low[k] = low

    def _entropy(self) -> None:
        restarts = 0
        while True:
            at = self.data.find(b"\xff", self.at)
            _demand(0 <= at < len(self.data) - 1)
            follower = self.data[at + 1]
            self.at = at
            if follower == 0:
                pass
            elif 0xD0 <= follower <= 0xD7:
                _demand(self.interval > 0 and follower == 0xD0 + restarts % 8)
                restarts += 1
            else:
                return
            self.at = at + 2
