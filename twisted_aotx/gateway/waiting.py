"""
Waiting: for a request's news, for time, for the client. Layer 4.

All waiting for output lies behind `windows`. It asks READ: at once, and then whenever
the runtime gives notice of progress, all requests together at a bounded pace, so that
what comes fast is read in larger parts. Where it gives none it asks 5 ms after news,
then at doubled pauses up to 50 ms. Nothing else has to know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from twisted_aotx.client import Caller, Window
from twisted_aotx.errors import InvalidReply
from twisted_aotx.gateway.pace import Pace
from twisted_aotx.gateway.resource import Call, Gateway
from twisted_aotx.wire.handles import RequestHandle
from twisted_aotx.wire.numbers import TERMINAL_PHASES

#: Seconds between two READs of one request: after news, and at most.
PAUSE_MIN: Final = 0.005
PAUSE_MAX: Final = 0.05
#: Notices without news that are followed by a READ at once.
IDLE_NOTICES: Final = 2

_T = TypeVar("_T")


class TimeUp(Exception):
    """
    The work was not done in its time and was stopped.
    """


class ClientLeft(Exception):
    """
    The HTTP client's connection ended first; the work was stopped.
    """


async def windows(
    gateway: Gateway, caller: Caller, handle: RequestHandle, cursor: int
) -> AsyncIterator[Window]:
    """
    A request's windows from *cursor* on: the first at once, then one for each news.

    News are bytes or a change of (phase, cancel flag, failure status). The last window
    is the one after which an ended request has no byte left. While the consumer is
    busy nothing is read ahead.

    Raises:
        DeviceRefused: a READ was refused.
        ExchangeFailed, InvalidReply: a READ was not answered as it must be.
    """
    known = None
    pauses = Pauses(gateway.reactor, gateway.pace)
    while True:
        window = await gateway.client.read(caller, handle.epoch, handle.id, cursor)
        reply = window.reply
        if not window.data and cursor < reply.total_bytes:
            raise InvalidReply("no output where there is some")
        cursor += len(window.data)
        seen = (reply.phase, reply.cancel_requested, reply.failure_status)
        if window.data or seen != known:
            known = seen
            pauses.news()
            yield window
            if cursor < reply.total_bytes:
                continue
            if reply.phase in TERMINAL_PHASES:
                return
        told = gateway.client.changed(caller, handle.epoch, handle.id, window)
        if told is None:
            await pauses.pause()
        elif await told:
            await pauses.noticed()


class Pauses:
    """
    Between the READs of one request, as long as none brings news.
    """

    def __init__(self, clock: IReactorTime, pace: Pace) -> None:
        self._clock = clock
        self._pace = pace
        self.news()

    def news(self) -> None:
        """A READ brought news: the next pause is the shortest."""
        self._seconds = PAUSE_MIN
        #: Notices since the last news.
        self._notices = 0

    async def pause(self) -> None:
        """Nobody tells of news: wait, longer each time."""
        await deferLater(self._clock, self._seconds)
        self._seconds = min(2 * self._seconds, PAUSE_MAX)

    async def noticed(self) -> None:
        """
        A notice came: wait for a turn only, unless the last ones were all idle.

        One is, when a request is watched for the first time; more would be a fault of
        the runtime's, which must not have us ask without a pause.
        """
        self._notices += 1
        if self._notices > IDLE_NOTICES:
            await self.pause()
            return
        delay = self._pace.delay()
        if delay > 0:
            await deferLater(self._clock, delay)


def when_gone(call: Call) -> Deferred[None]:
    """
    A Deferred of its own for each caller, that fires when the client of *call* went.
    """
    gone: Deferred[None] = Deferred()
    if call.gone:
        gone.callback(None)
    else:
        call.txrequest.notifyFinish().addErrback(lambda _: gone.callback(None))
    return gone


async def within(
    work: Coroutine[Deferred[Any], Any, _T],
    *,
    clock: IReactorTime,
    seconds: float,
    left: Deferred[None] | None = None,
) -> _T:
    """
    Await *work*, but no longer than *seconds*, nor than until *left* fires.

    The work is cancelled then and has ended when this raises.

    Raises:
        TimeUp: the time was up.
        ClientLeft: *left* fired.
    """
    task = Deferred.fromCoroutine(work)
    cause: list[type[Exception]] = []

    def stop() -> None:
        cause.append(TimeUp)
        task.cancel()

    timer = clock.callLater(max(seconds, 0), stop)

    def client_left(result: None) -> None:
        # In a turn of its own: this may be called by what the work itself does, and a
        # running coroutine cannot be cancelled.
        if timer.active():
            cause.append(ClientLeft)
            timer.reset(0)
        return result

    if left is not None:
        left.addCallback(client_left)
    try:
        return await task
    except CancelledError:
        if cause:
            raise cause[0]() from None
        raise
    finally:
        if timer.active():
            timer.cancel()
