"""
`/aotx/v1/media…` (`http.md` §8): off in this version, as `unserved` says.

The route table has checked the action of POST media (403 `media_forbidden`) and of
imports (403 `url_forbidden`); that of the others is the device's to check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted_aotx.gateway.unserved import refuse
from twisted_aotx.wire.handles import parse_media_handle
from twisted_aotx.wire.numbers import Operation

if TYPE_CHECKING:
    from twisted_aotx.gateway.answers import Answer
    from twisted_aotx.gateway.resource import Call


async def create(call: Call) -> Answer:
    """
    Upload or import a source.
    """
    await refuse(call, Operation.MEDIA_LIST)


async def list_sources(call: Call) -> Answer:
    """
    The caller's sources from a table position on.
    """
    await refuse(call, Operation.MEDIA_LIST, cursor=call.cursor())


async def source(call: Call) -> Answer:
    """
    One source of the caller, to be shown or removed.
    """
    await refuse(call, Operation.MEDIA_READ, id=parse_media_handle(call.args["id"]))
