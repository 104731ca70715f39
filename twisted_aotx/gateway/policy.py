"""
`/aotx/v1/policy` (`http.md` §4): off in this version, as `unserved` says.

The route table has checked the action before any body is read (403
`policy_permission`), without the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted_aotx.gateway.unserved import refuse
from twisted_aotx.wire.numbers import Operation

if TYPE_CHECKING:
    from twisted_aotx.gateway.answers import Answer
    from twisted_aotx.gateway.resource import Call


async def policy(call: Call) -> Answer:
    """
    Read or change the policy's controls.
    """
    await refuse(call, Operation.POLICY)
