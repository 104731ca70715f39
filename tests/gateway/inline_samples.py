"""
Messages with media in them.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from tests.gateway.device_script import WITH_MEDIA, DeviceScript
from tests.gateway.feeds import CHAT, REQUESTS
from tests.gateway.serving import Response, Serving

JPEG = b"\xff\xd8 a picture \xff\xd9"
WAV = b"RIFF a sound"
ID = bytes(range(1, 17))
OTHER = bytes(range(2, 18))
BOTH = pytest.mark.parametrize("path", [CHAT, REQUESTS])
TEXT = {"type": "text", "text": "what is it?"}


def image(data: bytes = JPEG, **fields: Any) -> dict[str, Any]:
    return image_url("data:image/jpeg;base64," + coded(data), **fields)


def image_url(url: str, **fields: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url} | fields}


def audio(data: bytes = WAV) -> dict[str, Any]:
    return {
        "type": "input_audio",
        "input_audio": {"data": coded(data), "format": "wav"},
    }


def owned(id: bytes, modality: str = "image") -> dict[str, Any]:
    return {"type": "media", "media_id": handle(id), "modality": modality}


def handle(id: bytes) -> str:
    return "media-" + id.hex()


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def with_media() -> DeviceScript:
    device = DeviceScript(WITH_MEDIA, media=True)
    device.on_submit = lambda request: request.complete(b"a cat")
    return device


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def handles_of(gateway: Serving) -> list[str]:
    return [handle(id) for _, id in gateway.device.media.sources]


def invalid(answer: Response, param: str) -> bool:
    return answer.problem == (400, "invalid_field", param)
