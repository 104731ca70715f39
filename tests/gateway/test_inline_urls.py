"""
URLs of images in messages (`http.md` §5).
"""

from __future__ import annotations

from pathlib import Path

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.feeds import CHAT, body
from tests.gateway.inline_samples import (
    BOTH,
    JPEG,
    TEXT,
    WAV,
    audio,
    handles_of,
    image,
    image_url,
    invalid,
    sha,
)
from tests.gateway.origins import HOST, Listen, Names, Origin, gateway_for, http
from tests.gateway.serving import Serving
from twisted_aotx.wire.numbers import MediaPhase, Operation, PartKind
from twisted_aotx.wire.requests import DigestPart


def answering(gateway: Serving) -> None:
    gateway.device.on_submit = lambda request: request.complete(b"a cat")


@BOTH
@asynchronous
async def test_the_url_of_an_image(
    serve: Serve, listen: Listen, named_pems: Path, path: str
) -> None:
    origin: Origin = listen(http(JPEG))
    gateway = await gateway_for(serve, origin, named_pems)
    answering(gateway)

    answer = await gateway.post(path, body([TEXT, image_url(origin.url)]))

    assert answer.status in (200, 202)
    parts = gateway.device.only.submission.messages[0].parts
    assert parts[1] == DigestPart(PartKind.IMAGE, sha(JPEG))
    assert answer.header("x-aotx-media-ids") == handles_of(gateway)[0]
    assert (gateway.device.media.only.format, len(origin.requests)) == (1, 1)


@BOTH
@asynchronous
async def test_the_url_of_something_else(
    serve: Serve, listen: Listen, named_pems: Path, path: str
) -> None:
    """
    http.md §5: exactly `image/jpeg`; sound is not imported into messages.
    """
    origin = listen(http(WAV, content_type="audio/wav"))
    gateway = await gateway_for(serve, origin, named_pems)

    answer = await gateway.post(path, body([image_url(origin.url)]))
    assert answer.problem == (415, "media_type", None)
    for url in ("http://source.example/", "file:///etc/passwd", "nonsense"):
        answer = await gateway.post(path, body([image_url(url)]))
        assert invalid(answer, "url")
    away = await gateway.post(path, body([image_url("https://127.0.0.1/")]))
    assert away.problem == (403, "source_address", None)
    assert gateway.device.count(Operation.MEDIA) == 0


@asynchronous
async def test_media_are_resolved_in_message_order(
    serve: Serve, listen: Listen, named_pems: Path
) -> None:
    origin = listen(http(status="404 Not Found"))
    names = Names([["127.0.0.1"]])
    gateway = await gateway_for(serve, origin, named_pems, names=names)

    answer = await gateway.post(
        CHAT, body([image(), image_url(origin.url), image_url(origin.url), audio()])
    )

    assert answer.problem == (502, "source_status", None)
    assert names.asked == [HOST]
    (left,) = gateway.device.media.sources.values()
    assert (bytes(left.data), left.phase) == (JPEG, MediaPhase.READY)
