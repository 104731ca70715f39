"""
Declarations that cannot be, and what a layout tells.
"""

from __future__ import annotations

import attrs
import pytest

from twisted_aotx.wire.kinds import to_f32, u32, u64
from twisted_aotx.wire.layout import Record, layout_of, offset_of, wire_fields


@attrs.frozen(field_transformer=wire_fields)
class _Pair(Record):
    SIZE = 16

    second: int = attrs.field(metadata=u32(8))
    first: int = attrs.field(metadata=u32(2))


def test_fields_stand_where_they_say_whatever_the_order_of_declaration() -> None:
    assert _Pair(second=0x0807, first=0x0403).pack().hex() == (
        "00000304000000000708000000000000"
    )


def test_a_layout_names_its_gaps_and_fields() -> None:
    layout = layout_of(_Pair)

    assert layout.gaps == ((0, 2), (6, 2), (12, 4))
    assert [layout.field_at(at) for at in (0, 2, 5, 6, 8, 15)] == [
        "reserved",
        "first",
        "first",
        "reserved",
        "second",
        "reserved",
    ]
    assert (offset_of(_Pair, "first"), offset_of(_Pair, "length")) == (2, 16)


def test_fields_that_overlap_are_refused_when_declared() -> None:
    with pytest.raises(TypeError, match="overlaps"):

        @attrs.frozen(field_transformer=wire_fields)
        class _Overlap(Record):
            SIZE = 16

            first: int = attrs.field(metadata=u64(0))
            second: int = attrs.field(metadata=u32(7))


def test_a_field_beyond_the_size_is_refused_when_declared() -> None:
    with pytest.raises(TypeError, match="needs 16 bytes, not 15"):

        @attrs.frozen(field_transformer=wire_fields)
        class _Long(Record):
            SIZE = 15

            first: int = attrs.field(metadata=u64(8))


def test_floats_are_those_of_binary32() -> None:
    assert to_f32(0.1) == 0.10000000149011612
    assert to_f32(1e-50) == 0.0
    assert to_f32(3) == 3.0
    with pytest.raises(ValueError, match="too large"):
        to_f32(3.5e38)
