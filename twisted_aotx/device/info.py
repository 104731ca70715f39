"""
INFO and METRICS replies (`wire.md` §7).
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, u64
from twisted_aotx.device.bits import write32, write64
from twisted_aotx.device.controls import CONTROL_ROW_BYTES, write_controls
from twisted_aotx.device.numbers import HEADER, MODALITY_AUDIO, MODALITY_IMAGE
from twisted_aotx.device.pool import POOL_AUDIO, POOL_BYTES, POOL_IMAGE
from twisted_aotx.device.roles import ROLE_FIRST, ROLE_LAST, is_available
from twisted_aotx.limits import LINK_BYTES

INFO_BYTES = 192
_MODEL_ROW_BYTES = 40
_SECOND_NS = 1_000_000_000


@dev
def _write_models(D: Any, frame: Any, roles: Any) -> Any:
    """Write the model rows that *roles* opens; how many."""
    rows = i64(0)
    for role in range(ROLE_FIRST, ROLE_LAST + 1):
        if is_available(D, role, roles) == 1:
            at = HEADER + INFO_BYTES + rows * _MODEL_ROW_BYTES
            write32(frame, at, role)
            write32(frame, at + 4, D.role_modalities[role])
            for k in range(32):
                frame[at + 8 + k] = D.role_digest[role][k]
            rows += 1
    return rows


@dev
def _write_media(D: Any, frame: Any, row: Any) -> None:
    """Limits and quotas of media sources; what is off is 0."""
    at = HEADER
    table = D.g_table
    on = D.media_objects > 0
    audio = on and (D.modalities & MODALITY_AUDIO) != 0
    write32(frame, at + 48, D.media_objects)
    if on and (D.modalities & MODALITY_IMAGE) != 0:
        write32(frame, at + 52, 1)
    if audio:
        write32(frame, at + 56, 1)
    write32(frame, at + 60, D.g_media[table][row])
    if on:
        quota = D.g_media_bytes[table][row]
        pool = u64(D.p_size[POOL_BYTES])
        if quota < pool:
            pool = quota
        write64(frame, at + 64, pool)
        write32(frame, at + 112, D.image_pixels)
    write32(frame, at + 116, D.image_dimension)
    write32(frame, at + 120, D.image_patches)
    write32(frame, at + 124, D.p_size[POOL_IMAGE])
    if audio:
        write32(frame, at + 128, D.audio_frames)
    write32(frame, at + 132, D.p_size[POOL_AUDIO])


@dev
def write_information(D: Any, frame: Any, row: Any, metrics: Any) -> Any:
    """
    Write the payload for the grant in *row* after the header; its bytes.

    *metrics* 1 adds the counters (METRICS), 0 leaves them zero (INFO).
    """
    table = D.g_table
    for k in range(HEADER, HEADER + INFO_BYTES):
        frame[k] = 0
    rows = _write_models(D, frame, D.g_roles[table][row])
    at = HEADER
    write32(frame, at, 2)
    write32(frame, at + 4, D.slots)
    write32(frame, at + 8, D.prompt_bytes)
    write32(frame, at + 12, D.sequence_tokens)
    write32(frame, at + 16, D.requests)
    write32(frame, at + 20, D.output_bytes)
    write32(frame, at + 24, D.channels)
    write32(frame, at + 28, D.g_tokens[table][row])
    write32(frame, at + 32, D.g_pages[table][row])
    write32(frame, at + 36, D.g_requests[table][row])
    write32(frame, at + 40, D.g_actions[table][row])
    write32(frame, at + 44, rows)
    if metrics == 1:
        write64(frame, at + 72, u64(D.service_bytes))
        write64(frame, at + 80, u64(D.ticks))
        write64(frame, at + 88, u64(D.now))
    _write_media(D, frame, row)
    write32(frame, at + 136, D.request_ns // _SECOND_NS)
    write32(frame, at + 140, D.upload_ns // _SECOND_NS)
    write32(frame, at + 144, D.principals)
    write32(frame, at + 148, D.prompt_bytes // LINK_BYTES + 1)
    size = INFO_BYTES + rows * _MODEL_ROW_BYTES
    controls = write_controls(D, frame, at + size, D.g_roles[table][row])
    write32(frame, at + 160, controls)
    write32(frame, at + 164, i64(CONTROL_ROW_BYTES))
    write32(frame, at + 168, 1)
    return size + controls * CONTROL_ROW_BYTES
