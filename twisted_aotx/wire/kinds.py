"""
The kinds of fields that records are made of, and the checks of their values.

Each function makes the metadata of one `attrs.field`; `layout` reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

#: The key of a `Kind` in the metadata of a field.
KIND: Final = "wire"


@attrs.frozen
class Kind:
    """
    How one field stands in the bytes.
    """

    offset: int
    #: Bytes.
    width: int
    #: One `struct` code, little-endian.
    code: str
    #: Raises ValueError, with the reason, for a value that the field cannot have.
    check: Callable[[Any], None]
    #: Value → what `struct` packs.
    encode: Callable[[Any], Any] = attrs.field(default=lambda value: value)
    #: What `struct` unpacked and its absolute offset → value. May raise ValueError.
    decode: Callable[[Any, int], Any] = attrs.field(default=lambda value, _: value)
    #: Applied to what a constructor is given.
    convert: Callable[[Any], Any] | None = None


def _integer(
    code: str, offset: int, low: int, high: int, *, nonzero: bool = False
) -> Mapping[str, Kind]:
    def check(value: Any) -> None:
        if type(value) is bool or not isinstance(value, int):
            raise ValueError("not an integer")
        if not low <= value <= high:
            raise ValueError(f"not within {low}..{high}")
        if nonzero and value == 0:
            raise ValueError("zero")

    return {KIND: Kind(offset, struct.calcsize(code), code, check)}


def u32(offset: int, *, low: int = 0, high: int = 2**32 - 1) -> Mapping[str, Kind]:
    """
    An unsigned 32-bit integer, *low* .. *high*.
    """
    return _integer("<I", offset, low, high)


def u64(offset: int, *, low: int = 0, high: int = 2**64 - 1) -> Mapping[str, Kind]:
    """
    An unsigned 64-bit integer, *low* .. *high*.
    """
    return _integer("<Q", offset, low, high)


def i32(
    offset: int, *, low: int = -(2**31), high: int = 2**31 - 1, nonzero: bool = False
) -> Mapping[str, Kind]:
    """
    A signed 32-bit integer, *low* .. *high*.
    """
    return _integer("<i", offset, low, high, nonzero=nonzero)


def to_f32(value: float) -> float:
    """
    *value* as an IEEE binary32 holds it.

    Raises:
        ValueError: not a number, or beyond the range of binary32.
    """
    if type(value) is bool or not isinstance(value, int | float):
        raise ValueError("not a number")
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise ValueError("too large for binary32") from None
    return rounded


def f32(offset: int) -> Mapping[str, Kind]:
    """
    An IEEE binary32; any bit pattern, NaN included. Rounded when the record is made.
    """

    def check(value: Any) -> None:
        to_f32(value)

    return {KIND: Kind(offset, 4, "<f", check, convert=to_f32)}


def raw(offset: int, width: int, *, nonzero: bool = False) -> Mapping[str, Kind]:
    """
    Exactly *width* bytes.
    """

    def check(value: Any) -> None:
        if not isinstance(value, bytes):
            raise ValueError("not bytes")
        if len(value) != width:
            raise ValueError(f"{len(value)} bytes instead of {width}")
        if nonzero and not any(value):
            raise ValueError("zero")

    return {KIND: Kind(offset, width, f"<{width}s", check)}


def coded(
    offset: int,
    width: int,
    *,
    check: Callable[[Any], None],
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
) -> Mapping[str, Kind]:
    """
    *width* bytes that stand for something else than themselves.
    """
    return {
        KIND: Kind(
            offset,
            width,
            f"<{width}s",
            check,
            encode,
            lambda value, _: decode(value),
        )
    }


def i32s(
    offset: int, count: int, *, check: Callable[[int], None]
) -> Mapping[str, Kind]:
    """
    Up to *count* signed 32-bit integers as a tuple, none of them twice or zero.

    The rest is zero. *check* raises ValueError for an integer that is not taken.
    """
    packer = struct.Struct(f"<{count}i")

    def check_all(values: Any) -> None:
        if not isinstance(values, tuple) or len(values) > count:
            raise ValueError(f"not a tuple of at most {count}")
        if len(set(values)) != len(values):
            raise ValueError("a number stands twice")
        for value in values:
            if type(value) is bool or not isinstance(value, int):
                raise ValueError("not an integer")
            check(value)

    def encode(values: tuple[int, ...]) -> bytes:
        return packer.pack(*values, *[0] * (count - len(values)))

    def decode(data: bytes) -> tuple[int, ...]:
        values = list(packer.unpack(data))
        while values and values[-1] == 0:
            values.pop()
        return tuple(values)

    return coded(offset, packer.size, check=check_all, encode=encode, decode=decode)
