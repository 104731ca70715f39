"""
`/aotx/v1/media…`: sources uploaded, listed, shown, removed (`http.md` §8).

The route table has checked the action of POST media (403 `media_forbidden`) and of
imports (403 `url_forbidden`); that of the others is the device's to check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from twisted_aotx.client.media import media_frame, media_list, media_read
from twisted_aotx.errors import DeviceRefused
from twisted_aotx.gateway.answers import Answer
from twisted_aotx.gateway.bodies import Expected, content_type
from twisted_aotx.gateway.imports import import_source
from twisted_aotx.gateway.media_spool import Spool
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal
from twisted_aotx.gateway.uploads import Source, upload
from twisted_aotx.wire.handles import media_handle, parse_media_handle
from twisted_aotx.wire.media import MediaFrame, Metadata
from twisted_aotx.wire.numbers import MediaFormat, Status

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Call

#: Content types to formats of sources.
FORMATS: Final = {
    b"image/jpeg": MediaFormat.JPEG,
    b"audio/wav": MediaFormat.WAV,
    b"audio/x-wav": MediaFormat.WAV,
}


async def create(call: Call) -> Answer:
    """
    POST /aotx/v1/media: the body is a source.

    Once it is whole it is sent to the device, also when the client goes meanwhile; the
    list tells what became of it.
    """
    bytes_max = min(call.settings.limits.upload_bytes, call.principal.media_bytes)
    expected = Expected(
        content_types=frozenset(FORMATS),
        bytes_max=bytes_max,
        wrong_type=ProblemCode.MEDIA_TYPE,
        too_long=ProblemCode.MEDIA_LIMIT,
    )
    with call.keeping(), Spool() as spool:
        await call.body(expected, spool.write)
        if not spool.size:
            raise refusal(ProblemCode.MEDIA_LIMIT)
        call.hold_work()
        format = FORMATS[content_type(call.txrequest)]
        return _created(await upload(call.gateway, call.caller, spool, format))


async def create_from_url(call: Call) -> Answer:
    """
    POST /aotx/v1/media/import: a source is fetched from the URL in the body.
    """
    body = await call.json()
    if body.keys() != {"url"}:
        raise invalid_field("body", 'The body is exactly {"url": …}.')
    call.drop_body()
    return _created(await import_source(call, body["url"], FORMATS, takes_work=True))


async def list_sources(call: Call) -> Answer:
    """
    GET /aotx/v1/media: the caller's sources from a table position on.
    """
    page = await media_list(call.gateway.client, call.caller, call.cursor())
    return Answer(
        body={
            "schema": "aotx.media-list.v1",
            "runtime_epoch": str(page.epoch),
            "data": [_shown(row.transfer_id, row.metadata) for row in page.rows],
            "next_cursor": str(page.next_cursor) if page.next_cursor else None,
            "consistency": "current",
        }
    )


async def show(call: Call) -> Answer:
    """
    GET /aotx/v1/media/{id}: one source of the caller, a refused one included.
    """
    transfer_id = _transfer_id(call)
    metadata = await media_read(call.gateway.client, call.caller, transfer_id)
    return Answer(body=_shown(transfer_id, metadata))


async def remove(call: Call) -> Answer:
    """
    DELETE /aotx/v1/media/{id}: 204 once the removal is saved.
    """
    frame = MediaFrame.cancel(_transfer_id(call))
    try:
        await media_frame(call.gateway.client, call.caller, frame)
    except DeviceRefused as refused:
        if refused.status != Status.CONFLICT:
            raise
        # A request leases it; its end frees it.
        raise refusal(
            ProblemCode.DEVICE_REFUSED, status=refused.status, may_pass=True
        ) from None
    return Answer(204)


def _transfer_id(call: Call) -> bytes:
    """
    The id in the path; its form was checked by the route.
    """
    transfer_id = parse_media_handle(call.args["id"])
    if not any(transfer_id):
        raise invalid_field("request_id", "The id of a handle is not zero.")
    return transfer_id


def _created(source: Source) -> Answer:
    return Answer(201, _shown(source.transfer_id, source.metadata))


def _shown(transfer_id: bytes, metadata: Metadata) -> dict[str, Any]:
    """
    MEDIA.
    """
    return {
        "id": media_handle(transfer_id),
        "sha256": metadata.sha256.hex(),
        "bytes": str(metadata.source_bytes),
        "phase": metadata.phase,
        "status": metadata.status,
        "format": metadata.format,
        "samples": metadata.samples,
        "rows": metadata.rows,
    }
