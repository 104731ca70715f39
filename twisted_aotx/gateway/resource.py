"""
What a handler gets and gives: `Call`, `Answer`, and the `Gateway` they live in.

A handler is `async def handler(call: Call) -> Answer | None`; it raises `Problem` (or
any exception that `problems.of_exception` knows) to refuse, and returns None when it
answered through `Call.start_stream`. `checks` made sure of everything that stands
before it in `http.md` §1; `dispatch` writes what it returns or raises, and frees what
it held on every path.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from twisted.python.failure import Failure

from twisted_aotx import strictjson
from twisted_aotx.client import Caller, InfoReply
from twisted_aotx.gateway.answers import Answer, write_head
from twisted_aotx.gateway.bodies import JSON_TYPES, Body, read_body
from twisted_aotx.gateway.budgets import Budgets, Hold
from twisted_aotx.gateway.closing import Closing
from twisted_aotx.gateway.health import Readiness
from twisted_aotx.gateway.information import Informations
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.gateway.problems import invalid_field
from twisted_aotx.gateway.stream import SSE_HEADERS, Stream

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from twisted_aotx.client import DeviceClient
    from twisted_aotx.gateway.settings import GatewaySettings, Principal
    from twisted_aotx.gateway.txrequest import GatewayRequest

__all__ = ("Answer", "Call", "Gateway", "Handler")

#: The largest cursor.
CURSOR_MAX: Final = 2**64 - 1
#: Digits of the longest cursor, leading zeros included.
CURSOR_DIGITS_MAX: Final = 20


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
        #: Fresh unpredictable bytes, for request and transfer ids.
        self.random_bytes = random_bytes
        #: What *client* counts with, too.
        self.metrics = metrics or Metrics()
        self.budgets = Budgets(settings.limits, reactor)
        self.closing = Closing()
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

    def _prober(self) -> Caller:
        # Without principals nobody is granted anything: the device answers 403, which
        # is a sign of life like any other.
        principals = self.settings.principals
        some_id = principals[0].id if principals else self.random_bytes(16)
        return Caller(principal=some_id, revision=self.settings.revision)


class Call:
    """
    One HTTP request after the checks. Its settings are those that it began under: what
    replaces them meanwhile is for later calls.

    Everything that it holds (work slot, body, credit) is freed when its answer ends or
    its client goes, whichever comes first. A client that goes stops no handler: one
    that should stop looks at `gone` or asks `txrequest.notifyFinish`.
    """

    def __init__(
        self,
        gateway: Gateway,
        txrequest: GatewayRequest,
        *,
        principal: Principal | None,
        query: dict[str, str],
        args: dict[str, str],
    ) -> None:
        self.gateway = gateway
        self.settings = gateway.settings
        self.txrequest = txrequest
        #: Query keys and values, percent-decoded; only keys that the route knows.
        self.query = query
        #: The path arguments, percent-decoded, each in the form that its route asks.
        self.args = args
        #: Whether this is HEAD: `start_stream` sends headers only, `hold_work` nothing.
        self.head = txrequest.method == b"HEAD"
        #: Whether the client went before its answer ended.
        self.gone = False
        self._principal = principal
        self._holds: list[Hold] = []
        self._body: Body | None = None
        self._ended = False
        txrequest.notifyFinish().addCallbacks(self._finished, self._lost)

    @property
    def principal(self) -> Principal:
        """
        Who calls. Routes without a credential (health) have none and do not ask.
        """
        assert self._principal is not None, "a route without a credential"
        return self._principal

    @property
    def caller(self) -> Caller:
        """
        The principal as the device knows it.
        """
        return Caller(principal=self.principal.id, revision=self.settings.revision)

    async def information(self, *, fresh: bool = False) -> InfoReply:
        """
        The device's information for this principal, at most a second old.

        Args:
            fresh: Ask the device now, whatever is remembered.

        Raises:
            DeviceRefused, ExchangeFailed, InvalidReply, RemoteWireError: no answer
                that can be used; `dispatch` knows what each becomes.
        """
        return await self.gateway.informations.get(self.caller, fresh=fresh)

    def cursor(self) -> int:
        """
        The query's `cursor`: 0 .. 2^64 − 1, default 0 (`http.md` §4).

        Raises:
            Problem: 400 param `cursor`.
        """
        text = self.query.get("cursor", "0")
        if not (text.isascii() and text.isdigit() and len(text) <= CURSOR_DIGITS_MAX):
            raise invalid_field("cursor", "A cursor is 1 to 20 decimal digits.")
        value = int(text)
        if value > CURSOR_MAX:
            raise invalid_field("cursor", "A cursor is at most 2^64 - 1.")
        return value

    async def json(self) -> dict[str, Any]:
        """
        The JSON object in the body, by every rule of `http.md` §3.

        The body's bytes and their credit are held until `drop_body`, the start of a
        stream or the end of the call.

        Raises:
            Problem: 400 `body` or `body_length`, 408, 413, 415, 429.
        """
        body = await self.body(JSON_TYPES, self.settings.limits.json_bytes)
        try:
            return strictjson.loads(body)
        except strictjson.StrictJSONError as error:
            raise invalid_field(
                "body", f"The body is refused: {error.reason}."
            ) from None

    async def body(self, content_types: frozenset[bytes], bytes_max: int) -> bytes:
        """
        The body, once: at most *bytes_max* bytes of one of *content_types*.
        """
        self._body = await read_body(
            self.txrequest,
            self.gateway.budgets,
            principal=self.principal.id,
            content_types=content_types,
            bytes_max=bytes_max,
        )
        if self._ended:
            self._body.release()
        return self._body.data

    def drop_body(self) -> None:
        """
        Free the body and its credit: what was in it is not needed any more.
        """
        if self._body is not None:
            self._body.release()

    def set_request_id(self, handle: object) -> None:
        """
        Name the request in `X-Request-ID`, on errors too. `str(handle)` is sent.
        """
        value = str(handle).encode("ascii")
        self.txrequest.responseHeaders.setRawHeaders(b"X-Request-ID", [value])

    def hold_work(self) -> None:
        """
        Take a work slot until the call ends (`http.md` §3). HEAD takes none.

        Raises:
            Problem: 429 `transport_limit`, at once [D29].
        """
        if self.head:
            return
        hold = self.gateway.budgets.work.take()
        self._holds.append(hold)
        if self._ended:
            hold.release()

    def start_stream(self) -> Stream:
        """
        Answer 200 with an event stream [D23]: from here on errors are events.

        On HEAD only the headers are sent and the stream is gone from the start.
        """
        self.drop_body()
        self.txrequest.streamed = True
        write_head(self.txrequest, 200, SSE_HEADERS)
        return Stream(self.txrequest)

    def _finished(self, _result: object) -> None:
        self.end()

    def _lost(self, _reason: Failure) -> None:
        self.gone = True
        self.end()

    def end(self) -> None:
        """
        Free everything that is held. Idempotent.
        """
        self._ended = True
        self.drop_body()
        for hold in self._holds:
            hold.release()
        self._holds.clear()


#: Answers one call; None when a stream was the answer.
Handler = Callable[[Call], Awaitable[Answer | None]]
