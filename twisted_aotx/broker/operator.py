"""
The operator's channel: one exchange at a time on channel 0.

An exchange that the device does not answer in time is given up, but the mailbox stays
taken until the reply: the next exchange waits for that, and a late reply is told,
because what it says has happened (`device.md` §16).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from twisted_aotx.devices import IMailboxes
from twisted_aotx.errors import ChannelBusy, ServiceClosed
from twisted_aotx.seqpacket import PacketClock

#: The channel that no peer gets.
OPERATOR_CHANNEL: Final = 0


@attrs.define(eq=False)
class _Wait:
    """
    Somebody who waits, until a time.
    """

    result: Deferred[bytes | None]
    timer: IDelayedCall

    def end(self) -> Deferred[bytes | None] | None:
        """What is to be fired now; None if the time was over before."""
        if not self.timer.active():
            return None
        self.timer.cancel()
        return self.result


class OperatorChannel:
    """
    Sends packets to the device on the operator's behalf.
    """

    def __init__(
        self, clock: PacketClock, mailboxes: IMailboxes, *, seconds: float
    ) -> None:
        self._clock = clock
        self._mailboxes = mailboxes
        self._seconds = seconds
        #: Whether the mailbox is the device's.
        self._is_taken = False
        #: Who waits for the reply, and who is told of a late one.
        self._asking: _Wait | None = None
        self._late: Callable[[bytes], object] | None = None
        #: Who waits for the mailbox.
        self._queued: _Wait | None = None

    def exchange(
        self, packet: bytes, late: Callable[[bytes], object]
    ) -> Deferred[bytes | None]:
        """
        Publish *packet*; fires with the reply, or with None if there is none in time.

        *late* is called with a reply that comes after that.

        Raises:
            ChannelBusy: an earlier packet has no reply yet; see `turn`.
        """
        if self._is_taken:
            raise ChannelBusy(OPERATOR_CHANNEL)
        self._mailboxes.publish(OPERATOR_CHANNEL, packet)
        self._is_taken = True
        self._late = late
        self._asking = self._wait()
        return self._asking.result

    def turn(self) -> Deferred[bytes | None]:
        """
        Wait until an `exchange` can begin; fires with None if that is not in time.

        One at a time.
        """
        assert self._queued is None, "somebody waits already"
        self._queued = self._wait()
        waiting = self._queued.result
        if not self._is_taken:
            self._next()
        return waiting

    def answered(self) -> None:
        """
        The device answered.
        """
        reply = self._mailboxes.reply(OPERATOR_CHANNEL)
        self._mailboxes.release(OPERATOR_CHANNEL)
        self._is_taken = False
        late, self._late = self._late, None
        asking, self._asking = self._asking, None
        waiting = None if asking is None else asking.end()
        if waiting is not None:
            waiting.callback(reply)
        elif late is not None:
            late(reply)
        self._next()

    def close(self) -> None:
        """
        Fail everybody who waits with ServiceClosed, and tell no late reply.
        """
        self._late = None
        ended, self._asking, self._queued = (self._asking, self._queued), None, None
        for wait in ended:
            waiting = None if wait is None else wait.end()
            if waiting is not None:
                waiting.errback(ServiceClosed())

    def _next(self) -> None:
        queued, self._queued = self._queued, None
        waiting = None if queued is None else queued.end()
        if waiting is not None:
            waiting.callback(b"")

    def _wait(self) -> _Wait:
        result: Deferred[bytes | None] = Deferred()
        return _Wait(
            result, self._clock.callLater(self._seconds, self._time_up, result)
        )

    def _time_up(self, result: Deferred[bytes | None]) -> None:
        if self._queued is not None and self._queued.result is result:
            self._queued = None
        result.callback(None)
