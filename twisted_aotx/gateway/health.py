"""
`/healthz` and `/readyz` (`http.md` §4, D21): no credential, no detail.

Ready follows the device, not this process: a probe is an INFO exchange, and any valid
reply to it is a sign of life, a refusal included. Probes are made on demand, one at a
time, when the last sign is older than `FRESH_SECONDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from twisted_aotx.errors import DeviceRefused
from twisted_aotx.gateway.answers import Answer
from twisted_aotx.gateway.problems import ProblemCode, refusal

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from twisted_aotx.client import Caller, DeviceClient
    from twisted_aotx.gateway.resource import Call

#: Seconds that a sign of life counts (`http.md` §4).
FRESH_SECONDS: Final = 5.0
#: Seconds that a caller waits for a probe; a probe itself may take longer.
PATIENCE_SECONDS: Final = 2.0


class Readiness:
    """
    When the device last gave a sign of life.
    """

    def __init__(
        self, client: DeviceClient, prober: Caller, reactor: IReactorTime
    ) -> None:
        self._client = client
        self._prober = prober
        self._reactor = reactor
        self._seen_at: float | None = None
        self._probing = False
        self._waiting: list[Deferred[None]] = []

    def probe_as(self, prober: Caller) -> None:
        """
        Make later probes as *prober*.
        """
        self._prober = prober

    async def is_ready(self) -> bool:
        """
        Whether the device answered within the last 5 s; asks it if nobody knows.
        """
        if not self._is_fresh():
            await self._probed()
        return self._is_fresh()

    def seen_lately(self) -> bool:
        """
        Whether the device answered within the last 5 s; nobody is asked.
        """
        return self._is_fresh()

    def _is_fresh(self) -> bool:
        seen = self._seen_at
        return seen is not None and self._reactor.seconds() - seen <= FRESH_SECONDS

    async def _probed(self) -> None:
        """
        Wait until the probe under way has ended, or patience has.
        """
        waiter: Deferred[None] = Deferred()
        self._waiting.append(waiter)
        patience = self._reactor.callLater(PATIENCE_SECONDS, self._release, waiter)
        if not self._probing:
            self._probing = True
            probe = Deferred.fromCoroutine(self._client.info(self._prober))
            probe.addCallbacks(self._answered, self._failed)
            probe.addCallback(self._ended)
        try:
            await waiter
        finally:
            if patience.active():
                patience.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _release(self, waiter: Deferred[None]) -> None:
        self._waiting.remove(waiter)
        waiter.callback(None)

    def _answered(self, _reply: object) -> None:
        self._seen_at = self._reactor.seconds()

    def _failed(self, failure: Failure) -> None:
        if failure.check(DeviceRefused):
            self._answered(None)

    def _ended(self, _result: object) -> None:
        self._probing = False
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.called:
                waiter.callback(None)


async def get_healthz(_call: Call) -> Answer:
    """
    The HTTP server answers.
    """
    return Answer(body={"status": "ok"})


async def get_readyz(call: Call) -> Answer:
    """
    The device answers too and this gateway goes on, else 503 `not_ready`.
    """
    gateway = call.gateway
    if gateway.closing.begun or not await gateway.readiness.is_ready():
        raise refusal(ProblemCode.NOT_READY)
    return Answer(body={"status": "ready"})
