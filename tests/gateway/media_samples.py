"""
Uploads of tests, and what their device got of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from tests.gateway.device_script import WITH_MEDIA, DeviceScript
from tests.gateway.serving import P1, TOKEN, Response, Serving, digest
from twisted_aotx.gateway.settings import Principal
from twisted_aotx.testing.peer import Answer
from twisted_aotx.wire.media import MediaFrame
from twisted_aotx.wire.numbers import MediaCommand, Operation
from twisted_aotx.wire.packet import RequestHeader

PATH = "/aotx/v1/media"
JPEG = b"\xff\xd8 a picture \xff\xd9"
ID = bytes(range(1, 17))
HANDLE = "media-" + ID.hex()


def with_media() -> DeviceScript:
    return DeviceScript(WITH_MEDIA, media=True)


async def post(
    gateway: Serving, data: bytes, content_type: str | None = "image/jpeg"
) -> Response:
    headers: dict[str, Any] = {"Content-Type": content_type} if content_type else {}
    return await gateway.request("POST", PATH, data=data, headers=headers)


def frames(gateway: Serving) -> list[int]:
    """
    The commands of the MEDIA frames so far.
    """
    return [
        MediaFrame.unpack(payload).head.command
        for request, payload in gateway.peer.requests
        if request.operation == Operation.MEDIA
    ]


def on_frame(
    gateway: Serving,
    command: MediaCommand,
    answer: Callable[[RequestHeader], Answer | Deferred[Answer]],
) -> None:
    """
    Have *answer* answer the frames of *command*.
    """

    def before(request: RequestHeader) -> Answer | Deferred[Answer]:
        if request.operation == Operation.MEDIA and frames(gateway)[-1] == command:
            return answer(request)
        untouched: Answer = NotImplemented
        return untouched

    gateway.device.before = before


def principal(**fields: Any) -> dict[str, Any]:
    """
    The setting of one principal with every action, changed by *fields*.
    """
    every = Principal(id=P1, token_sha256=(digest(TOKEN),), actions=255)
    return {"principals": (attrs.evolve(every, **fields),)}
