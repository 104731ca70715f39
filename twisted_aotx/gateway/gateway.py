"""
What the handlers of one gateway share.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted_aotx.client import Caller
from twisted_aotx.gateway.budgets import Budgets
from twisted_aotx.gateway.closing import Closing
from twisted_aotx.gateway.health import Readiness
from twisted_aotx.gateway.imports_fetch import Fetcher
from twisted_aotx.gateway.information import Informations
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.gateway.pace import Pace

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from twisted_aotx.client import DeviceClient
    from twisted_aotx.gateway.settings import GatewaySettings, Principal


class Gateway:
    """
    What the handlers of one gateway share.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        client: DeviceClient,
        reactor: IReactorTime,
        *,
        wall_seconds: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        metrics: Metrics | None = None,
    ) -> None:
        self.settings = settings
        self.client = client
        self.reactor = reactor
        #: Seconds since 1970, for what callers see (`created`).
        self.wall_seconds = wall_seconds
        #: Fresh unpredictable bytes.
        self.random_bytes = random_bytes
        #: What *client* counts with, too.
        self.metrics = metrics or Metrics()
        self.budgets = Budgets(settings.limits, reactor)
        self.closing = Closing()
        self.pace = Pace(reactor)
        self.fetcher = Fetcher(reactor)
        self.informations = Informations(client, reactor)
        self.readiness = Readiness(client, self._prober(), reactor)

    def reconfigure(self, settings: GatewaySettings) -> None:
        """
        Have *settings* for every call that begins from now on.
        """
        self.settings = settings
        self.budgets.resize(settings.limits)
        self.informations.forget_all()
        self.readiness.probe_as(self._prober())

    def caller(self, principal: Principal) -> Caller:
        """
        *principal* as the device knows it.
        """
        return Caller(principal=principal.id, revision=self.settings.revision)

    def fresh_id(self) -> bytes:
        """
        128 random bits, not all zero, for a request or a transfer.
        """
        while not any(fresh := self.random_bytes(16)):
            pass
        return fresh

    def _prober(self) -> Caller:
        # Without principals nobody is granted anything: the device answers 403, which
        # is a sign of life like any other.
        principals = self.settings.principals
        some_id = principals[0].id if principals else self.random_bytes(16)
        return Caller(principal=some_id, revision=self.settings.revision)
