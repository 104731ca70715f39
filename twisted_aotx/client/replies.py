"""
Replies: whether one answers a request (`wire.md` §3), and what callers get of it.
"""

from __future__ import annotations

from typing import Final

import attrs

from twisted_aotx.errors import DeviceRefused, InvalidReply, RemoteWireError
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.numbers import Status
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader, split_reply

#: Statuses from here on refuse.
_REFUSALS: Final = 400


@attrs.frozen
class InfoReply:
    """
    The answer to INFO and METRICS.
    """

    #: The device's epoch.
    epoch: int
    information: Information


@attrs.frozen
class Window:
    """
    The answer to READ and CANCEL: where a request stands, and bytes from a cursor.
    """

    reply: ReplyHeader
    #: Output from the cursor that was asked for; at most 65,408 bytes.
    data: bytes = attrs.field(repr=False)


def hold_to(
    header: RequestHeader,
    reply: ReplyHeader,
    payload: bytes,
    *,
    success: int = Status.OK,
) -> None:
    """
    Refuse what is not the *success* of *header*.

    Raises:
        DeviceRefused: the status is 400 or more.
        InvalidReply: it is another.
    """
    if reply.status >= _REFUSALS:
        raise DeviceRefused(header.operation, reply.status, payload, reply)
    if reply.status != success:
        raise InvalidReply(f"status {reply.status} instead of {success}")


def checked(header: RequestHeader, packet: bytes) -> tuple[ReplyHeader, bytes]:
    """
    Whether *packet* answers *header* (`wire.md` §3).
    """
    try:
        reply, payload = split_reply(packet)
    except RemoteWireError as broken:
        raise InvalidReply(str(broken)) from None
    for name in ("principal", "revision", "id"):
        if getattr(reply, name) != getattr(header, name):
            raise InvalidReply(f"the {name} is another")
    return reply, payload
