"""
The device's client with a stop-watch: every exchange is counted (`metrics`).
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.client import DeviceClient
from twisted_aotx.errors import ExchangeFailed, InvalidReply
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader

#: Statuses from here on refuse.
_REFUSALS = 400


class MeasuredClient(DeviceClient):
    """
    A `DeviceClient` of a gateway; *arguments* are its.
    """

    def __init__(
        self, metrics: Metrics, reactor: Any, socket_path: str, **arguments: Any
    ) -> None:
        super().__init__(reactor, socket_path, **arguments)
        self._metrics = metrics
        self._reactor = reactor
        #: Calls that wait for a connection or for a reply.
        self.under_way = 0

    async def exchange(
        self, header: RequestHeader, payload: bytes = b""
    ) -> tuple[ReplyHeader, bytes]:
        """
        See `DeviceClient`.
        """
        operation = Operation(header.operation)
        began = self._reactor.seconds()
        self.under_way += 1
        try:
            reply, data = await super().exchange(header, payload)
        except (ExchangeFailed, InvalidReply) as error:
            name = type(error).__name__
            self._metrics.exchange_failed(operation.name.lower(), name)
            raise
        finally:
            self.under_way -= 1
        seconds = self._reactor.seconds() - began
        self._metrics.exchanged(operation.name.lower(), reply.status, seconds)
        self._look(operation, header, reply)
        return reply, data

    def _look(
        self, operation: Operation, header: RequestHeader, reply: ReplyHeader
    ) -> None:
        if reply.status >= _REFUSALS:
            return
        if operation is Operation.CANCEL:
            self._metrics.cancelled(header.epoch, header.id)
        if operation in (Operation.READ, Operation.CANCEL):
            self._metrics.outcomes.seen(header.epoch, header.id, reply)
