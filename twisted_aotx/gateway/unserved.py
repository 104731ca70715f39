"""
Routes of services that are off: the device is asked, and its refusal is the answer.

The shared service is reserved (`http.md` §4): its device answers 503. The question only
reads, so a device that does offer it loses nothing by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.wire.packet import RequestHeader

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Call
    from twisted_aotx.wire.numbers import Operation


async def refuse(call: Call, operation: Operation) -> NoReturn:
    """
    Ask the device *operation*, without a payload, and refuse the call as it does.

    Raises:
        DeviceRefused: always, unless the device cannot be asked or agrees.
        Problem: 503 `device_refused`: it agrees, but this gateway cannot serve it.
    """
    caller = call.caller
    header = RequestHeader(
        operation=operation, principal=caller.principal, revision=caller.revision
    )
    await call.gateway.client.ask(header)
    raise refusal(
        ProblemCode.DEVICE_REFUSED, None, "Not served by this gateway.", status=503
    )
