"""
JPEGs taken apart into their segments, and put together again otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

SOI = b"\xff\xd8"
EOI = b"\xff\xd9"
SOF0, SOF2, DHT, SOS, DQT, DRI, APP0, COM = (
    *(0xC0, 0xC2, 0xC4, 0xDA, 0xDB),
    *(0xDD, 0xE0, 0xFE),
)


@attrs.frozen
class Segment:
    """
    A marker's code, what its segment holds, and the data of a scan behind it.
    """

    code: int
    body: bytes = b""
    data: bytes = b""

    def pack(self) -> bytes:
        """With a length that fits."""
        head = bytes([0xFF, self.code]) + (len(self.body) + 2).to_bytes(2, "big")
        return head + self.body + self.data

    def put(self, at: int, *values: int) -> Segment:
        """With other bytes from byte *at* of its body on."""
        body = bytearray(self.body)
        body[at : at + len(values)] = values
        return attrs.evolve(self, body=bytes(body))


def take_apart(source: bytes) -> list[Segment]:
    """The segments between SOI and EOI of a whole JPEG."""
    assert source[:2] == SOI
    assert source[-2:] == EOI
    found = []
    at = 2
    while at < len(source) - 2:
        code = source[at + 1]
        end = at + 2 + int.from_bytes(source[at + 2 : at + 4], "big")
        body = source[at + 4 : end]
        at = end
        if code == SOS:
            while source[end] != 0xFF or source[end + 1] in {0, *range(0xD0, 0xD8)}:
                end += 1
        found.append(Segment(code, body, source[at:end]))
        at = end
    return found


def put_together(segments: Iterable[Segment]) -> bytes:
    """A JPEG of them."""
    return SOI + b"".join(segment.pack() for segment in segments) + EOI


def first(segments: Sequence[Segment], code: int) -> int:
    """The index of the first segment with *code*."""
    return next(k for k, each in enumerate(segments) if each.code == code)


def edit(source: bytes, code: int, at: int, *values: int) -> bytes:
    """*source* with other bytes in its first segment with *code*."""
    segments = take_apart(source)
    index = first(segments, code)
    segments[index] = segments[index].put(at, *values)
    return put_together(segments)


def swap(source: bytes, code: int, *others: Segment) -> bytes:
    """*source* with *others* in the place of its first segment with *code*."""
    segments = take_apart(source)
    index = first(segments, code)
    segments[index : index + 1] = others
    return put_together(segments)


def insert(source: bytes, before: int, *others: Segment) -> bytes:
    """*source* with *others* before its first segment with code *before*."""
    segments = take_apart(source)
    index = first(segments, before)
    segments[index:index] = others
    return put_together(segments)


def without(source: bytes, *codes: int) -> bytes:
    """*source* without its segments with *codes*."""
    return put_together(each for each in take_apart(source) if each.code not in codes)


def with_size(source: bytes, width: int, height: int) -> bytes:
    """*source* with other dimensions in its frame header; the data stay."""
    code = SOF0 if any(s.code == SOF0 for s in take_apart(source)) else SOF2
    return edit(source, code, 1, *height.to_bytes(2, "big"), *width.to_bytes(2, "big"))


def scan(
    names: Sequence[int],
    band: tuple[int, int] = (0, 63),
    bits: tuple[int, int] = (0, 0),
    data: bytes = b"\x55",
    tables: int = 0x00,
) -> Segment:
    """SOS of components *names*, coefficients *band* and (Ah, Al) *bits*."""
    parts = b"".join(bytes([name, tables]) for name in names)
    end = bytes([*band, bits[0] << 4 | bits[1]])
    return Segment(SOS, bytes([len(names)]) + parts + end, data)


def codes(kind: int, table: int, counts: Sequence[int], more: bytes = b"") -> Segment:
    """DHT with one table of *counts* of codes per length from 1 on, then *more*."""
    full = [*counts, *[0] * (16 - len(counts))]
    symbols = bytes(k & 255 for k in range(sum(full)))
    return Segment(DHT, bytes([kind << 4 | table, *full]) + symbols + more)


def quantiser(table: int, entry: int = 16, precision: int = 0) -> Segment:
    """DQT with one table whose entries are all the same."""
    return Segment(DQT, bytes([precision << 4 | table]) + bytes([entry]) * 64)
