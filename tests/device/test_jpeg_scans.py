"""
Which scans a JPEG may have, in which order, and what becomes of any bytes at all.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from tests.device.content_harness import Judged, judge_jpeg
from tests.device.jpeg_surgery import (
    APP0,
    SOF0,
    SOF2,
    SOS,
    Segment,
    codes,
    put_together,
    quantiser,
    scan,
    take_apart,
)
from tests.media_made import JPEGS

#: Everything before the first scan; tables 0 and 1 of each kind.
TABLES = [
    next(each for each in take_apart(JPEGS["4:2:0"]) if each.code == APP0),
    *(quantiser(table) for table in (0, 1)),
    *(codes(kind, table, [1, 1, 1]) for kind in (0, 1) for table in (0, 1)),
]
COMPONENTS = bytes([1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1])
FRAME = bytes([8, 0, 16, 0, 24, 3]) + COMPONENTS
ALL = (1, 2, 3)


def baseline(*scans: Segment) -> bytes:
    return put_together([*TABLES, Segment(SOF0, FRAME), *scans])


def progressive(*scans: Segment) -> bytes:
    return put_together([*TABLES, Segment(SOF2, FRAME), *scans])


def dc(*names: int, bits: tuple[int, int] = (0, 0), tables: int = 0) -> Segment:
    return scan(names, (0, 0), bits, tables=tables)


def ac(
    name: int, first: int, last: int, bits: tuple[int, int] = (0, 0), tables: int = 0
) -> Segment:
    return scan((name,), (first, last), bits, tables=tables)


BASELINE_ACCEPTED = {
    "one for all": [scan(ALL)],
    "one each": [scan([1]), scan([2]), scan([3])],
    "one each, the last first": [scan([3]), scan([2]), scan([1])],
    "another order": [scan([2, 3, 1])],
    "two and one": [scan([1, 3]), scan([2])],
    "other tables": [scan(ALL, tables=0x11)],
    "no data": [scan(ALL, data=b"")],
}
BASELINE_REFUSED = {
    "no component": [scan([])],
    "four components": [scan([1, 2, 3, 3])],
    "an unknown one": [scan([1, 2, 4])],
    "one twice": [scan([1, 1, 2])],
    "one twice, apart": [scan([2, 1, 2])],
    "one in two scans": [scan([1, 2]), scan([2, 3])],
    "all twice": [scan(ALL), scan(ALL)],
    "from 1": [scan(ALL, (1, 63))],
    "to 62": [scan(ALL, (0, 62))],
    "to 64": [scan(ALL, (0, 64))],
    "DC alone": [scan(ALL, (0, 0))],
    "Ah 1": [scan(ALL, bits=(1, 0))],
    "Al 1": [scan(ALL, bits=(0, 1))],
    "DC table 4": [scan(ALL, tables=0x40)],
    "AC table 4": [scan(ALL, tables=0x04)],
    "no DC table": [scan(ALL, tables=0x20)],
    "no AC table": [scan(ALL, tables=0x02)],
    "a byte less": [Segment(SOS, scan(ALL).body[:-1])],
    "a byte more": [Segment(SOS, scan(ALL).body + b"\0")],
    "nothing": [Segment(SOS)],
    "three bytes": [Segment(SOS, b"\0\0\0")],
}
PROGRESSIVE_ACCEPTED = {
    "DC": [dc(*ALL)],
    "DC one by one": [dc(3), dc(1), dc(2)],
    "DC and AC": [dc(*ALL), ac(2, 1, 63), ac(1, 1, 63)],
    "AC of a component before DC of another": [dc(1), ac(1, 1, 63), dc(2, 3)],
    "bands": [dc(*ALL), ac(1, 6, 63), ac(1, 1, 5)],
    "a band of one": [dc(*ALL), ac(1, 63, 63)],
    "DC bit by bit": [
        dc(*ALL, bits=(0, 2)),
        dc(*ALL, bits=(2, 1)),
        dc(*ALL, bits=(1, 0)),
    ],
    "AC bit by bit": [
        dc(*ALL),
        ac(1, 1, 9, (0, 2)),
        ac(1, 1, 9, (2, 1)),
        ac(1, 1, 9, (1, 0)),
    ],
    "AC refined in parts": [
        dc(*ALL),
        ac(1, 1, 9, (0, 1)),
        ac(1, 5, 9, (1, 0)),
        ac(1, 1, 4, (1, 0)),
    ],
    "bands refined together": [
        dc(*ALL),
        ac(1, 1, 5, (0, 1)),
        ac(1, 6, 9, (0, 1)),
        ac(1, 1, 9, (1, 0)),
    ],
    "from bit 13": [dc(*ALL, bits=(0, 13)), ac(1, 1, 63, (0, 13))],
    "AC refined before DC": [
        dc(*ALL, bits=(0, 1)),
        ac(1, 1, 9, (0, 1)),
        ac(1, 1, 9, (1, 0)),
        dc(*ALL, bits=(1, 0)),
    ],
    "DC without an AC table": [dc(*ALL, tables=0x02)],
    "AC without a DC table": [dc(*ALL), ac(1, 1, 63, tables=0x20)],
    "DC refined without a table": [
        dc(*ALL, bits=(0, 1)),
        dc(*ALL, bits=(1, 0), tables=0x22),
    ],
}
PROGRESSIVE_REFUSED = {
    "no DC of one": [dc(1, 2)],
    "AC before DC": [ac(1, 1, 63), dc(*ALL)],
    "AC before its own DC": [dc(1), ac(2, 1, 63), dc(2, 3)],
    "AC of two": [dc(*ALL), scan([1, 2], (1, 63))],
    "DC and AC together": [scan(ALL)],
    "DC with AC 1": [dc(*ALL), scan([1], (0, 1))],
    "to 64": [dc(*ALL), ac(1, 1, 64)],
    "backwards": [dc(*ALL), ac(1, 5, 4)],
    "DC twice": [dc(*ALL), dc(1)],
    "AC twice": [dc(*ALL), ac(1, 1, 63), ac(1, 1, 63)],
    "bands overlap": [dc(*ALL), ac(1, 1, 5), ac(1, 5, 63)],
    "refined without a first pass": [dc(*ALL), ac(1, 1, 63, (1, 0))],
    "DC refined without a first pass": [dc(*ALL, bits=(1, 0))],
    "refined from another bit": [dc(*ALL, bits=(0, 2)), dc(*ALL, bits=(1, 0))],
    "a bit left out": [dc(*ALL, bits=(0, 2)), dc(*ALL, bits=(2, 0))],
    "refined upwards": [dc(*ALL, bits=(0, 1)), dc(*ALL, bits=(1, 2))],
    "refined to the same bit": [dc(*ALL, bits=(0, 1)), dc(*ALL, bits=(1, 1))],
    "refined twice": [
        dc(*ALL, bits=(0, 1)),
        dc(*ALL, bits=(1, 0)),
        dc(*ALL, bits=(1, 0)),
    ],
    "refined beyond its band": [dc(*ALL), ac(1, 1, 9, (0, 1)), ac(1, 1, 10, (1, 0))],
    "bands of two bits refined together": [
        dc(*ALL),
        ac(1, 1, 5, (0, 2)),
        ac(1, 6, 9, (0, 1)),
        ac(1, 1, 9, (2, 1)),
    ],
    "from bit 14": [dc(*ALL, bits=(0, 14))],
    "no DC table": [dc(*ALL, tables=0x20)],
    "no AC table": [dc(*ALL), ac(1, 1, 63, tables=0x02)],
    "no AC table to refine": [
        dc(*ALL),
        ac(1, 1, 9, (0, 1)),
        ac(1, 1, 9, (1, 0), tables=0x02),
    ],
    "table 4": [dc(*ALL, tables=0x40)],
}


@pytest.mark.parametrize("name", BASELINE_ACCEPTED)
def test_baseline_accepted(name: str) -> None:
    assert judge_jpeg(baseline(*BASELINE_ACCEPTED[name])) == Judged(0, 24, 16, 0, 70)


@pytest.mark.parametrize("name", BASELINE_REFUSED)
def test_baseline_refused(name: str) -> None:
    assert judge_jpeg(baseline(*BASELINE_REFUSED[name])) == Judged(5)


@pytest.mark.parametrize("name", PROGRESSIVE_ACCEPTED)
def test_progressive_accepted(name: str) -> None:
    source = progressive(*PROGRESSIVE_ACCEPTED[name])

    assert judge_jpeg(source) == Judged(0, 24, 16, 0, 70)


@pytest.mark.parametrize("name", PROGRESSIVE_REFUSED)
def test_progressive_refused(name: str) -> None:
    assert judge_jpeg(progressive(*PROGRESSIVE_REFUSED[name])) == Judged(5)


def test_a_quantiser_may_change_for_others_alone() -> None:
    """Between scans of a component its table holds the same, whichever its id."""
    again, other = quantiser(1), quantiser(1, 17)
    luma, chroma = dc(1), dc(2, 3)
    more = ac(2, 1, 63)

    assert judge_jpeg(progressive(luma, other, chroma)).status == 0
    assert judge_jpeg(progressive(luma, chroma, other, ac(1, 1, 63))).status == 0
    assert judge_jpeg(progressive(luma, chroma, again, more)).status == 0
    assert judge_jpeg(progressive(luma, chroma, other, again, more)).status == 0
    assert judge_jpeg(progressive(luma, chroma, other, more)).status == 5


BUDGETS = st.lists(st.integers(1, 700), min_size=1, max_size=6)
FLIPS = st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=4)


def flipped(source: bytes, flips: list[tuple[int, int]]) -> bytes:
    damaged = bytearray(source)
    for place, mask in flips:
        damaged[place % len(damaged)] ^= mask
    return bytes(damaged)


def in_turn(budgets: list[int]) -> Iterator[int]:
    return itertools.cycle(budgets)


@given(st.sampled_from(sorted(JPEGS)), FLIPS | st.just([]), BUDGETS)
@example("progressive restarts", [], [1])
def test_steps_do_not_matter(
    name: str, flips: list[tuple[int, int]], budgets: list[int]
) -> None:
    source = flipped(JPEGS[name], flips)

    assert judge_jpeg(source, in_turn(budgets)) == judge_jpeg(source)


def decode(source: bytes) -> tuple[int, int] | None:
    """What a decoder makes of it: its size, or None for a fault of its own."""
    try:
        with Image.open(io.BytesIO(source)) as image:
            image.load()
            return image.size
    except (OSError, SyntaxError):
        return None


@given(st.sampled_from(sorted(JPEGS)), FLIPS, st.integers(0, 2**20))
def test_damaged_bytes(name: str, flips: list[tuple[int, int]], end: int) -> None:
    """
    No byte beside the source is read or counts, and what is accepted is decoded as
    what it said to be, or refused by the decoder in its own words.
    """
    source = flipped(JPEGS[name], flips)
    for damaged in (source, source[: end % len(source)]):
        judged = judge_jpeg(damaged)

        assert judged == judge_jpeg(damaged, guard=0xD9)
        assert judged.status in {0, 5, 6}
        if judged.status == 0:
            assert decode(damaged) in {None, (judged.width, judged.height)}


@given(st.binary(max_size=300))
def test_any_bytes(tail: bytes) -> None:
    """Behind a valid start, and on their own."""
    head = progressive()[:-2]
    for source in (tail, b"\xff\xd8" + tail, head + tail, head + tail + b"\xff\xd9"):
        judged = judge_jpeg(source)

        assert judged == judge_jpeg(source, guard=0xD9)
        assert judged.status in {0, 5, 6}
