"""
`GET /aotx/v1/capabilities`: what device and grant allow the caller (`http.md` §4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from twisted_aotx.gateway.answers import Answer
from twisted_aotx.gateway.models import models_of
from twisted_aotx.wire.numbers import Action, Modality

if TYPE_CHECKING:
    from twisted_aotx.gateway.models import Model
    from twisted_aotx.gateway.resource import Call
    from twisted_aotx.gateway.settings import Limits
    from twisted_aotx.wire.info import ControlRow, Information

#: Bits in the order in which they are listed.
_INPUTS: Final = (
    (Modality.TEXT, "text"),
    (Modality.IMAGE, "image"),
    (Modality.AUDIO, "audio"),
)
_POSITIONS: Final = ("all", "response")
_LAYERS: Final = 64
_RETENTION: Final = {
    "requests": "bounded_device_results",
    "restart": "expire_requests",
    "media": "explicit_removal",
    "shared_operations": None,
}


async def get_capabilities(call: Call) -> Answer:
    """
    Everything that a caller may rely on now.
    """
    reply = await call.information(fresh=True)
    information = reply.information
    settings = call.settings
    models = models_of(settings, call.principal, information)
    return Answer(
        body={
            "schema": "aotx.capabilities.v1",
            "runtime_epoch": str(reply.epoch),
            "lineage": None,
            "mode": "inference",
            "models": [_model(model, information) for model in models],
            "limits": _limits(information, settings.limits),
            "features": _features(information, call.principal.actions),
            "retention": _RETENTION,
            "shared_api": None,
            "media_types": ["image/jpeg", "audio/wav"],
        }
    )


def _model(model: Model, information: Information) -> dict[str, object]:
    role = model.row.role
    controls = [control for control in information.controls if control.role == role]
    return {
        "id": model.alias.alias,
        "role": role,
        "sha256": model.row.sha256.hex(),
        "controls": [_control(control) for control in controls],
        "automatic_memory": False,
        "input": [name for bit, name in _INPUTS if model.row.modalities & bit],
        "published_at": model.alias.published_at,
    }


def _control(control: ControlRow) -> dict[str, object]:
    digest = control.qualification_sha256
    return {
        "schema": "aotx.control.v1",
        "name": control.name,
        "kind": "residual_vector",
        "available": bool(control.available),
        "positions": _POSITIONS[control.positions],
        "hook": control.hook,
        "layers": [layer for layer in range(_LAYERS) if control.layers >> layer & 1],
        "dose_scale": 10000,
        "accepted_doses": list(control.doses),
        "combinations": False,
        "qualification_sha256": digest.hex() if any(digest) else None,
    }


def _limits(information: Information, limits: Limits) -> dict[str, object]:
    """
    The device's limits as the caller sees them, then the gateway's by their keys.
    """
    return {
        "execution_slots": information.slots - 1,
        "wrapped_prompt_bytes": information.prompt_bytes,
        "sequence_tokens": information.sequence_tokens,
        "request_entries": information.requests,
        "output_bytes": information.output_bytes,
        "service_channels": information.channels - 1,
        "output_tokens": information.grant_tokens,
        "kv_pages_per_request": information.grant_pages,
        "active_requests": information.grant_requests,
        "media_objects": information.media_objects,
        "private_media_objects": information.grant_media,
        "private_media_bytes": str(information.media_bytes),
        "image_pixels": information.image_pixels,
        "image_dimension": information.image_dimension,
        "image_patches": information.image_patches,
        "image_feature_rows": information.image_rows,
        "audio_source_frames": information.audio_frames,
        "audio_feature_rows": information.audio_rows,
        "device_request_seconds": information.request_seconds,
        "device_upload_seconds": information.upload_seconds,
        "principal_entries": information.principals,
        "media_references": information.media_references,
        **attrs.asdict(limits),
    }


def _features(information: Information, actions: int) -> dict[str, object]:
    shared = bool(information.shared)
    infer = bool(actions & Action.INFER)
    return {
        "chat_completions": infer,
        "streaming": infer,
        "private_media": bool(actions & Action.UPLOAD),
        "https_import": bool(actions & Action.FETCH),
        "telemetry": bool(actions & Action.TELEMETRY),
        "control_selection": information.selection_version == 1,
        "continuing_ccir": shared,
        "persistent_requests": shared,
        "embeddings": False,
        "responses": False,
        "tools": False,
        "expression": False,
        "presence": False,
    }
