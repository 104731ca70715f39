"""
From the body of a call to an admitted request: what both POST routes share. Layer 4.

Order: body → work slot → information → form → media → id → SUBMIT (`http.md` §5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from twisted_aotx.gateway.forms import Form, Terms
from twisted_aotx.gateway.inline import resolve
from twisted_aotx.gateway.models import models_of
from twisted_aotx.gateway.resource import Call
from twisted_aotx.wire.handles import RequestHandle
from twisted_aotx.wire.info import Information

#: `forms.completion` or `forms.native`.
Judge = Callable[[Mapping[str, Any], Terms], Form]


@attrs.frozen(kw_only=True)
class Admitted:
    """
    A request that the device took.
    """

    handle: RequestHandle
    form: Form
    #: Handles of its media, each once, in message order.
    media: tuple[str, ...]
    #: Bytes of output that the device keeps of one request.
    output_bytes: int


async def admit(call: Call, judge: Judge) -> Admitted | None:
    """
    Judge the body of *call* and submit it, unless the client has left before.

    Once SUBMIT was sent it is awaited to its end, so whoever cancels a request for a
    client that left knows whether there is one [D20].

    Raises:
        Problem: 429, and what the rules of the body and of media say.
        DeviceRefused, ExchangeFailed, InvalidReply: of INFO or SUBMIT; on those of
            SUBMIT the call already has its X-Request-ID and the handles of its media.
    """
    body = await call.json()
    # Not before: slow bodies of one caller would take the slots of everybody.
    call.hold_work()
    reply = await call.information()
    form = judge(body, _terms(call, reply.information))
    del body
    media: tuple[str, ...] = ()
    if form.media:
        sources = await resolve(call, form.media)
        form = form.settled(source.metadata.sha256 for source in sources)
        media = tuple(dict.fromkeys(source.handle for source in sources))
    call.drop_body()
    if call.gone:
        return None
    handle = RequestHandle(reply.epoch, call.gateway.fresh_id())
    call.set_request_id(handle)
    call.set_media_ids(media)
    await call.gateway.client.submit(
        call.caller, handle.epoch, handle.id, form.submission
    )
    label = call.settings.metric_labels.get(call.principal.id, "")
    call.gateway.metrics.admitted(handle.epoch, handle.id, form.model, label)
    return Admitted(
        handle=handle,
        form=form,
        media=media,
        output_bytes=reply.information.output_bytes,
    )


def _terms(call: Call, information: Information) -> Terms:
    """
    What the caller may use now: its aliases whose role the device lists for it.
    """
    models = models_of(call.settings, call.principal, information)
    return Terms(
        models={model.alias.alias: model.row for model in models},
        output_tokens=information.grant_tokens,
        prompt_bytes=information.prompt_bytes,
        control_selection=information.selection_version == 1,
    )
