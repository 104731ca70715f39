"""
`/aotx/v1/shared/…`: reserved for a shared service, which is off (`http.md` §4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted_aotx.gateway.unserved import refuse
from twisted_aotx.wire.numbers import Operation

if TYPE_CHECKING:
    from twisted_aotx.gateway.answers import Answer
    from twisted_aotx.gateway.resource import Call


async def reserved(call: Call) -> Answer:
    """
    Any method, any path below, any query.
    """
    await refuse(call, Operation.SHARED_READ)
