"""
The event stream of one answer: bytes out, back-pressure in, and a client that may go.

`sse` drives it and knows what an event is; this file knows none.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

if TYPE_CHECKING:
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: D23. `no-store` of the base headers is replaced.
SSE_HEADERS: Final = (
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-store, no-transform"),
    (b"X-Accel-Buffering", b"no"),
)


@implementer(IPushProducer)
class Stream:
    """
    Made by `Call.start_stream`, which has set the status and headers.

    Order of calls: `write` any number of times, `await drained()` before making more,
    `finish` once. All of them may be called after the client went and then do nothing.
    """

    def __init__(self, txrequest: GatewayRequest) -> None:
        self._txrequest = txrequest
        self._waiting: list[Deferred[None]] = []
        # An answer before this one may still be on its way out.
        self._paused = txrequest.channel.blocked
        self._done = False
        #: Whether nobody reads any more; on HEAD from the start.
        self.gone = False
        txrequest.notifyFinish().addErrback(self._lost)
        txrequest.write(b"")
        if txrequest.method == b"HEAD":
            self.finish()
            self.gone = True
        else:
            txrequest.registerProducer(self, True)

    def write(self, data: bytes) -> None:
        """
        Send *data* as soon as the connection takes it.
        """
        if not self.gone and not self._done:
            self._txrequest.write(data)

    async def drained(self) -> None:
        """
        Wait until the client has taken what was written, or is gone.
        """
        if self._paused and not self.gone:
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting

    def finish(self) -> None:
        """
        End the answer. Idempotent.
        """
        if self.gone or self._done:
            return
        self._done = True
        if self._txrequest.producer is self:
            self._txrequest.unregisterProducer()
        self._txrequest.finish()

    def pauseProducing(self) -> None:
        """
        The connection holds more than it should (called by the transport).
        """
        self._paused = True

    def resumeProducing(self) -> None:
        """
        The connection takes bytes again (called by the transport).
        """
        self._paused = False
        self._wake()

    def stopProducing(self) -> None:
        """
        The connection is closing; `notifyFinish` tells the rest.
        """

    def _lost(self, _reason: Failure) -> None:
        self.gone = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            # A cancelled one was called already.
            if not waiter.called:
                waiter.callback(None)
