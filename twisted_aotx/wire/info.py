"""
What INFO and METRICS answer: capacities, the caller's grant, models and controls
(`wire.md` §7).

Reading follows the refusals of `http.md` §3. Revision 1 has no control rows: its bytes
from 160 on say nothing.
"""

from __future__ import annotations

import re
from typing import Final, Self

import attrs

from twisted_aotx.errors import RemoteWireError
from twisted_aotx.limits import CONTROL_ROWS_MAX, DOSES_MAX
from twisted_aotx.wire.kinds import coded, i32s, raw, u32, u64
from twisted_aotx.wire.layout import BrokenRule, Record, offset_of, wire_fields

#: The largest dose either way, unit 0.0001.
DOSE_MAX: Final = 40000
_NAME = re.compile(r"[a-z0-9_-]{1,31}")
_NAME_BYTES = 32
#: Where the part begins that revision 1 does not have.
_REVISION_2_AT = 160


@attrs.frozen(field_transformer=wire_fields)
class ModelRow(Record):
    """
    One model that the caller may use now.
    """

    SIZE = 40

    #: `numbers.Role`; readers ignore rows of roles that they do not know.
    role: int = attrs.field(metadata=u32(0))
    #: `numbers.Modality` bits.
    modalities: int = attrs.field(metadata=u32(4))
    sha256: bytes = attrs.field(metadata=raw(8, 32))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("not 1..31 characters of a-z, 0-9, _ and -")


def _decode_name(data: bytes) -> str:
    name, _, padding = data.partition(b"\0")
    if len(name) == _NAME_BYTES or any(padding):
        raise ValueError("not zero-padded")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise ValueError("not ASCII") from None


def _check_dose(dose: int) -> None:
    if dose == 0 or not -DOSE_MAX <= dose <= DOSE_MAX:
        raise ValueError(f"zero or beyond ±{DOSE_MAX}")


@attrs.frozen(field_transformer=wire_fields, kw_only=True)
class ControlRow(Record):
    """
    One residual vector that a request may select.
    """

    SIZE = 160

    role: int = attrs.field(default=2, metadata=u32(0))
    #: `numbers.Positions`.
    positions: int = attrs.field(default=0, metadata=u32(12, high=1))
    #: Bit = layer.
    layers: int = attrs.field(metadata=u64(24, low=1))
    name: str = attrs.field(
        metadata=coded(
            32,
            _NAME_BYTES,
            check=_check_name,
            encode=lambda name: name.encode("ascii"),
            decode=_decode_name,
        )
    )
    #: 32 zero bytes where nothing was qualified.
    qualification_sha256: bytes = attrs.field(default=bytes(32), metadata=raw(64, 32))
    #: At most 16 distinct doses, nonzero, −40,000..40,000, unit 0.0001.
    doses: tuple[int, ...] = attrs.field(
        default=(),
        metadata=i32s(96, DOSES_MAX, check=_check_dose),
    )

    kind: int = attrs.field(default=1, init=False, metadata=u32(4))
    #: 1 exactly when there is a dose.
    available: int = attrs.field(init=False, metadata=u32(8))
    hook: int = attrs.field(default=1, init=False, metadata=u32(16))
    dose_count: int = attrs.field(init=False, metadata=u32(20))

    @available.default
    def _available(self) -> int:
        return int(bool(self.doses))

    @dose_count.default
    def _dose_count(self) -> int:
        return len(self.doses)


@attrs.frozen(field_transformer=wire_fields, kw_only=True)
class Information(Record):
    """
    The answer to INFO and METRICS (`wire.md` §7). `SIZE` is that of its head.
    """

    SIZE = 192

    #: 2 [D1]; 1 is read too.
    revision: int = attrs.field(default=2, metadata=u32(0, low=1, high=2))
    #: Slot 0 included.
    slots: int = attrs.field(metadata=u32(4))
    prompt_bytes: int = attrs.field(metadata=u32(8))
    #: Prompt and output.
    sequence_tokens: int = attrs.field(metadata=u32(12))
    #: Entries of the request table.
    requests: int = attrs.field(metadata=u32(16))
    #: Per request.
    output_bytes: int = attrs.field(metadata=u32(20))
    #: The control channel included.
    channels: int = attrs.field(metadata=u32(24))
    grant_tokens: int = attrs.field(metadata=u32(28))
    #: Effective page quota, never 0 for a running device.
    grant_pages: int = attrs.field(metadata=u32(32))
    grant_requests: int = attrs.field(metadata=u32(36))
    #: `numbers.Action` bits.
    grant_actions: int = attrs.field(metadata=u32(40))
    #: 0 when media is off.
    media_objects: int = attrs.field(default=0, metadata=u32(48))
    image_input: int = attrs.field(default=0, metadata=u32(52, high=1))
    audio_input: int = attrs.field(default=0, metadata=u32(56, high=1))
    grant_media: int = attrs.field(default=0, metadata=u32(60))
    #: The smaller of the grant's bytes and the pool; 0 when media is off.
    media_bytes: int = attrs.field(default=0, metadata=u64(64))
    #: METRICS only, else 0.
    allocation_bytes: int = attrs.field(default=0, metadata=u64(72))
    #: METRICS only, else 0.
    tick: int = attrs.field(default=0, metadata=u64(80))
    #: Device clock at the start of the tick; METRICS only, else 0.
    clock_ns: int = attrs.field(default=0, metadata=u64(88))
    lineage: bytes = attrs.field(default=bytes(16), metadata=raw(96, 16))
    image_pixels: int = attrs.field(default=0, metadata=u32(112))
    image_dimension: int = attrs.field(default=0, metadata=u32(116))
    image_patches: int = attrs.field(default=0, metadata=u32(120))
    image_rows: int = attrs.field(default=0, metadata=u32(124))
    audio_frames: int = attrs.field(default=0, metadata=u32(128))
    audio_rows: int = attrs.field(default=0, metadata=u32(132))
    request_seconds: int = attrs.field(metadata=u32(136))
    upload_seconds: int = attrs.field(metadata=u32(140))
    #: Capacity of the grant table.
    principals: int = attrs.field(metadata=u32(144))
    #: Per request.
    media_references: int = attrs.field(metadata=u32(148))
    #: Whether the shared service is usable.
    shared: int = attrs.field(default=0, metadata=u32(152, high=1))
    memory_roles: int = attrs.field(default=0, metadata=u32(156))
    selection_version: int = attrs.field(default=1, metadata=u32(168, high=1))

    models: tuple[ModelRow, ...] = ()
    controls: tuple[ControlRow, ...] = ()

    model_rows: int = attrs.field(init=False, repr=False, metadata=u32(44))
    control_rows: int = attrs.field(
        init=False, repr=False, metadata=u32(160, high=CONTROL_ROWS_MAX)
    )
    control_stride: int = attrs.field(
        default=ControlRow.SIZE, init=False, repr=False, metadata=u32(164)
    )

    @model_rows.default
    def _model_rows(self) -> int:
        return len(self.models)

    @control_rows.default
    def _control_rows(self) -> int:
        return len(self.controls)

    def check(self) -> None:
        """
        Hold the control rows to the model rows and to each other.
        """
        if self.revision == 1 and (self.controls or self.selection_version):
            raise BrokenRule("revision", "1 has no controls")
        roles = {model.role for model in self.models}
        names = {control.name for control in self.controls}
        if any(control.role not in roles for control in self.controls):
            raise BrokenRule("controls", "a control is of a role without a model")
        if len(names) != len(self.controls):
            raise BrokenRule("controls", "a name stands twice")

    def pack(self) -> bytes:
        """
        The head and every row: 192 + 40 · models + 160 · controls bytes.
        """
        rows = (*self.models, *self.controls)
        return super().pack() + b"".join(row.pack() for row in rows)

    @classmethod
    def unpack(cls, data: bytes, *, at: int = 0) -> Self:
        """
        Read a whole payload.

        Raises:
            RemoteWireError: one of the refusals of `http.md` §3.
        """
        head = data[: cls.SIZE]
        if head[:4] == b"\1\0\0\0":
            head = head[:_REVISION_2_AT] + _REVISION_1_TAIL[: len(head)]
        values = cls.unpack_values(head, at=at)
        count, controls = values["model_rows"], values["control_rows"]
        if controls > CONTROL_ROWS_MAX:
            raise _remote("control_rows", f"more than {CONTROL_ROWS_MAX}", at)
        if values["control_stride"] != ControlRow.SIZE:
            raise _remote("control_stride", f"not {ControlRow.SIZE}", at)
        controls_at = cls.SIZE + ModelRow.SIZE * count
        size = controls_at + ControlRow.SIZE * controls
        if len(data) != size:
            raise RemoteWireError(
                "Information",
                "length",
                at + min(len(data), size),
                f"{len(data)} bytes instead of {size}",
            )
        models = tuple(
            ModelRow.unpack(data[row : row + ModelRow.SIZE], at=at + row)
            for row in range(cls.SIZE, controls_at, ModelRow.SIZE)
        )
        rows = tuple(
            ControlRow.unpack(data[row : row + ControlRow.SIZE], at=at + row)
            for row in range(controls_at, size, ControlRow.SIZE)
        )
        return cls.from_values(values, at=at, models=models, controls=rows)


#: No controls, their stride, no selection.
_REVISION_1_TAIL: Final = bytes(4) + ControlRow.SIZE.to_bytes(4, "little") + bytes(24)


def _remote(field: str, reason: str, at: int) -> RemoteWireError:
    return RemoteWireError(
        "Information", field, at + offset_of(Information, field), reason
    )
