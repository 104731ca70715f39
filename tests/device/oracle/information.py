"""
The payload of INFO and METRICS (`wire.md` §7).
"""

from __future__ import annotations

import struct

from tests.device.oracle.media_state import JPEG, WAV
from tests.device.oracle.state import Grant, State
from twisted_aotx.wire.info import ControlRow


def information(state: State, grant: Grant, *, metrics: bool) -> bytes:
    """The payload; METRICS adds the tick and the clock, not the allocation."""
    sizes = state.capacities
    models = [
        state.models[role]
        for role in sorted(state.models)
        if state.models[role].active and grant.roles >> role & 1
    ]
    controls = [
        _control(row, model.doses(at))
        for model in models
        for at, row in enumerate(model.controls)
    ]
    media = state.media
    audio = media.is_on and WAV in media.families
    head = bytearray(192)
    words = {
        0: 2,
        4: sizes.slots,
        8: sizes.prompt_bytes,
        12: sizes.sequence_tokens,
        16: sizes.requests,
        20: sizes.output_bytes,
        24: sizes.channels,
        28: grant.tokens,
        32: grant.pages or state.pages_max,
        36: grant.requests,
        40: grant.actions,
        44: len(models),
        48: sizes.media_objects if media.is_on else 0,
        52: int(media.is_on and JPEG in media.families),
        56: int(audio),
        60: grant.media_objects,
        112: sizes.image_pixels if media.is_on else 0,
        116: sizes.image_dimension,
        120: sizes.image_patches,
        124: sizes.image_rows,
        128: sizes.audio_frames if audio else 0,
        132: sizes.audio_rows,
        136: sizes.request_seconds,
        140: sizes.upload_seconds,
        144: sizes.principals,
        148: sizes.prompt_bytes // 72 + 1,
        160: len(controls),
        164: 160,
        168: 1,
    }
    for offset, value in words.items():
        struct.pack_into("<I", head, offset, value)
    if media.is_on:
        least = min(grant.media_bytes, sizes.media_bytes)
        struct.pack_into("<Q", head, 64, least)
    if metrics:
        struct.pack_into("<QQ", head, 80, state.ticks, state.now)
    rows = [
        struct.pack("<II32s", model.role, model.modalities, model.sha256)
        for model in models
    ]
    return bytes(head) + b"".join([*rows, *controls])


def _control(row: ControlRow, offered: tuple[int, ...]) -> bytes:
    doses = offered + (0,) * (16 - len(offered))
    return struct.pack(
        "<6IQ32s32s16i",
        row.role,
        1,
        int(bool(offered)),
        row.positions,
        1,
        len(offered),
        row.layers,
        row.name.encode(),
        row.qualification_sha256,
        *doses,
    )
