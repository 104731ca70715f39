"""
Which JPEGs the kernels take, row by row of `device.md` §13, and what they tell of them.
"""

from __future__ import annotations

import io
import math
from fractions import Fraction

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.device.capacities import SMALL
from tests.device.content_harness import Judged, judge_jpeg
from tests.device.jpeg_surgery import (
    APP0,
    COM,
    DHT,
    DQT,
    DRI,
    EOI,
    SOF0,
    SOS,
    Segment,
    codes,
    edit,
    insert,
    put_together,
    quantiser,
    scan,
    swap,
    take_apart,
    with_size,
    without,
)
from tests.media_made import JPEGS, make_jpeg
from twisted_aotx.device.extent import image_rows, root_ceil, root_floor

COLOUR = JPEGS["4:2:0"]
GREY = JPEGS["grayscale"]
PROGRESSIVE = JPEGS["progressive 4:2:0"]
RESTARTS = make_jpeg(96, 96, restart=3)
JFIF = take_apart(COLOUR)[0]


def restarts(source: bytes) -> list[int]:
    """Where its restart markers are."""
    return [
        k
        for k in range(len(source) - 1)
        if source[k] == 0xFF and source[k + 1] >> 3 == 26
    ]


def at(source: bytes, place: int, *values: int) -> bytes:
    return source[:place] + bytes(values) + source[place + len(values) :]


def frame(
    *parts: tuple[int, int, int], code: int = SOF0, precision: int = 8
) -> Segment:
    """A frame header of 24 × 16 with components of (id, sampling, quantiser)."""
    flat = bytes(value for part in parts for value in part)
    return Segment(code, bytes([precision, 0, 16, 0, 24, len(parts)]) + flat)


YCC = (1, 0x22, 0), (2, 0x11, 1), (3, 0x11, 1)

ACCEPTED = {
    **JPEGS,
    "nine restarts and more": RESTARTS,
    "a comment": insert(COLOUR, SOF0, Segment(COM, b"made for a test")),
    "an empty comment": insert(COLOUR, SOF0, Segment(COM)),
    **{
        f"APP{n}": insert(COLOUR, DQT, Segment(APP0 + n, b"whatever"))
        for n in (3, 4, 13, 15)
    },
    "a thumbnail": swap(
        COLOUR, APP0, Segment(APP0, JFIF.body[:12] + b"\2\3" + b"t" * 18)
    ),
    "dots per cm": edit(COLOUR, APP0, 7, 2, 0x12, 0x34, 0x12, 0x34),
    "JFIF 1.255": edit(COLOUR, APP0, 6, 255),
    "JFIF twice": insert(COLOUR, DQT, JFIF),
    "grey without JFIF": without(GREY, APP0),
    "grey of any id": edit(edit(GREY, SOF0, 6, 77), SOS, 1, 77),
    "a table that nobody uses": insert(COLOUR, SOF0, quantiser(3), codes(1, 3, [1])),
    "two quantisers in one segment": swap(
        COLOUR, DQT, quantiser(3), Segment(DQT, quantiser(2).body + quantiser(0).body)
    ),
    "two codes in one segment": insert(
        COLOUR, SOS, codes(0, 2, [1, 1, 1], codes(1, 2, [0, 3]).body)
    ),
    "256 symbols": insert(COLOUR, SOS, codes(1, 3, [0] * 8 + [255, 1])),
    "one of sixteen bits": insert(COLOUR, SOS, codes(1, 3, [1] * 15 + [1])),
    "restarts switched off": insert(COLOUR, SOS, Segment(DRI, b"\0\0")),
    "each component in a scan": swap(
        COLOUR, SOS, scan([1]), scan([2], tables=0x11), scan([3], tables=0x11)
    ),
    "a quantiser written again": insert(
        PROGRESSIVE,
        SOS,
        *[each for each in take_apart(PROGRESSIVE) if each.code == DQT],
    ),
    "another quantiser after its last scan": swap(
        COLOUR, SOS, scan([1]), quantiser(0, 99), scan([2, 3], tables=0x11)
    ),
    "8192 wide": with_size(COLOUR, 8192, 41),
    "4194304 pixels": with_size(COLOUR, 2048, 2048),
    "200:1": with_size(COLOUR, 200, 1),
    "1:200": with_size(COLOUR, 41, 8192),
}

#: What is refused with status 5, unless another is named.
REFUSED = {
    # frame
    "nothing": b"",
    "one byte": b"\xff",
    "SOI alone": b"\xff\xd8",
    "no SOI": COLOUR[2:],
    "another first byte": at(COLOUR, 0, 0xFE),
    "another second byte": at(COLOUR, 1, 0xD9),
    "a byte after EOI": COLOUR + b"\0",
    "EOI twice": COLOUR + EOI,
    "no EOI": COLOUR[:-2],
    "half of EOI": COLOUR[:-1],
    "a byte between segments": COLOUR.replace(b"\xff\xc0", b"\0\xff\xc0"),
    "more marks than one": COLOUR.replace(b"\xff\xc0", b"\xff\xff\xc0"),
    "more marks than one behind data": COLOUR[:-2] + b"\xff\xff\xd9",
    "no scan": without(COLOUR, SOS),
    "no frame": without(COLOUR, SOF0),
    "nothing but a comment": put_together([Segment(COM)]),
    "a component without a scan": swap(COLOUR, SOS, scan([1]), scan([2], tables=0x11)),
    "frame after scan": put_together(
        [*take_apart(COLOUR)[:3], *take_apart(COLOUR)[4:], take_apart(COLOUR)[3]]
    ),
    # coding
    **{
        f"SOF{n}": COLOUR.replace(b"\xff\xc0", bytes([0xFF, 0xC0 + n]))
        for n in (1, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15)
    },
    "DAC": insert(COLOUR, SOS, Segment(0xCC, b"\0\0")),
    "12 bits": edit(COLOUR, SOF0, 0, 12),
    "two frames": insert(COLOUR, SOS, frame(*YCC)),
    # components
    "no component": swap(COLOUR, SOF0, frame()),
    "2 components": swap(COLOUR, SOF0, frame(*YCC[:2])),
    "4 components": swap(COLOUR, SOF0, frame(*YCC, (4, 0x11, 0))),
    "grey of 2×2": edit(GREY, SOF0, 7, 0x22),
    "grey of 0×1": edit(GREY, SOF0, 7, 0x01),
    "ids from 0": swap(COLOUR, SOF0, frame((0, 0x22, 0), (1, 0x11, 1), (2, 0x11, 1))),
    "ids R, G, B": swap(
        COLOUR, SOF0, frame((82, 0x11, 0), (71, 0x11, 0), (66, 0x11, 0))
    ),
    "ids in another order": swap(COLOUR, SOF0, frame(YCC[0], YCC[2], YCC[1])),
    "luma 1×2": edit(COLOUR, SOF0, 7, 0x12),
    "luma 4×1": edit(COLOUR, SOF0, 7, 0x41),
    "chroma 2×1": edit(COLOUR, SOF0, 10, 0x21),
    "red chroma 2×2": edit(COLOUR, SOF0, 13, 0x22),
    "quantiser 4": edit(COLOUR, SOF0, 8, 4),
    "frame too short": swap(COLOUR, SOF0, Segment(SOF0, frame(*YCC).body[:-1])),
    "frame too long": swap(COLOUR, SOF0, Segment(SOF0, frame(*YCC).body + b"\0")),
    "frame of five bytes": swap(COLOUR, SOF0, Segment(SOF0, b"\x08\0\x10\0\x18")),
    # colour and APP0
    "colour without JFIF": without(COLOUR, APP0),
    "JFIF after the scan": put_together([*take_apart(COLOUR)[1:], JFIF]),
    "JFIF of 13 bytes": swap(COLOUR, APP0, Segment(APP0, JFIF.body[:13])),
    "JFXX": insert(COLOUR, DQT, Segment(APP0, b"JFXX\0\x13" + bytes(8))),
    "AVI1": insert(COLOUR, DQT, Segment(APP0, b"AVI1\0" + bytes(9))),
    "JFIF without NUL": edit(COLOUR, APP0, 4, 1),
    "JFIF 0": edit(COLOUR, APP0, 5, 0),
    "JFIF 2": edit(COLOUR, APP0, 5, 2),
    "units 3": edit(COLOUR, APP0, 7, 3),
    "no density": edit(COLOUR, APP0, 8, 0, 0, 0, 0),
    "densities 1 and 2": edit(COLOUR, APP0, 8, 0, 1, 0, 2),
    "densities 256 and 1": edit(COLOUR, APP0, 8, 1, 0, 0, 1),
    "thumbnail missing": edit(COLOUR, APP0, 12, 1, 1),
    "thumbnail too long": swap(COLOUR, APP0, Segment(APP0, JFIF.body + b"\0")),
    "grey with bad JFIF": edit(GREY, APP0, 5, 2),
    # segments
    **{
        f"segment {code:02X}": insert(COLOUR, DQT, Segment(code, b"\0\0"))
        for code in (
            *(0xE1, 0xE2, 0xEE, 0xDC, 0x00, 0x01, 0x02, 0xBF, 0xC8, 0xD0),
            *(0xD7, 0xD8, 0xDE, 0xDF, 0xF0, 0xF7, 0xFD),
        )
    },
    "DNL after the scan": COLOUR[:-2] + b"\xff\xdc\0\4\0\x10" + EOI,
    "length 0": COLOUR.replace(b"\xff\xc0\0\x11", b"\xff\xc0\0\0"),
    "length 1": COLOUR.replace(b"\xff\xc0\0\x11", b"\xff\xc0\0\1"),
    "length past the end": COLOUR[:-2] + b"\xff\xfe\0\5ab",
    "length cut": COLOUR[:-2] + b"\xff\xfe\0",
    "DRI of 3 bytes": insert(COLOUR, SOS, Segment(DRI, b"\0\0\0")),
    "DRI of 1 byte": insert(COLOUR, SOS, Segment(DRI, b"\0")),
    # DQT
    "quantiser of 16 bits": swap(COLOUR, DQT, Segment(DQT, b"\x10" + b"\0\x10" * 64)),
    "quantiser id 4": insert(COLOUR, SOS, quantiser(4)),
    "quantiser entry 0": edit(COLOUR, DQT, 33, 0),
    "last quantiser entry 0": edit(COLOUR, DQT, 64, 0),
    "quantiser cut": swap(COLOUR, DQT, Segment(DQT, quantiser(0).body[:-1])),
    "quantiser and a byte": swap(COLOUR, DQT, Segment(DQT, quantiser(0).body + b"\1")),
    "empty DQT": insert(COLOUR, SOS, Segment(DQT)),
    "no quantiser": without(COLOUR, DQT),
    "quantiser changed between scans": put_together(
        [*take_apart(PROGRESSIVE)[:-1], quantiser(0, 7), take_apart(PROGRESSIVE)[-1]]
    ),
    # DHT
    "codes of class 2": insert(COLOUR, SOS, codes(2, 0, [1])),
    "codes with id 4": insert(COLOUR, SOS, codes(0, 4, [1])),
    "codes without symbols": insert(COLOUR, SOS, codes(0, 0, [0])),
    "257 symbols": insert(COLOUR, SOS, codes(1, 3, [0] * 8 + [255, 2])),
    "over-full codes": insert(COLOUR, SOS, codes(1, 3, [1, 2, 1])),
    "all ones of one bit": insert(COLOUR, SOS, codes(1, 3, [2])),
    "all ones of two bits": insert(COLOUR, SOS, codes(1, 3, [1, 2])),
    "all ones of sixteen bits": insert(COLOUR, SOS, codes(1, 3, [1] * 15 + [2])),
    "codes cut": insert(COLOUR, SOS, Segment(DHT, codes(1, 3, [1, 1]).body[:-1])),
    "counts cut": insert(COLOUR, SOS, Segment(DHT, codes(1, 3, [1, 1]).body[:16])),
    "codes and a byte": insert(COLOUR, SOS, codes(1, 3, [1], b"\0")),
    "empty DHT": insert(COLOUR, SOS, Segment(DHT)),
    "no codes": without(COLOUR, DHT),
    # entropy data
    "restart without an interval": without(RESTARTS, DRI),
    "restart 1 first": at(RESTARTS, restarts(RESTARTS)[0] + 1, 0xD1),
    "restart 0 twice": at(RESTARTS, restarts(RESTARTS)[1] + 1, 0xD0),
    "restart 8 by the interval of 8": at(RESTARTS, restarts(RESTARTS)[8] + 1, 0xD1),
    "FF and another byte": swap(GREY, SOS, scan([1], data=b"\x11\xff\x02\x11")),
    # size
    "no width": with_size(COLOUR, 0, 16),
    "no height": with_size(COLOUR, 24, 0),
    "8193 wide": with_size(COLOUR, 8193, 100),
    "8193 high": with_size(COLOUR, 100, 8193),
    "8193 wide, 1 high": with_size(COLOUR, 8193, 1),
    "4194304 pixels and a column": with_size(COLOUR, 2049, 2048),
}

NO_EXTENT = {
    "201:1": with_size(COLOUR, 201, 1),
    "1:201": with_size(COLOUR, 1, 201),
    "401:2": with_size(COLOUR, 401, 2),
}


def size_in(source: bytes) -> tuple[int, int]:
    """Width and height as Pillow reads them."""
    with Image.open(io.BytesIO(source)) as image:
        return image.size


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    """Every sampling, both codings, restarts, what is ignored (cases G 113)."""
    source = ACCEPTED[name]
    judged = judge_jpeg(source)

    assert judged.status == 0
    assert (judged.width, judged.height) == size_in(source)
    assert judged.rows == rows_of(judged.width, judged.height, SMALL.image_patches)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """Every rule broken once (cases G 115)."""
    assert judge_jpeg(REFUSED[name]) == Judged(5)


@pytest.mark.parametrize("name", NO_EXTENT)
def test_no_extent(name: str) -> None:
    assert judge_jpeg(NO_EXTENT[name]) == Judged(6)


@pytest.mark.parametrize("name", JPEGS)
def test_cut_anywhere(name: str) -> None:
    source = JPEGS[name]
    for part in range(16):
        assert judge_jpeg(source[: len(source) * part // 16]) == Judged(5)


def test_sizes_at_the_limits_and_past_them() -> None:
    """
    One pixel has 64 rows, 8,193 across are too many, 201 to 1 is no shape: cases G 116.
    """
    assert judge_jpeg(make_jpeg(1, 1)).rows == 64
    assert judge_jpeg(with_size(COLOUR, 8193, 100)).status == 5
    assert judge_jpeg(with_size(COLOUR, 201, 1)).status == 6

    small = attrs.evolve(SMALL, image_dimension=100, image_pixels=5000)
    sizes = {(100, 50): 0, (50, 100): 0, (101, 10): 5, (10, 101): 5, (72, 70): 5}
    for size, status in sizes.items():
        judged = judge_jpeg(with_size(COLOUR, *size), capacities=small)
        assert judged.status == status


def test_rows_beyond_the_reservation_are_no_extent() -> None:
    """A quarter of the patches is what is reserved for an image."""
    few = attrs.evolve(SMALL, image_patches=256)
    sizes = {(256, 256): 64, (1024, 1024): 64, (200, 199): 0, (8192, 41): 0}
    for size, rows in sizes.items():
        judged = judge_jpeg(with_size(COLOUR, *size), capacities=few)
        assert judged == (Judged(0, *size, 0, rows) if rows else Judged(6))


def test_an_extent_is_refused_last() -> None:
    """Everything else is status 5 before it, wherever it stands."""
    long = with_size(COLOUR, 201, 1)

    assert judge_jpeg(long).status == 6
    assert judge_jpeg(long + b"\0").status == 5
    assert judge_jpeg(edit(long, SOF0, 7, 0x12)).status == 5
    assert judge_jpeg(edit(long, APP0, 5, 2)).status == 5


def near(side: int) -> int:
    """The nearest multiple of 32, the even one of two, as `round` does it; ≥ 32."""
    return max(32, 32 * round(Fraction(side, 32)))


def scaled(side: int, other: int, area: int, *, up: bool) -> int:
    """The multiple of 32 below or above sqrt(area · side / other), by counting."""
    units = 0
    while Fraction((32 * (units + 1)) ** 2) <= Fraction(area * side, other):
        units += 1
    if up and Fraction((32 * units) ** 2) < Fraction(area * side, other):
        units += 1
    return 32 * max(1, units)


def rows_of(width: int, height: int, patches: int) -> int:
    """The formula of `device.md` §13, side by side."""
    area_max = min(16777216, patches * 256)
    wide, high = near(width), near(height)
    if wide * high > area_max:
        wide, high = (
            scaled(a, b, area_max, up=False)
            for a, b in ((width, height), (height, width))
        )
    elif wide * high < 65536:
        wide, high = (
            scaled(a, b, 65536, up=True) for a, b in ((width, height), (height, width))
        )
    return wide * high // 1024


@pytest.mark.parametrize(
    ("width", "height", "rows"),
    [
        (1, 1, 64),
        (32, 32, 64),
        (256, 256, 64),
        (272, 272, 64),  # 8.5 units are 8
        (304, 304, 100),  # 9.5 units are 10
        (200, 199, 72),  # 256.6 is past 8 units, 255.4 is not
        (24, 16, 70),
        (200, 1, 114),
        (1440, 1440, 2025),
        (2048, 2048, 2025),  # 1448.1 is not yet 46 units
        (8192, 41, 256),
    ],
)
def test_rows_by_hand(width: int, height: int, rows: int) -> None:
    assert image_rows(width, height, 8192) == rows == rows_of(width, height, 8192)


@given(
    st.integers(1, 65535),
    st.integers(1, 65535),
    st.integers(64, 16384).map(lambda quarter: 4 * quarter),
)
def test_rows_are_those_of_the_formula(width: int, height: int, patches: int) -> None:
    assert image_rows(width, height, patches) == rows_of(width, height, patches)


@given(st.integers(0, 2**40) | st.integers(0, 2**20).map(lambda root: root * root))
def test_whole_roots(number: int) -> None:
    assert root_floor(number) == math.isqrt(number)
    assert root_ceil(number) == math.isqrt(max(0, number - 1)) + (number > 0)
