"""
What the device says to each principal, remembered for a moment.

Rules:

1. INFO of a principal is read when it is asked for and older than `KEPT_SECONDS`; calls
   that ask meanwhile share the exchange.
2. A failed exchange forgets what was remembered, and so does `forget`: a 403 or a 410
   says that the grants or the epoch are others now.
3. `fresh` always asks, so that lists of models are current.
4. What was told under one revision is never given to a caller of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from twisted_aotx.client import Caller, DeviceClient, InfoReply

#: Seconds that an answer is good for. Long enough to spare a busy gateway one exchange
#: per request, short enough that a model that came or went is noticed.
KEPT_SECONDS: Final = 1.0


@attrs.define
class _Entry:
    """
    What is known for one caller. Those of an older configuration are dropped with it.
    """

    reply: InfoReply | None = None
    read_at: float = 0.0
    #: Those that wait for the exchange under way; None when none is, or when it began
    #: before a `forget`.
    waiting: list[Deferred[InfoReply]] | None = None


class Informations:
    """
    INFO by caller.
    """

    def __init__(self, client: DeviceClient, reactor: IReactorTime) -> None:
        self._client = client
        self._reactor = reactor
        self._entries: dict[Caller, _Entry] = {}

    async def get(self, caller: Caller, *, fresh: bool = False) -> InfoReply:
        """
        INFO for *caller*, checked by every rule of `http.md` §3.

        Raises:
            DeviceRefused, ExchangeFailed, InvalidReply, RemoteWireError: no answer
                that can be used.
        """
        entry = self._entries.setdefault(caller, _Entry())
        if fresh:
            return await self._client.info(caller)
        age = self._reactor.seconds() - entry.read_at
        if entry.reply is not None and 0 <= age < KEPT_SECONDS:
            return entry.reply
        waiter: Deferred[InfoReply] = Deferred()
        if entry.waiting is None:
            entry.waiting = [waiter]
            self._read(caller, entry, entry.waiting)
        else:
            entry.waiting.append(waiter)
        return await waiter

    def forget(self, caller: Caller) -> None:
        """
        Ask the device again at the next call for *caller*.
        """
        entry = self._entries.pop(caller, None)
        if entry is not None:
            # An exchange under way serves those that wait for it, and nobody else.
            entry.reply = entry.waiting = None

    def forget_all(self) -> None:
        """
        Ask the device again at the next call for anybody.
        """
        for caller in list(self._entries):
            self.forget(caller)

    def _read(
        self, caller: Caller, entry: _Entry, waiting: list[Deferred[InfoReply]]
    ) -> None:
        """
        Ask once for all that wait. It outlives each of them: none can cancel it.
        """

        def done(reply: InfoReply) -> None:
            if entry.waiting is waiting:
                entry.waiting = None
                entry.reply, entry.read_at = reply, self._reactor.seconds()
            for waiter in _left(waiting):
                waiter.callback(reply)

        def failed(failure: Failure) -> None:
            if entry.waiting is waiting:
                entry.reply = entry.waiting = None
            for waiter in _left(waiting):
                waiter.errback(failure.value)

        asking = Deferred.fromCoroutine(self._client.info(caller))
        asking.addCallbacks(done, failed)


def _left(waiting: list[Deferred[InfoReply]]) -> list[Deferred[InfoReply]]:
    # A waiter that was cancelled was called already.
    return [waiter for waiter in waiting if not waiter.called]
