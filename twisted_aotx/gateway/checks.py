"""
What every HTTP request is held to before its handler sees it, in one place.

The order is contract (`http.md` §1), the first failure wins:

1. headers that stand twice (400 `headers`);
2. an Origin that is not configured (403); an allowed one is echoed on every answer;
   an expectation that cannot be met (417);
3. OPTIONS is answered (preflight);
4. a gateway that is going to end takes nothing more (503), but tells its health;
   `/healthz` and `/readyz` skip the next step;
5. authentication (401);
6. a body on GET, HEAD or DELETE (400 `body`);
7. the query: unknown or repeated keys (400 `query`);
8. the route: unknown path (404), other method (405);
9. the action that the route asks of its caller (403).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import attrs

from twisted_aotx.gateway.answers import BASE_HEADERS, Answer
from twisted_aotx.gateway.problems import ProblemCode, invalid_field, refusal
from twisted_aotx.gateway.resource import Call
from twisted_aotx.gateway.routing import (
    Place,
    Route,
    Router,
    decoded_path,
    handle_in,
)

if TYPE_CHECKING:
    from twisted_aotx.gateway.auth import Authenticator
    from twisted_aotx.gateway.resource import Gateway
    from twisted_aotx.gateway.settings import Principal
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Headers that may stand once.
_SINGLE: Final = (
    b"Authorization",
    b"Origin",
    b"Content-Type",
    b"Expect",
    b"Last-Event-ID",
)
_BODILESS: Final = frozenset({"GET", "HEAD", "DELETE"})
_PREFLIGHT_METHODS: Final = (b"GET", b"POST", b"DELETE")
#: Request headers that pages may always send, as the answer lists them.
_PREFLIGHT_HEADERS: Final = ("Authorization", "Content-Type", "Last-Event-ID")
#: Further ones that browsers' SDKs send [D28].
_PREFLIGHT_OTHERS: Final = re.compile(
    r"x-request-id|(?:x-stainless-|openai-)[!#$%&'*+.^_`|~0-9a-z-]*"
)
_EXPOSED: Final = b"X-Request-ID, X-AOTX-Media-Ids, Retry-After"


@attrs.frozen
class Passed:
    """
    A request that passed: its route and what its handler gets.
    """

    route: Route
    call: Call


class Checks:
    """
    The checks of one gateway.
    """

    def __init__(
        self, gateway: Gateway, router: Router, authenticator: Authenticator
    ) -> None:
        self._gateway = gateway
        self.router = router
        self._authenticator = authenticator
        self._origins = frozenset(o.encode() for o in gateway.settings.origins)

    def run(self, txrequest: GatewayRequest) -> Passed | Answer:
        """
        Check *txrequest*; an `Answer` is that of a preflight.

        Sets the headers that every answer to it has, a refusal included.

        Raises:
            Problem: a check failed.
        """
        for name, value in BASE_HEADERS:
            txrequest.responseHeaders.setRawHeaders(name, [value])
        path = decoded_path(txrequest.uri)
        handle = handle_in(path)
        if handle is not None:
            txrequest.responseHeaders.setRawHeaders(b"X-Request-ID", [handle.encode()])
        is_allowed = self._echo_origin(txrequest)
        _check_single(txrequest)
        if not is_allowed:
            raise refusal(ProblemCode.ORIGIN_FORBIDDEN)
        _check_expectation(txrequest)
        if txrequest.method == b"OPTIONS":
            return _preflight(txrequest)
        method = txrequest.method.decode("ascii")
        found = None if path is None else self.router.find(path)
        place, args = found or (None, {})
        principal = None
        if self._gateway.closing.begun and not (place and place.public):
            raise refusal(ProblemCode.SERVICE_CLOSED)
        if place is None or not place.public:
            principal = self._authenticated(txrequest)
        if method in _BODILESS and txrequest.body_length != 0:
            raise invalid_field("body", "This method takes no body.")
        query = _query(txrequest, place, method)
        route = _route(place, method)
        txrequest.route = route
        _check_action(route, principal)
        call = Call(
            self._gateway, txrequest, principal=principal, query=query, args=args
        )
        return Passed(route, call)

    def _echo_origin(self, txrequest: GatewayRequest) -> bool:
        """
        Whether the Origin, if there is one, is allowed; it is echoed then.
        """
        origins = txrequest.requestHeaders.getRawHeaders(b"Origin", [])
        if not origins:
            return True
        if len(origins) > 1 or origins[0] not in self._origins:
            return False
        headers = txrequest.responseHeaders
        headers.setRawHeaders(b"Access-Control-Allow-Origin", origins)
        headers.setRawHeaders(b"Access-Control-Expose-Headers", [_EXPOSED])
        return True

    def _authenticated(self, txrequest: GatewayRequest) -> Principal:
        authorization = txrequest.getHeader(b"Authorization")
        principal = self._authenticator.principal(authorization)
        if principal is None:
            raise refusal(ProblemCode.INVALID_API_KEY)
        txrequest.principal = principal.id
        return principal


def _check_single(txrequest: GatewayRequest) -> None:
    for name in _SINGLE:
        if len(txrequest.requestHeaders.getRawHeaders(name, [])) > 1:
            raise invalid_field("headers", "A header stands twice.")


def _check_expectation(txrequest: GatewayRequest) -> None:
    expect = txrequest.getHeader(b"Expect")
    if expect is not None and expect.lower() != b"100-continue":
        raise refusal(ProblemCode.EXPECTATION)


def _preflight(txrequest: GatewayRequest) -> Answer:
    """
    What a page of an allowed origin may send (`http.md` §1, D28).
    """
    headers = txrequest.requestHeaders
    if txrequest.getHeader(b"Origin") is None:
        raise invalid_field("Origin", "OPTIONS needs an Origin.")
    methods = headers.getRawHeaders(b"Access-Control-Request-Method", [])
    if len(methods) != 1 or methods[0] not in _PREFLIGHT_METHODS:
        raise invalid_field("headers", "The method asked for is not offered.")
    lines = headers.getRawHeaders(b"Access-Control-Request-Headers", [])
    asked = b",".join(lines).decode("latin-1").lower().split(",")
    usual = {name.lower() for name in _PREFLIGHT_HEADERS}
    others: dict[str, None] = {}
    for name in (name.strip(" \t") for name in asked):
        if not name or name in usual:
            continue
        if _PREFLIGHT_OTHERS.fullmatch(name) is None:
            raise invalid_field("headers", "A header asked for is not accepted.")
        others[name] = None
    allowed = ", ".join((*_PREFLIGHT_HEADERS, *others)).encode()
    return Answer(
        204,
        headers=(
            (b"Access-Control-Allow-Methods", b", ".join(_PREFLIGHT_METHODS)),
            (b"Access-Control-Allow-Headers", allowed),
        ),
    )


def _query(
    txrequest: GatewayRequest, place: Place | None, method: str
) -> dict[str, str]:
    """
    The query's keys and values; keys must be known and stand once. Empty where a route
    takes any query.
    """
    text = txrequest.uri.partition(b"?")[2]
    route = place.route(method) if place is not None else None
    if not text or (route is not None and route.query is None):
        return {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise invalid_field("query", "The query is not acceptable.") from None
    query = dict(pairs)
    for key in query:
        if route is not None:
            known = key in (route.query or ())
        else:
            known = place is not None and place.knows(key)
        if not known:
            raise invalid_field("query", "A query key is not known here.")
    if len(query) != len(pairs):
        raise invalid_field("query", "A query key stands twice.")
    return query


def _route(place: Place | None, method: str) -> Route:
    if place is None:
        raise refusal(ProblemCode.ROUTE_NOT_FOUND)
    route = place.route(method)
    if route is None:
        raise refusal(ProblemCode.METHOD, headers=(("Allow", place.allow()),))
    return route


def _check_action(route: Route, principal: Principal | None) -> None:
    needs = route.needs
    if needs is not None and (
        principal is None or not principal.actions & needs.actions
    ):
        raise refusal(needs.code, status=403)
