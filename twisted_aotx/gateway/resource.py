"""
What a handler gets and gives: `Call`, `Answer`, and the `Gateway` they live in.

A handler is `async def handler(call: Call) -> Answer | None`; it raises `Problem` (or
any exception that `problems.of_exception` knows) to refuse, and returns None when it
answered through `Call.start_stream`. `checks` made sure of everything that stands
before it in `http.md` §1; `dispatch` writes what it returns or raises, and frees what
it held on every path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from twisted.python.failure import Failure

from twisted_aotx import strictjson
from twisted_aotx.client import Caller, InfoReply
from twisted_aotx.gateway.answers import Answer, write_head
from twisted_aotx.gateway.bodies import JSON_TYPES, Body, Expected, read_body
from twisted_aotx.gateway.budgets import Hold
from twisted_aotx.gateway.gateway import Gateway
from twisted_aotx.gateway.problems import invalid_field
from twisted_aotx.gateway.stream import SSE_HEADERS, Stream

if TYPE_CHECKING:
    from twisted_aotx.gateway.settings import Principal
    from twisted_aotx.gateway.txrequest import GatewayRequest

__all__ = ("Answer", "Call", "Gateway", "Handler")

#: The largest cursor.
CURSOR_MAX: Final = 2**64 - 1
#: Digits of the longest cursor, leading zeros included.
CURSOR_DIGITS_MAX: Final = 20
#: Characters of the list of a request's sources in its header.
MEDIA_IDS_BYTES_MAX: Final = 4096


class Call:
    """
    One HTTP request after the checks. Its settings are those that it began under: what
    replaces them meanwhile is for later calls.

    Everything that it holds (work slot, body, credit) is freed when its answer ends or
    its client goes, whichever comes first, unless `keeping` says otherwise. A client
    that goes stops no handler: one that should stop looks at `gone` or asks
    `txrequest.notifyFinish`.
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
        self._keepers = 0
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

        The body's credit is held until `drop_body`, the start of a stream or the end of
        the call: what was parsed takes as much as the bytes did.

        Raises:
            Problem: 400 `body` or `body_length`, 408, 413, 415, 429.
        """
        json_bytes = self.settings.limits.json_bytes
        expected = Expected(content_types=JSON_TYPES, bytes_max=json_bytes)
        try:
            return strictjson.loads(await self.body(expected))
        except strictjson.StrictJSONError as error:
            message = f"The body is refused: {error.reason}."
            raise invalid_field("body", message) from None

    async def body(
        self, expected: Expected, sink: Callable[[bytes], object] | None = None
    ) -> bytes:
        """
        The body, once; with a *sink* it goes there, and nothing of it is here.
        """
        budgets, principal = self.gateway.budgets, self.principal.id
        self._body = await read_body(
            self.txrequest, budgets, expected, principal=principal, sink=sink
        )
        data, self._body.data = self._body.data, b""
        if self._ended:
            self.end()
        return data

    def drop_body(self) -> None:
        """
        Free the body's credit: what was in it is not needed any more.
        """
        if self._body is not None:
            self._body.release()

    def set_media_ids(self, handles: Iterable[str]) -> None:
        """
        Name the sources of the request in `X-AOTX-Media-Ids`, on errors too, unless
        there are none or more than fit (`http.md` §1).
        """
        value = ",".join(handles).encode("ascii")
        if 0 < len(value) <= MEDIA_IDS_BYTES_MAX:
            self.txrequest.responseHeaders.setRawHeaders(b"X-AOTX-Media-Ids", [value])

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
        self._holds.append(self.gateway.budgets.work.take())
        if self._ended:
            self.end()

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """
        Within this, what is held is not freed when the client goes: work that is done
        to its end keeps its slot and its credit.
        """
        self._keepers += 1
        try:
            yield
        finally:
            self._keepers -= 1
            if self._ended:
                self.end()

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
        Free everything that is held, now or when nothing keeps it. Idempotent.
        """
        self._ended = True
        if self._keepers:
            return
        self.drop_body()
        for hold in self._holds:
            hold.release()
        self._holds.clear()


#: Answers one call; None when a stream was the answer.
Handler = Callable[[Call], Awaitable[Answer | None]]
