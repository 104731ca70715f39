"""
Native requests: submit, read, cancel (`http.md` §6); `gateway.events` streams them.

Layer 4. A client that leaves never cancels native work [D20]. An unknown and a foreign
handle are the device's to refuse, in the same words [D22].
"""

from __future__ import annotations

from twisted_aotx.gateway.admission import admit
from twisted_aotx.gateway.events import events as events
from twisted_aotx.gateway.forms import native
from twisted_aotx.gateway.problems import invalid_field
from twisted_aotx.gateway.resource import Answer, Call
from twisted_aotx.gateway.status import handle_of, output, status


async def create(call: Call) -> Answer | None:
    """
    POST /aotx/v1/requests: admit the body; 202 as soon as the device took it.
    """
    admitted = await admit(call, native)
    if admitted is None:
        return None
    body = {
        "schema": "aotx.admission.v1",
        "id": str(admitted.handle),
        "runtime_epoch": str(admitted.handle.epoch),
        "state": "accepted",
        "persistence": "ephemeral",
        "media": list(admitted.media),
    }
    return Answer(202, body)


async def read(call: Call) -> Answer:
    """
    GET /aotx/v1/requests/{id}: STATUS with the output from the cursor.
    """
    handle = handle_of(call)
    cursor = call.cursor()
    window = await call.gateway.client.read(
        call.caller, handle.epoch, handle.id, cursor
    )
    return Answer(body=status(handle, window.reply, output(window, cursor)))


async def cancel(call: Call) -> Answer:
    """
    POST /aotx/v1/requests/{id}/cancel: STATUS with the output from 0.
    """
    handle = handle_of(call)
    if await call.json():
        raise invalid_field("body", "The body of a cancel is exactly {}.")
    window = await call.gateway.client.cancel(call.caller, handle.epoch, handle.id)
    return Answer(body=status(handle, window.reply, output(window, 0)))
