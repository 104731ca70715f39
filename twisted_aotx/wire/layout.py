"""
One declaration per record, which makes bytes of values and values of bytes.

A record is an attrs class whose fields carry a `Kind` in their metadata:

    @attrs.frozen(field_transformer=wire_fields)
    class Pair(Record):
        SIZE = 16

        first: int = attrs.field(metadata=u64(0))
        second: int = attrs.field(metadata=u32(8))

From it come packing, unpacking, offsets, size and the checks of every value.

Rules:
1. Offsets are written out, as the tables of `wire.md` have them. A byte that no field
   covers is reserved: packed as zero, and refused when it is not.
2. A field with `init=False` is fixed by the others (a schema number, a count): it is
   packed from the record and, when unpacked, must equal what the record makes of it.
3. A field without a kind is not in the record's own bytes (rows that follow it).
4. The same checks run in both directions: what we build wrong is a `LocalWireError`,
   what a peer sent wrong a `RemoteWireError`, with record, field and offset.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import attrs

from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.kinds import KIND, Kind


@attrs.frozen
class Layout:
    """
    Where everything of a record stands.
    """

    #: In ascending order of offset.
    fields: tuple[tuple[str, Kind], ...]
    #: (offset, width) of reserved bytes, ascending.
    gaps: tuple[tuple[int, int], ...]
    packer: struct.Struct
    fixed: frozenset[str]

    def field_at(self, offset: int) -> str:
        """
        The name of the field that covers the byte at *offset*, or `reserved`.
        """
        for name, kind in self.fields:
            if kind.offset <= offset < kind.offset + kind.width:
                return name
        return "reserved"


def _make_layout(name: str, size: int, fields: list[attrs.Attribute[Any]]) -> Layout:
    kinds = [(f.name, f.metadata[KIND]) for f in fields if KIND in f.metadata]
    kinds.sort(key=lambda pair: pair[1].offset)
    gaps: list[tuple[int, int]] = []
    code = "<"
    end = 0
    for field, kind in kinds:
        if kind.offset < end:
            raise TypeError(f"{name}.{field} overlaps the field before it")
        if kind.offset > end:
            gaps.append((end, kind.offset - end))
            code += f"{kind.offset - end}x"
        code += kind.code[1:]
        end = kind.offset + kind.width
    if end > size:
        raise TypeError(f"{name} needs {end} bytes, not {size}")
    if end < size:
        gaps.append((end, size - end))
        code += f"{size - end}x"
    packer = struct.Struct(code)
    if packer.size != size:
        raise TypeError(f"{name} packs to {packer.size} bytes, not {size}")
    fixed = frozenset(f.name for f in fields if KIND in f.metadata and not f.init)
    return Layout(tuple(kinds), tuple(gaps), packer, fixed)


def wire_fields(
    cls: type, fields: list[attrs.Attribute[Any]]
) -> list[attrs.Attribute[Any]]:
    """
    The attrs field transformer of every record: adds the checks, proves the layout.
    """
    _make_layout(cls.__name__, cls.SIZE, fields)  # type: ignore[attr-defined]  # Record
    return [
        _checked(cls.__name__, field, field.metadata[KIND])
        if KIND in field.metadata
        else field
        for field in fields
    ]


def _checked(
    record: str, field: attrs.Attribute[Any], kind: Kind
) -> attrs.Attribute[Any]:
    name = field.name

    def validate(_self: object, _attribute: object, value: Any) -> None:
        try:
            kind.check(value)
        except ValueError as error:
            raise LocalWireError(record, name, kind.offset, str(error)) from None

    def convert(value: Any) -> Any:
        assert kind.convert is not None
        try:
            return kind.convert(value)
        except ValueError as error:
            raise LocalWireError(record, name, kind.offset, str(error)) from None

    validators = [validate] if field.validator is None else [validate, field.validator]
    return field.evolve(
        validator=attrs.validators.and_(*validators),
        converter=field.converter if kind.convert is None else convert,
    )


@attrs.frozen
class Record:
    """
    Superclass of the records of fixed size. Never made directly.
    """

    #: Bytes.
    SIZE: ClassVar[int]

    def __attrs_post_init__(self) -> None:
        try:
            self.check()
        except BrokenRule as broken:
            raise self._local(broken.field, broken.reason) from None

    def check(self) -> None:
        """
        Check what involves several fields; called once each is right by itself.

        Raises:
            BrokenRule: they do not fit together.
        """

    def pack(self) -> bytes:
        """
        The `SIZE` bytes of this record.
        """
        layout = layout_of(type(self))
        return layout.packer.pack(
            *[kind.encode(getattr(self, name)) for name, kind in layout.fields]
        )

    @classmethod
    def unpack(cls, data: bytes, *, at: int = 0) -> Self:
        """
        Read exactly `SIZE` bytes. *at* is added to the offsets of errors.

        Raises:
            RemoteWireError: a length, a reserved byte or a value is wrong.
        """
        values = cls.unpack_values(data, at=at)
        return cls.from_values(values, at=at)

    @classmethod
    def unpack_values(cls, data: bytes, *, at: int = 0) -> dict[str, Any]:
        """
        The values of every field, not yet checked; length and reserved bytes are.
        """
        layout = layout_of(cls)
        if len(data) != cls.SIZE:
            raise RemoteWireError(
                cls.__name__,
                "length",
                at + min(len(data), cls.SIZE),
                f"{len(data)} bytes instead of {cls.SIZE}",
            )
        for offset, width in layout.gaps:
            gap = data[offset : offset + width]
            if any(gap):
                first = offset + width - len(gap.lstrip(b"\0"))
                raise RemoteWireError(
                    cls.__name__, "reserved", at + first, "must be zero"
                )
        values = {}
        for (name, kind), value in zip(
            layout.fields, layout.packer.unpack(data), strict=True
        ):
            try:
                values[name] = kind.decode(value, at + kind.offset)
            except ValueError as error:
                raise RemoteWireError(
                    cls.__name__, name, at + kind.offset, str(error)
                ) from None
        return values

    @classmethod
    def from_values(
        cls, values: Mapping[str, Any], *, at: int = 0, **others: Any
    ) -> Self:
        """
        Make a record of what `unpack_values` read, and of *others*.

        Raises:
            RemoteWireError: a value is wrong.
        """
        layout = layout_of(cls)
        given = {k: v for k, v in values.items() if k not in layout.fixed}
        try:
            made = cls(**given, **others)
        except LocalWireError as error:
            raise RemoteWireError(
                error.record, error.field, at + error.offset, error.reason
            ) from None
        for name, kind in layout.fields:
            if name in layout.fixed and values[name] != getattr(made, name):
                raise RemoteWireError(
                    cls.__name__,
                    name,
                    at + kind.offset,
                    "is not what the record asks for",
                )
        return made

    def _local(self, field: str, reason: str) -> LocalWireError:
        return LocalWireError(
            type(self).__name__, field, offset_of(type(self), field), reason
        )


class BrokenRule(Exception):
    """
    Raised by `Record.check`; becomes a `WireError`.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(field, reason)


_layouts: dict[type[Record], Layout] = {}


def layout_of(cls: type[Record]) -> Layout:
    """
    The layout of a record class.
    """
    layout = _layouts.get(cls)
    if layout is None:
        layout = _make_layout(cls.__name__, cls.SIZE, list(attrs.fields(cls)))
        _layouts[cls] = layout
    return layout


def offset_of(cls: type[Record], field: str) -> int:
    """
    Bytes from the start of the record to *field*; its end for what is no field.
    """
    for name, kind in layout_of(cls).fields:
        if name == field:
            return kind.offset
    return cls.SIZE


def nested(offset: int, inner: type[Record]) -> Mapping[str, Kind]:
    """
    A record within this one.
    """

    def check(value: Any) -> None:
        if not isinstance(value, inner):
            raise ValueError(f"not a {inner.__name__}")

    def encode(value: Record) -> bytes:
        return value.pack()

    return {
        KIND: Kind(
            offset,
            inner.SIZE,
            f"<{inner.SIZE}s",
            check,
            encode,
            lambda data, at: inner.unpack(data, at=at),
        )
    }
