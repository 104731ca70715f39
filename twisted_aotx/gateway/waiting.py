"""
Waiting: for a request's news, for time, for the client. Layer 4.

All waiting for output lies behind `windows`. It asks READ: at once, 5 ms after news,
then at doubled pauses up to 50 ms. Progress notices will replace the pauses where the
runtime offers them; nothing else has to know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from twisted_aotx.client import Caller, Window
from twisted_aotx.errors import InvalidReply
from twisted_aotx.gateway.resource import Call, Gateway
from twisted_aotx.wire.handles import RequestHandle
from twisted_aotx.wire.numbers import TERMINAL_PHASES

#: Seconds between two READs of one request: after news, and at most.
PAUSE_MIN: Final = 0.005
PAUSE_MAX: Final = 0.05

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
    pause = PAUSE_MIN
    while True:
        window = await gateway.client.read(caller, handle.epoch, handle.id, cursor)
        reply = window.reply
        if not window.data and cursor < reply.total_bytes:
            raise InvalidReply("no output where there is some")
        cursor += len(window.data)
        seen = (reply.phase, reply.cancel_requested, reply.failure_status)
        if window.data or seen != known:
            known = seen
            pause = PAUSE_MIN
            yield window
            if cursor < reply.total_bytes:
                continue
            if reply.phase in TERMINAL_PHASES:
                return
        await deferLater(gateway.reactor, pause)
        pause = min(2 * pause, PAUSE_MAX)


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
