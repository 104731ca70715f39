"""
One HTTP request as Twisted's channel feeds it, and how its body is asked for.

Rules:

1. It is served when its header is complete: checks that need no body refuse before the
   body is read (`http.md` §1, §3), and `bodies` decides when it is.
2. Until the body is asked for, the connection is paused after each delivery, so that at
   most one read of it (64 KiB) waits in memory.
3. A body is collected in memory, or handed piece by piece to the sink that its reader
   names; then nothing of it is kept here.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.web import server
from twisted.web.http import datetimeToString
from twisted.web.iweb import INonQueuedRequestFactory
from zope.interface import provider

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.problems import ProblemCode, refusal

if TYPE_CHECKING:
    from twisted_aotx.gateway.connection import Connection
    from twisted_aotx.gateway.routing import Route
    from twisted_aotx.gateway.site import GatewaySite

_DONE: Final = Failure(ConnectionDone())


@provider(INonQueuedRequestFactory)
class GatewayRequest(server.Request):
    """
    One HTTP request, from its header to the end of its answer.

    The body comes by `read_body`; Twisted's `content` stays empty.
    """

    defaultContentType = None
    channel: Connection

    def __init__(self, channel: Connection) -> None:
        super().__init__(channel, parsePOSTFormSubmission=False)
        #: Bytes of the body: 0 is none, None is chunked.
        self.body_length: int | None = 0
        #: Whether all of the body has arrived.
        self.body_complete = False
        self._body = bytearray()
        self._body_max: int | None = None
        self._too_long = ProblemCode.BODY_LIMIT
        #: Where pieces of the body go; may raise a `Problem`.
        self._sink: Callable[[bytes], object] | None = None
        self._body_fault: Problem | None = None
        self._reading: Deferred[bytes] | None = None
        self._continues = False
        #: For the journal: the route, once it is found; who asked, once that is proved.
        self.route: Route | None = None
        self.principal: bytes | None = None
        #: For the journal: `error.code`, whether a stream answers, bytes of body read
        #: (or given to the sink), and when the header was complete, by the reactor's
        #: clock.
        self.error_code = ""
        self.streamed = False
        self.body_bytes = 0
        self.began: float | None = None

    def __repr__(self) -> str:
        """
        Without the target that Twisted would show: whatever a caller put there is its.
        """
        label = "unknown" if self.route is None else self.route.label
        return f"<{type(self).__name__} at {id(self):#x} route={label}>"

    # --- called by the channel ---

    def head_received(
        self, method: bytes, target: bytes, version: bytes, length: int | None
    ) -> None:
        """
        The header is complete: serve the request.
        """
        self.method, self.uri, self.clientproto = method, target, version
        self.path = target.partition(b"?")[0]
        self.args = {}
        self.body_length = length
        self.body_complete = length == 0
        expect = self.getHeader(b"Expect") or b""
        self._continues = expect.lower() == b"100-continue" and version == b"HTTP/1.1"
        self.site: GatewaySite = self.channel.site
        self.began = self.site.gateway.reactor.seconds()
        self.setHeader(b"Date", datetimeToString())
        self.site.resource.render(self)

    def gotLength(self, length: int | None) -> None:
        """
        Twisted would make a file for the body here.
        """

    def handleContentChunk(self, data: bytes) -> None:
        """
        A part of the body arrived.
        """
        if self._body_fault is not None or self.finished:
            return
        self._continues = False
        self._body += data
        if self._reading is None:
            self.channel.pause_input()
        else:
            self._take()

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """
        The body is complete.
        """
        self.body_complete = True
        self._settle_body()

    def connectionLost(self, reason: Failure) -> None:
        """
        The client went: nobody reads an answer, no more body comes.
        """
        if self.began is not None:
            self.site.journal.ended(self, left=True)
        super().connectionLost(reason)
        reading, self._reading = self._reading, None
        self._body.clear()
        if reading is not None and not reading.called:
            reading.errback(reason)

    # --- called by bodies and answers ---

    def continue_if_asked(self) -> None:
        """
        Send `100 Continue` when the client waits for it.
        """
        if self._continues and not self._disconnected:
            self._continues = False
            self.channel.wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def read_body(
        self,
        bytes_max: int,
        *,
        too_long: ProblemCode = ProblemCode.BODY_LIMIT,
        sink: Callable[[bytes], object] | None = None,
    ) -> Deferred[bytes]:
        """
        The whole body, or nothing of it when *sink* gets the pieces. Once.

        The Deferred fails with a `Problem` when it is longer than *bytes_max*
        (*too_long*), cut short or badly framed, or when *sink* raises one, and with the
        connection's reason when the client went.
        """
        assert self._reading is None, "a body is read once"
        reading: Deferred[bytes] = Deferred()
        self._reading, self._body_max = reading, bytes_max
        self._too_long, self._sink = too_long, sink
        if self._disconnected:
            reading.errback(_DONE)
        elif self._take():
            self._settle_body()
            if not reading.called:
                self.channel.resume_input()
        return reading

    def fail_body(self, problem: Problem) -> None:
        """
        Whoever reads the body, now or later, gets *problem*.
        """
        self._body_fault = problem
        self._body.clear()
        self._settle_body()

    @property
    def is_last(self) -> bool:
        """
        Whether the gateway takes nothing more on this connection.
        """
        return self.site.gateway.closing.begun

    def close_after_answer(self) -> None:
        """
        This answer is the connection's last.
        """
        self.setHeader(b"Connection", b"close")
        self.channel.persistent = False
        self.channel.input_left = not self.body_complete

    def _take(self) -> bool:
        """
        Take what arrived; False when the body failed by it.
        """
        size = self.body_bytes + len(self._body)
        fault = None
        if self._body_max is not None and size > self._body_max:
            fault = refusal(self._too_long)
        elif self._sink is not None and self._body:
            try:
                self._sink(bytes(self._body))
            except Problem as problem:
                fault = problem
            self.body_bytes = size
            self._body.clear()
        if fault is not None:
            # First, because the answer may end this request.
            self.channel.pause_input()
            self.fail_body(fault)
        return fault is None

    def _settle_body(self) -> None:
        reading = self._reading
        if reading is None or reading.called:
            return
        if self._body_fault is not None:
            reading.errback(self._body_fault)
        elif self.body_complete:
            data = bytes(self._body)
            self._body.clear()
            size = len(data) + self.body_bytes
            if self.body_length is not None and size != self.body_length:
                reading.errback(refusal(ProblemCode.BODY_LENGTH))
            else:
                self.body_bytes = size
                reading.callback(data)
