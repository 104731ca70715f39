"""
The payload of INFO and METRICS (`wire.md` §7) with media, policy and controls off.
"""

from __future__ import annotations

import struct

from tests.device.oracle.state import Grant, State

#: Limits of `wire.md` §13 that are told although media is off.
IMAGE_DIMENSION, IMAGE_PATCHES, IMAGE_ROWS = 8192, 8192, 131072
AUDIO_ROWS = 16384


def information(state: State, grant: Grant, *, metrics: bool) -> bytes:
    """The payload; METRICS adds the tick and the clock, not the allocation."""
    sizes = state.capacities
    models = [
        state.models[role]
        for role in sorted(state.models)
        if state.models[role].active and grant.roles >> role & 1
    ]
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
        60: grant.media_objects,
        116: IMAGE_DIMENSION,
        120: IMAGE_PATCHES,
        124: IMAGE_ROWS,
        132: AUDIO_ROWS,
        136: sizes.request_seconds,
        140: sizes.upload_seconds,
        144: sizes.principals,
        148: sizes.prompt_bytes // 72 + 1,
        164: 160,
        168: 1,
    }
    for offset, value in words.items():
        struct.pack_into("<I", head, offset, value)
    if metrics:
        struct.pack_into("<QQ", head, 80, state.ticks, state.now)
    rows = [
        struct.pack("<II32s", model.role, model.modalities, model.sha256)
        for model in models
    ]
    return bytes(head) + b"".join(rows)
