"""
Every route of the gateway in one table, and the site that serves them (`http.md` §4).
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.web import http, server

from twisted_aotx.gateway import (
    capabilities,
    completions,
    health,
    media,
    models,
    policy,
    requests,
    shared,
    telemetry,
)
from twisted_aotx.gateway.auth import Authenticator
from twisted_aotx.gateway.checks import Checks
from twisted_aotx.gateway.connection import Connection
from twisted_aotx.gateway.connections import Connections
from twisted_aotx.gateway.dispatch import Dispatcher
from twisted_aotx.gateway.problems import ProblemCode
from twisted_aotx.gateway.routing import ANY_METHOD, Needs, Route, Router
from twisted_aotx.gateway.txrequest import GatewayRequest
from twisted_aotx.wire.numbers import Action

if TYPE_CHECKING:
    from twisted_aotx.gateway.resource import Gateway

_INFER: Final = Needs(Action.INFER, ProblemCode.INFERENCE_FORBIDDEN)
_UPLOAD: Final = Needs(Action.UPLOAD, ProblemCode.MEDIA_FORBIDDEN)
_FETCH: Final = Needs(Action.FETCH, ProblemCode.URL_FORBIDDEN)
_POLICY_READ: Final = Needs(
    Action.TELEMETRY | Action.POLICY_MANAGE, ProblemCode.POLICY_PERMISSION
)
_POLICY_WRITE: Final = Needs(Action.POLICY_MANAGE, ProblemCode.POLICY_PERMISSION)

_REQUESTS: Final = "/aotx/v1/requests"
_REQUEST: Final = "/aotx/v1/requests/{id:request}"
_MEDIA: Final = "/aotx/v1/media"
_SOURCE: Final = "/aotx/v1/media/{id:media}"
_POLICY: Final = "/aotx/v1/policy"
_CURSOR: Final = ("cursor",)

#: Method, path, handler, query keys; what the caller needs, where we and not the device
#: check it; `public` for what is served without a credential.
ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/healthz", health.get_healthz, public=True),
    Route("GET", "/readyz", health.get_readyz, public=True),
    Route("GET", "/v1/models", models.list_models),
    Route("GET", "/v1/models/{id:path}", models.get_model),
    Route("POST", "/v1/chat/completions", completions.create, needs=_INFER),
    Route("GET", "/aotx/v1/capabilities", capabilities.get_capabilities),
    Route("POST", _REQUESTS, requests.create, needs=_INFER),
    Route("GET", _REQUEST, requests.read, _CURSOR),
    Route("POST", _REQUEST + "/cancel", requests.cancel),
    Route("GET", _REQUEST + "/events", requests.events, _CURSOR),
    Route("POST", _MEDIA, media.create, needs=_UPLOAD),
    Route("GET", _MEDIA, media.list_sources, _CURSOR),
    Route("POST", _MEDIA + "/import", media.create, needs=_FETCH),
    Route("GET", _SOURCE, media.source),
    Route("DELETE", _SOURCE, media.source),
    Route("GET", "/aotx/v1/telemetry", telemetry.get_telemetry),
    Route("GET", _POLICY, policy.policy, needs=_POLICY_READ),
    Route("POST", _POLICY, policy.policy, needs=_POLICY_WRITE),
    Route(ANY_METHOD, "/aotx/v1/shared/{rest:path}", shared.reserved, query=None),
)


class GatewaySite(server.Site):
    """
    The factory of a gateway's connections. It keeps no access log.
    """

    noisy = False

    def __init__(self, gateway: Gateway) -> None:
        checks = Checks(
            gateway, Router(ROUTES), Authenticator(gateway.settings.principals)
        )
        super().__init__(
            Dispatcher(checks),
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

    def close(self) -> None:
        """
        Leave no timer behind: no connection is open and none will be.
        """
        self.connections.close()
        self.gateway.budgets.close()

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
        Twisted would write a line of its access log here.
        """

    def acceptableProtocols(self) -> list[bytes]:
        """
        HTTP/1.1 only, also where a package for HTTP/2 is installed.
        """
        return [b"http/1.1"]


def make_site(gateway: Gateway) -> GatewaySite:
    """
    The site that serves *gateway*.
    """
    return GatewaySite(gateway)
