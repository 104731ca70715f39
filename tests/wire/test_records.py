"""
What holds for every record: length, reserved bytes, ranges, both directions.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import attrs
import pytest

from tests.wire.samples import SAMPLES, name_of
from twisted_aotx import wire
from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.kinds import Kind
from twisted_aotx.wire.layout import Record, layout_of

each_record = pytest.mark.parametrize("record", SAMPLES, ids=name_of)


def kinds(*, fixed: bool) -> list[Any]:
    """
    The fields of every sample with their kinds: those that the record fixes by itself,
    or those that a caller gives.
    """
    return [
        pytest.param(record, name, kind, id=f"{name_of(record)}.{name}")
        for record in SAMPLES
        for name, kind in layout_of(type(record)).fields
        if (name in layout_of(type(record)).fixed) is fixed
    ]


def patched(data: bytes, offset: int, piece: bytes) -> bytes:
    return data[:offset] + piece + data[offset + len(piece) :]


def test_every_record_class_has_a_sample() -> None:
    for module in pkgutil.iter_modules(wire.__path__):
        importlib.import_module(f"twisted_aotx.wire.{module.name}")
    names = {
        cls.__name__
        for cls in Record.__subclasses__()
        if cls.__module__.startswith("twisted_aotx.")
    }

    assert names == {name_of(record) for record in SAMPLES}


@each_record
def test_pack_and_unpack_are_inverse(record: Record) -> None:
    data = record.pack()

    assert len(data) == type(record).SIZE
    assert type(record).unpack(data) == record


@each_record
def test_every_other_length_is_refused(record: Record) -> None:
    data = record.pack()
    longer = [data + bytes(1), data + data]
    for other in [data[:size] for size in range(len(data))] + longer:
        with pytest.raises(RemoteWireError) as caught:
            type(record).unpack(other, at=1000)

        assert caught.value.field == "length"
        assert caught.value.offset == 1000 + min(len(other), len(data))
        assert caught.value.record == name_of(record)


@each_record
def test_every_reserved_byte_must_be_zero(record: Record) -> None:
    data = record.pack()
    for offset, width in layout_of(type(record)).gaps:
        for at in range(offset, offset + width):
            assert data[at] == 0
            for value in (1, 128, 255):
                with pytest.raises(RemoteWireError) as caught:
                    type(record).unpack(patched(data, at, bytes([value])))

                assert (caught.value.field, caught.value.offset) == ("reserved", at)


@pytest.mark.parametrize(("record", "name", "kind"), kinds(fixed=True))
def test_what_a_record_fixes_by_itself_cannot_differ(
    record: Record, name: str, kind: Kind
) -> None:
    data = record.pack()
    for at in range(kind.offset, kind.offset + kind.width):
        with pytest.raises(RemoteWireError) as caught:
            type(record).unpack(patched(data, at, bytes([data[at] ^ 64])))

        # A count that is off shows as a length that is.
        assert caught.value.field in {name, "length"}
        assert caught.value.record == name_of(record)


@pytest.mark.parametrize(("record", "name", "kind"), kinds(fixed=False))
def test_a_value_beyond_its_width_or_type_is_ours_to_blame(
    record: Record, name: str, kind: Kind
) -> None:
    wrong: dict[str, list[object]] = {
        "I": [-1, 2**32, True, "1", 1.0, None],
        "Q": [-1, 2**64, True, b"\1"],
        "i": [-(2**31) - 1, 2**31, False],
        "f": [1e39, "1", True, None],
    }
    values = wrong.get(
        kind.code[-1], [b"", bytes(kind.width - 1), bytes(kind.width + 1), "", [1]]
    )
    for value in values:
        with pytest.raises(LocalWireError) as caught:
            attrs.evolve(record, **{name: value})

        assert caught.value.record == name_of(record)
        assert (caught.value.field, caught.value.offset) == (name, kind.offset)


@pytest.mark.parametrize(
    ("name", "field", "good", "bad"),
    [
        ("ReplyHeader", "status", [200, 599], [0, 199, 600]),
        ("ReplyHeader", "phase", [0, 6], [7]),
        ("ReplyHeader", "finish", [0, 2], [3]),
        ("ReplyHeader", "failure_status", [0, 400, 599], [1, 399, 600]),
        ("ReplyHeader", "cancel_requested", [0, 1], [2]),
        ("GrantRow", "revision", [1, 2**64 - 1], [0]),
        ("GrantRow", "actions", [1, 128, 255], [0, 256, 257]),
        ("GrantRow", "models", [0, 4, 8, 16, 28], [1, 2, 3, 32, 31]),
        ("GrantRow", "pages", [0, 2**32 - 1], []),
        ("GrantRow", "tokens", [1, 2**32 - 1], [0]),
        ("GrantRow", "requests", [1, 2**32 - 1], [0]),
        ("GrantRow", "media", [0, 2**32 - 1], []),
        ("GrantRow", "media_bytes", [0, 2**64 - 1], []),
        ("ControlRow", "positions", [0, 1], [2]),
        ("ControlRow", "layers", [1, 2**64 - 1], [0]),
        ("Information", "revision", [2], [0, 3]),
        ("Information", "image_input", [0, 1], [2]),
        ("Information", "audio_input", [0, 1], [2]),
        ("Information", "shared", [0, 1], [2]),
        ("Information", "selection_version", [0, 1], [2]),
        ("Selector", "dose", [-40000, -1, 1, 40000], [-40001, 0, 40001]),
        ("PayloadHead", "messages", [1, 64], [0, 65]),
        ("MessageHead", "role", [0, 2], [3]),
        ("MessageHead", "parts", [1, 32], [0, 33]),
        ("PartHead", "kind", [0], [3]),
        ("BeginData", "format", [1, 3], [0, 2, 4]),
        ("FrameHead", "command", [2], [0, 5]),
        ("FrameHead", "data_bytes", [1, 8192], [0, 8193]),
        ("Metadata", "phase", [0, 7], [8]),
        ("Metadata", "status", [0, 12], [13]),
        ("PolicyWrite", "action", [1, 5], [0, 6]),
        ("PolicyReport", "state", [0, 6], [7]),
        ("PolicyReport", "review_enabled", [0, 1], [2]),
        ("PolicyReport", "result_status", [0, 11], [12]),
        ("PolicyReport", "reason", [0, 5], [6]),
        ("RegionHead", "channels", [2, 1024], [1, 1025]),
        ("RegionHead", "closed", [0, 1], [2]),
        ("MailboxHead", "state", [0, 2], [3]),
    ],
)
def test_ranges_hold_at_the_limit_and_one_past(
    name: str, field: str, good: list[int], bad: list[int]
) -> None:
    record = next(each for each in SAMPLES if name_of(each) == name)
    kind = dict(layout_of(type(record)).fields)[field]
    for value in good:
        made = attrs.evolve(record, **{field: value})

        assert type(record).unpack(made.pack()) == made
    for value in bad:
        with pytest.raises(LocalWireError) as ours:
            attrs.evolve(record, **{field: value})
        piece = value.to_bytes(kind.width, "little", signed=kind.code[-1] == "i")
        with pytest.raises(RemoteWireError) as theirs:
            type(record).unpack(patched(record.pack(), kind.offset, piece))

        assert (ours.value.field, ours.value.offset) == (field, kind.offset)
        assert (theirs.value.field, theirs.value.offset) == (field, kind.offset)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("GrantRow", "principal"),
        ("Selector", "qualification_sha256"),
        ("FrameHead", "transfer_id"),
        ("ListRow", "transfer_id"),
    ],
)
def test_ids_that_must_not_be_zero(name: str, field: str) -> None:
    record = next(each for each in SAMPLES if name_of(each) == name)
    kind = dict(layout_of(type(record)).fields)[field]
    with pytest.raises(LocalWireError):
        attrs.evolve(record, **{field: bytes(kind.width)})
    with pytest.raises(RemoteWireError) as caught:
        type(record).unpack(patched(record.pack(), kind.offset, bytes(kind.width)))

    assert caught.value.field == field
