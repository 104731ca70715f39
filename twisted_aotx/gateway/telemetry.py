"""
`GET /aotx/v1/telemetry`: one sample of the device's counters (`http.md` §4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted_aotx.gateway.answers import Answer

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Call


async def get_telemetry(call: Call) -> Answer:
    """
    A sample taken now. Without the action the device refuses it (403).
    """
    reply = await call.gateway.client.metrics(call.caller)
    information = reply.information
    return Answer(
        body={
            "schema": "aotx.telemetry.v1",
            "runtime_epoch": str(reply.epoch),
            "lineage": None,
            "sample": {
                "service_allocation_bytes": str(information.allocation_bytes),
                "tick": str(information.tick),
                "clock_nanoseconds": str(information.clock_ns),
            },
            "affect": None,
            "expression": None,
        }
    )
