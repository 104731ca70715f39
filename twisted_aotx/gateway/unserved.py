"""
Routes of services that are off: the device is asked, and its refusal is the answer.

Media, policy and the shared service are part of the contract (`http.md` §4) and not yet
of this version: their devices answer 503. Every question here only reads, so a device
that does offer one of them loses nothing by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from twisted_aotx.errors import DeviceRefused
from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.wire.packet import RequestHeader

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Call
    from twisted_aotx.wire.numbers import Operation


async def refuse(
    call: Call, operation: Operation, *, id: bytes = bytes(16), cursor: int = 0
) -> NoReturn:
    """
    Ask the device *operation*, without a payload, and refuse the call as it does.

    Args:
        id: 16 bytes.
        cursor: 0 .. 2^64 − 1.

    Raises:
        DeviceRefused: always, unless the device cannot be asked or agrees.
        Problem: 503 `device_refused`: it agrees, but this gateway cannot serve it.
    """
    caller = call.caller
    header = RequestHeader(
        operation=operation,
        principal=caller.principal,
        revision=caller.revision,
        id=id,
        cursor=cursor,
    )
    reply, payload = await call.gateway.client.exchange(header)
    if reply.status >= 400:
        raise DeviceRefused(operation, reply.status, payload, reply)
    raise refusal(
        ProblemCode.DEVICE_REFUSED, None, "Not served by this gateway.", status=503
    )
