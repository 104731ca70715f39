"""
`GET /metrics`: what `metrics` has counted (`http.md` §4, D21).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from twisted_aotx.gateway.answers import Answer

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Call


async def get_metrics(call: Call) -> Answer:
    """
    Prometheus text. The route table has checked the action.
    """
    return Answer(
        raw=call.gateway.metrics.text(),
        content_type=CONTENT_TYPE_PLAIN_0_0_4.encode(),
    )
