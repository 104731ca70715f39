"""
The resident policy over the device's client: operation 12 (`wire.md` §11).

Every call may raise what `DeviceClient` says of all calls.
"""

from __future__ import annotations

import attrs

from twisted_aotx.client.device import Caller, DeviceClient
from twisted_aotx.errors import InvalidReply, RemoteWireError
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite


@attrs.frozen
class PolicyReply:
    """
    The answer to a read and to an accepted write.
    """

    #: The device's epoch.
    epoch: int
    report: PolicyReport


async def policy_read(client: DeviceClient, caller: Caller) -> PolicyReply:
    """
    Where the policy stands.

    Raises:
        DeviceRefused: 403.
    """
    return await _ask(client, caller)


async def policy_write(
    client: DeviceClient, caller: Caller, epoch: int, write: PolicyWrite
) -> PolicyReply:
    """
    Change the policy's controls, in the device's *epoch*; where it stands then.

    Raises:
        DeviceRefused: 403, 409, 410 or 429.
    """
    return await _ask(client, caller, epoch, write.pack())


async def _ask(
    client: DeviceClient, caller: Caller, epoch: int = 0, payload: bytes = b""
) -> PolicyReply:
    header = RequestHeader(
        operation=Operation.POLICY,
        principal=caller.principal,
        revision=caller.revision,
        epoch=epoch,
    )
    reply, data = await client.ask(header, payload)
    try:
        return PolicyReply(reply.epoch, PolicyReport.unpack(data))
    except RemoteWireError as broken:
        raise InvalidReply(str(broken)) from None
