"""
The site: what makes the connections of a gateway, and knows all of them.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from twisted.web import http, server

from twisted_aotx.gateway.auth import Authenticator
from twisted_aotx.gateway.checks import Checks
from twisted_aotx.gateway.connection import Connection
from twisted_aotx.gateway.connections import Connections
from twisted_aotx.gateway.dispatch import Dispatcher
from twisted_aotx.gateway.journal import Journal
from twisted_aotx.gateway.routes import ROUTES
from twisted_aotx.gateway.routing import Router
from twisted_aotx.gateway.txrequest import GatewayRequest

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Gateway
    from twisted_aotx.gateway.settings import GatewaySettings, Limits


class GatewaySite(server.Site):
    """
    The factory of a gateway's connections.
    """

    noisy = False

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(
            _dispatcher(gateway),
            requestFactory=GatewayRequest,
            parsePOSTFormSubmission=False,
            # `Connections` keeps the time.
            timeout=None,
            reactor=gateway.reactor,
        )
        # Twisted's own is a proxy that may turn to HTTP/2.
        self.protocol = Connection  # type: ignore[assignment, method-assign]
        self.gateway = gateway
        self.connections = Connections(gateway.settings, gateway.reactor)
        self.journal = Journal(gateway)
        #: What `metrics` says there is of each budget.
        self._limits = _limits_of(gateway.settings.limits)
        gateway.metrics.watch(
            held=self._held,
            limits=self._limits,
            is_ready=gateway.readiness.seen_lately,
        )

    def reconfigure(self, settings: GatewaySettings) -> None:
        """
        Serve by *settings* from now on; calls that are being served stay as they are.

        *settings* differ in nothing that needs a restart (`replacement`).
        """
        self.gateway.reconfigure(settings)
        self.connections.change(settings)
        self._limits.update(_limits_of(settings.limits))
        self.resource = _dispatcher(self.gateway)

    def close(self) -> None:
        """
        Leave no timer behind: no connection is open and none will be.
        """
        self.connections.close()
        self.journal.close()
        self.gateway.budgets.close()

    def _held(self) -> dict[str, int]:
        """
        What is in use of every budget, now.
        """
        return {
            "connections": self.connections.in_use,
            **self.gateway.budgets.held(),
            "wire_connections": self.gateway.client.connections_in_use,
        }

    def startFactory(self) -> None:
        """
        Twisted would open its access log here.
        """

    def stopFactory(self) -> None:
        """
        Twisted would close its access log here.
        """

    def log(self, request: http.Request) -> None:
        """
        A request was answered (called by Twisted).
        """
        self.journal.ended(cast(GatewayRequest, request))

    def acceptableProtocols(self) -> list[bytes]:
        """
        HTTP/1.1 only, also where a package for HTTP/2 is installed.
        """
        return [b"http/1.1"]


def _dispatcher(gateway: Gateway) -> Dispatcher:
    authenticator = Authenticator(gateway.settings.principals)
    return Dispatcher(Checks(gateway, Router(ROUTES), authenticator))


def _limits_of(limits: Limits) -> dict[str, int]:
    return {
        "connections": limits.connections,
        "work": limits.work,
        "fetches": limits.fetches,
        "bodies": limits.connections,
        "body_credit": limits.body_credit,
        "body_readers": limits.body_readers,
        "body_waiters": limits.connections,
        "wire_connections": limits.wire_connections,
    }


def make_site(gateway: Gateway) -> GatewaySite:
    """
    The site that serves *gateway*.
    """
    return GatewaySite(gateway)
