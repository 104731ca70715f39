"""
INFO and METRICS payloads: the refusals of `http.md` §3.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.wire.samples import INFORMATION, SHA, vectors
from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.info import ControlRow, Information, ModelRow

PAYLOAD = vectors()["telemetry-reply"].data[128:]
#: Where the control row of `PAYLOAD` begins.
CONTROL = 192 + 2 * 40

MODEL = ModelRow(2, 1, SHA)


def control(name: str = "calm", **others: Any) -> ControlRow:
    return ControlRow(name=name, layers=1, **others)


def with_rows(*controls: ControlRow) -> Information:
    return attrs.evolve(INFORMATION, models=(MODEL,), controls=controls)


def refusal(data: bytes) -> tuple[str, str, int]:
    with pytest.raises(RemoteWireError) as caught:
        Information.unpack(data)
    return caught.value.record, caught.value.field, caught.value.offset


def patched(offset: int, value: int, data: bytes = PAYLOAD) -> bytes:
    return data[:offset] + value.to_bytes(4, "little") + data[offset + 4 :]


def revision_1(models: int) -> bytes:
    """
    What an older device sends: the same head, with nothing from byte 160 on.
    """
    rows = tuple(ModelRow(role, 1, SHA) for role in range(2, 2 + models))
    data = attrs.evolve(INFORMATION, models=rows).pack()
    return b"\1" + data[1:160] + bytes(32) + data[192:]


def test_revisions_1_and_2_are_read() -> None:
    """cases L 166"""
    assert Information.unpack(PAYLOAD).revision == 2
    old = Information.unpack(revision_1(models=2))

    assert (old.revision, len(old.models), old.controls) == (1, 2, ())
    assert old.selection_version == 0
    assert Information.unpack(old.pack()) == old
    for revision in (0, 3, 2**32 - 1):
        assert refusal(patched(0, revision)) == ("Information", "revision", 0)


def test_revision_1_has_exactly_its_models() -> None:
    """cases L 166"""
    data = revision_1(models=2)
    for other in (data[:-1], data + b"\0", data + bytes(40), data[:-40]):
        assert refusal(other)[1] == "length"
    # What stands after byte 160 says nothing in revision 1.
    assert Information.unpack(data[:160] + b"\xff" * 32 + data[192:]).controls == ()


def test_every_length_but_one_is_refused() -> None:
    """cases L 166"""
    assert Information.unpack(PAYLOAD).pack() == PAYLOAD
    for size in range(len(PAYLOAD)):
        assert refusal(PAYLOAD[:size]) == ("Information", "length", size)
    assert refusal(PAYLOAD + b"\0") == ("Information", "length", len(PAYLOAD))
    for count in (1, 3):
        assert refusal(patched(44, count))[1] == "length"
    assert refusal(patched(44, 2**32 - 1))[1] == "length"


@pytest.mark.parametrize("at", range(172, 192))
def test_reserved_bytes_of_the_head(at: int) -> None:
    data = PAYLOAD[:at] + b"\1" + PAYLOAD[at + 1 :]

    assert refusal(data) == ("Information", "reserved", at)


def test_control_stride_and_count() -> None:
    """cases L 166: stride 159, 17 controls"""
    assert refusal(patched(164, 159)) == ("Information", "control_stride", 164)
    assert refusal(patched(164, 161)) == ("Information", "control_stride", 164)
    sixteen = with_rows(*(control(f"c{number}") for number in range(16)))
    data = sixteen.pack()
    assert Information.unpack(data) == sixteen
    seventeen = patched(160, 17, data) + control("last").pack()
    assert refusal(seventeen) == ("Information", "control_rows", 160)
    with pytest.raises(LocalWireError):
        with_rows(*(control(f"c{number}") for number in range(17)))


def test_a_control_needs_a_model_of_its_role() -> None:
    """cases L 166: role mismatch"""
    assert refusal(patched(CONTROL, 3)) == ("Information", "controls", 192)
    # Rows of roles that nobody knows are read, and may have controls.
    unknown = patched(192, 77, patched(CONTROL, 77))
    assert Information.unpack(unknown).models[0].role == 77


@pytest.mark.parametrize(("at", "field"), [(4, "kind"), (16, "hook")])
def test_kind_and_hook_are_1(at: int, field: str) -> None:
    for value in (0, 2):
        data = patched(CONTROL + at, value)
        assert refusal(data) == ("ControlRow", field, CONTROL + at)


@pytest.mark.parametrize(
    ("at", "field"),
    [(52, "image_input"), (56, "audio_input"), (152, "shared")],
)
def test_flags_of_the_head_are_0_or_1(at: int, field: str) -> None:
    assert Information.unpack(patched(at, 0))
    assert refusal(patched(at, 2)) == ("Information", field, at)


def test_selection_version_is_at_most_1() -> None:
    assert Information.unpack(patched(168, 0)).selection_version == 0
    assert refusal(patched(168, 2)) == ("Information", "selection_version", 168)


def test_available_is_told_by_the_doses() -> None:
    """cases L 166: doses 17, and a count that does not fit"""
    for value in (0, 2):
        data = patched(CONTROL + 8, value)
        assert refusal(data) == ("ControlRow", "available", CONTROL + 8)
    for count in (0, 1, 3, 16, 17):
        data = patched(CONTROL + 20, count)
        assert refusal(data) == ("ControlRow", "dose_count", CONTROL + 20)
    without = with_rows(control(doses=()))
    assert Information.unpack(without.pack()).controls[0].available == 0
    lying = patched(192 + 40 + 8, 1, without.pack())
    assert refusal(lying) == ("ControlRow", "available", 192 + 40 + 8)


def test_doses() -> None:
    """cases L 166: duplicate dose"""
    sixteen = tuple(range(-8, 0)) + tuple(range(1, 9))
    data = with_rows(control(doses=sixteen)).pack()
    assert Information.unpack(data).controls[0].doses == sixteen

    at = CONTROL + 96
    wrong = [
        # (values of the first and second dose, of which the row counts two)
        (5000, 5000),
        (0, 5000),
        (40001, 5000),
        (-40001, 5000),
    ]
    for first, second in wrong:
        piece = b"".join(
            dose.to_bytes(4, "little", signed=True) for dose in (first, second)
        )
        data = PAYLOAD[:at] + piece + PAYLOAD[at + 8 :]
        assert refusal(data) == ("ControlRow", "doses", at)
    # Padding that is not zero, next to the doses and at the end.
    for place in (at + 8, at + 60):
        assert refusal(patched(place, 1))[:2] in {
            ("ControlRow", "dose_count"),
            ("ControlRow", "doses"),
        }
    with pytest.raises(LocalWireError):
        control(doses=tuple(range(1, 18)))
    with pytest.raises(LocalWireError):
        control(doses=(1, 1))
    with pytest.raises(LocalWireError):
        control(doses=(0,))


def test_the_layer_mask_is_not_zero() -> None:
    data = PAYLOAD[: CONTROL + 24] + bytes(8) + PAYLOAD[CONTROL + 32 :]

    assert refusal(data) == ("ControlRow", "layers", CONTROL + 24)


@pytest.mark.parametrize(
    "name", [b"", b"A", b"a b", b"\xc3\xa4", b"a\0b", b"a" * 32, b"a" * 31 + b"/"]
)
def test_names_that_are_none(name: bytes) -> None:
    at = CONTROL + 32
    data = PAYLOAD[:at] + name.ljust(32, b"\0") + PAYLOAD[at + 32 :]

    assert refusal(data) == ("ControlRow", "name", at)


@pytest.mark.parametrize("name", ["a", "a-b_c9", "a" * 31])
def test_names_at_the_limit(name: str) -> None:
    data = with_rows(control(name)).pack()

    assert Information.unpack(data).controls[0].name == name
    with pytest.raises(LocalWireError):
        control(name + "A")


def test_a_name_stands_once() -> None:
    """cases L 166: repeated name"""
    with pytest.raises(LocalWireError):
        with_rows(control("calm"), control("calm"))
    data = with_rows(control("calm"), control("calx")).pack()
    twice = data[:-160] + data[-320:-160]

    assert refusal(twice) == ("Information", "controls", 192)


def test_rows_are_read_in_place() -> None:
    told = Information.unpack(PAYLOAD)

    assert [model.role for model in told.models] == [2, 4]
    assert [model.modalities for model in told.models] == [3, 5]
    assert (told.controls[0].name, told.controls[0].doses) == (
        "curiosity",
        (5000, -5000),
    )
