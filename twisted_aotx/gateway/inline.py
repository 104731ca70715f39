"""
The media of a message to sources of the caller, before SUBMIT (`http.md` §5).

Rules:

1. What is wrong with the base64 of any part, and rights that are missing, refuse the
   call before anything is uploaded.
2. Then the parts are resolved in message order: bytes are uploaded, URLs imported,
   handles looked at. When one fails, what was uploaded before it stays its owner's.
3. Base64 is decoded piece by piece, with the reactor's turn in between: once to judge
   all of it, then one part at a time, whose bytes count on the body credit until they
   are uploaded. So a message takes one file, however many parts it has.
"""

from __future__ import annotations

import binascii
from collections.abc import AsyncIterator
from typing import Final

from twisted.internet.task import deferLater

from twisted_aotx.client.media import media_read
from twisted_aotx.gateway.imports import import_source
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.messages import (
    InlineSource,
    OwnedSource,
    RemoteSource,
    SourcePart,
)
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal
from twisted_aotx.gateway.resource import Call
from twisted_aotx.gateway.uploads import Source, upload
from twisted_aotx.gateway.waiting import ClientLeft
from twisted_aotx.wire.numbers import Action, MediaFormat, MediaPhase, PartKind

#: Characters of base64 that are decoded in one turn; a multiple of 4.
SLICE_CHARACTERS: Final = 64 << 10
#: What the URL of an image may name.
_IMAGES: Final = {b"image/jpeg": MediaFormat.JPEG}
_FORMATS: Final = {
    PartKind.IMAGE: MediaFormat.JPEG,
    PartKind.AUDIO: MediaFormat.WAV,
}
#: Base64 ends in so many `=`.
_PADDING_MAX: Final = 2


async def resolve(call: Call, parts: tuple[SourcePart, ...]) -> list[Source]:
    """
    The source of each of *parts*, ready.

    Raises:
        Problem: as `http.md` §5 and §8 say.
        DeviceRefused, ExchangeFailed, InvalidReply: of one of the exchanges.
        ClientLeft: the client went; what was uploaded stays.
    """
    _check_actions(call, parts)
    with call.keeping():
        for part in parts:
            if isinstance(part, InlineSource):
                await _check(call, part)
        sources = []
        for part in parts:
            if call.gone:
                raise ClientLeft
            sources.append(await _source(call, part))
        return sources


def _check_actions(call: Call, parts: tuple[SourcePart, ...]) -> None:
    actions = call.principal.actions
    for part in parts:
        if isinstance(part, InlineSource) and not actions & Action.UPLOAD:
            raise refusal(ProblemCode.MEDIA_FORBIDDEN)
        if isinstance(part, RemoteSource) and not actions & Action.FETCH:
            raise refusal(ProblemCode.URL_FORBIDDEN)


async def _check(call: Call, part: InlineSource) -> None:
    """
    Refuse what is too large, empty or not canonical.
    """
    size = _size(part)
    bytes_max = min(call.settings.limits.upload_bytes, call.principal.media_bytes)
    if not 1 <= size <= bytes_max:
        raise refusal(ProblemCode.MEDIA_LIMIT, "messages.content")
    async for data in _decoded(call, part):
        size -= len(data)
    if size:  # padding before the end
        raise _not_canonical(part)


def _size(part: InlineSource) -> int:
    """
    Bytes that *part* says.
    """
    text, end = part.base64, part.base64[-3:]
    padding = len(end) - len(end.rstrip("="))
    if len(text) % 4 or padding > _PADDING_MAX:
        raise _not_canonical(part)
    return len(text) // 4 * 3 - padding


async def _decoded(call: Call, part: InlineSource) -> AsyncIterator[bytes]:
    """
    The bytes of *part*, piece by piece.
    """
    text = part.base64
    for at in range(0, len(text), SLICE_CHARACTERS):
        if at:
            await deferLater(call.gateway.reactor, 0)
        yield _bytes_of(part, text[at : at + SLICE_CHARACTERS])


def _bytes_of(part: InlineSource, piece: str) -> bytes:
    """
    What *piece* says in base64's one spelling: alphabet, padding, spare bits exact.
    """
    try:
        data = binascii.a2b_base64(piece, strict_mode=True)
    except ValueError:  # binascii.Error is one
        raise _not_canonical(part) from None
    last = data[-(len(data) % 3 or 3) :]
    if binascii.b2a_base64(last, newline=False) != piece[-4:].encode():
        raise _not_canonical(part)
    return data


def _not_canonical(part: InlineSource) -> Exception:
    return invalid_field(part.param, "The base64 data are not canonical.")


async def _source(call: Call, part: SourcePart) -> Source:
    if isinstance(part, RemoteSource):
        return await import_source(call, part.url, _IMAGES, takes_work=False)
    if isinstance(part, OwnedSource):
        return await _owned(call, part)
    credit = call.gateway.budgets.body_credit.take(_size(part))
    try:
        with Spool() as spool:
            async for data in _decoded(call, part):
                spool.write(data)
            return await upload(
                call.gateway,
                call.caller,
                spool,
                _FORMATS[part.kind],
                origin="inline",
                param="messages.content",
            )
    finally:
        credit.release()


async def _owned(call: Call, part: OwnedSource) -> Source:
    """
    A source that the caller names: it has to be ready, and of the kind it is used as.
    """
    metadata = await media_read(call.gateway.client, call.caller, part.transfer_id)
    if metadata.format != _FORMATS[part.kind] or metadata.phase > MediaPhase.READY:
        raise refusal(ProblemCode.MEDIA_STATE)
    if metadata.phase != MediaPhase.READY:
        raise refusal(ProblemCode.MEDIA_STATE, may_pass=True)
    return Source(part.transfer_id, metadata)
