"""
Server-sent events: framing, keep-alive, back-pressure (`http.md` §6, §7, D23). Layer 4.

1. A record leaves whole, in one write; a keep-alive line stands between records.
2. After a record nothing more is written until the client has taken it: `send` waits,
   so its caller reads nothing ahead.
3. A keep-alive line is written after `ping_seconds` without output, and only to a
   client that takes what it gets.
4. A record over `event_bytes` is not sent.
5. What fails before the stream began is an answer; what fails later is a record, after
   which the stream ends.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from twisted_aotx import strictjson
from twisted_aotx.gateway.problems import (
    ProblemCode,
    error_object,
    of_exception,
    refusal,
)
from twisted_aotx.gateway.resource import Answer, Call
from twisted_aotx.gateway.stream import Stream
from twisted_aotx.gateway.waiting import ClientLeft, TimeUp, when_gone, within

#: A comment with one newline: not a record, so no client dispatches an event for it.
PING: Final = b": ping\n"
#: The last record of a standard stream.
DONE: Final = b"data: [DONE]\n\n"
#: Bytes of a record around the output in it, at most.
_FRAME_BYTES: Final = 768
#: Bytes that one byte of output takes in JSON, at most: `\\u0000`.
_ESCAPE_BYTES: Final = 6
#: Bytes of output in one record, at most.
_RAW_BYTES_MAX: Final = 4096


def raw_bytes_max(event_bytes: int) -> int:
    """
    Bytes of output that one record may carry (`http.md` §7).
    """
    return min(_RAW_BYTES_MAX, (event_bytes - _FRAME_BYTES) // _ESCAPE_BYTES)


def record(data: object, *, event: str | None = None, id: str | None = None) -> bytes:
    """
    One record of what JSON can say; JSON has no line break.
    """
    lines = [f"event: {event}\n".encode()] if event is not None else []
    if id is not None:
        lines.append(f"id: {id}\n".encode())
    return b"".join([*lines, b"data: ", strictjson.dumps(data), b"\n\n"])


class EventStream:
    """
    The records that answer one call. Nothing is sent before `begin`.
    """

    _log = Logger()

    def __init__(self, call: Call, *, error_event: str | None = None) -> None:
        """
        Args:
            error_event: The event name of the record of an error.
        """
        settings = call.settings
        self._call = call
        self._clock = call.gateway.reactor
        self._ping_seconds = settings.ping_seconds
        self._event_bytes = settings.limits.event_bytes
        self._error_event = error_event
        self._stream: Stream | None = None
        self._blocked = False
        self._ping: IDelayedCall | None = None

    @property
    def begun(self) -> bool:
        """
        Whether the status line is out.
        """
        return self._stream is not None

    def begin(self) -> None:
        """
        Send the status line and headers.

        Raises:
            ClientLeft: there is nobody to send them to.
        """
        if self._call.gone:
            raise ClientLeft
        self._stream = self._call.start_stream()
        self._arm()

    async def send(self, data: bytes) -> None:
        """
        Write one record and wait until the client may be sent more.

        Raises:
            Problem: 503 `event_limit`; nothing was written.
        """
        assert self._stream is not None, "not begun"
        if len(data) > self._event_bytes:
            raise refusal(ProblemCode.EVENT_LIMIT)
        self._stream.write(data)
        self._arm()
        self._blocked = True
        try:
            await self._stream.drained()
        finally:
            self._blocked = False

    def close(self, last: bytes = b"") -> None:
        """
        Write *last* and end the stream. For every way out; only the first call counts.
        """
        if self._ping is not None:
            self._ping.cancel()
            self._ping = None
        if self._stream is not None:
            self._stream.write(last)
            self._stream.finish()

    async def carry(
        self,
        work: Coroutine[Deferred[Any], Any, Answer | None],
        *,
        deadline: float,
        late: ProblemCode,
        resumable: bool = False,
    ) -> Answer | None:
        """
        Do *work*, which may begin this stream, and turn its errors into what they are.

        Args:
            deadline: By the reactor's clock.
            late: What it is to miss the deadline.
            resumable: End the stream at once, without an error, when the gateway is
                going to end.

        Raises:
            ClientLeft: the client went first.
            Exception: *work* failed before it began the stream.
        """
        seconds = deadline - self._clock.seconds()
        left: Deferred[None] = Deferred()

        def leave(_result: object = None) -> None:
            if not left.called:
                left.callback(None)

        when_gone(self._call).addCallback(leave)
        closing = self._call.gateway.closing
        forget = closing.watch(leave) if resumable else None
        try:
            return await within(work, clock=self._clock, seconds=seconds, left=left)
        except CancelledError:
            raise
        except ClientLeft:
            if self._call.gone or self.begun:
                raise
            raise refusal(ProblemCode.SERVICE_CLOSED) from None
        except Exception as error:  # the edge: it ends in an answer or a record
            cause = refusal(late) if isinstance(error, TimeUp) else error
            if not self.begun:
                raise cause from None
            self.close(self._error(cause))
            return None
        finally:
            if forget is not None:
                forget()
            self.close()

    def _error(self, error: Exception) -> bytes:
        problem = of_exception(error)
        if problem is None:
            self._log.error("a stream failed: {kind}", kind=type(error).__name__)
            problem = refusal(ProblemCode.INTERNAL_ERROR)
        self._call.txrequest.error_code = problem.code
        return record(error_object(problem), event=self._error_event)

    def _arm(self) -> None:
        if not self._ping_seconds:
            return
        if self._ping is not None:
            self._ping.reset(self._ping_seconds)
        else:
            self._ping = self._clock.callLater(self._ping_seconds, self._silent)

    def _silent(self) -> None:
        self._ping = None
        if self._stream is not None and not self._blocked:
            self._stream.write(PING)
        self._arm()
