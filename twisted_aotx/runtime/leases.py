"""
One lease as its engine sees it: checks what the engine reports, and queues it.

Theory of operation. Reports come from any thread. A report that fits the order of
`device.md` §10 is queued; the bridge hands the queue to the device on the reactor's
thread, as far as the slot's ring has room.

    state     report                            to
    WAITING   opened(n >= 1)                    RUNNING
    WAITING   refused(status), failed(status)   ENDED     (failed counts as a fault)
    RUNNING   emit(data, tokens)                RUNNING
    RUNNING   done(1 or 2), failed(status)      ENDED
    any       anything else                     ENDED, 503, a fault
    ENDED     anything                          dropped

Rules:
1. A status outside 400..599 counts as 503; that alone is no fault.
2. Emissions that wait are joined while together they hold at most 4,096 bytes: the
   device would take them in one tick anyway (`device.md` §9, Take).
3. What waits is bounded: REPORT_BYTES_MAX bytes; more is a fault.
4. After a fault the engine is told to stop: the device sends no stop after a failure.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import attrs

from twisted_aotx import limits
from twisted_aotx.device.numbers import Event
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.numbers import Finish, Status

#: Output bytes of one lease that may wait for room in the device's ring: while the
#: store cannot write, the device takes none (`device.md` §8). 131,072 tokens, 8 each.
REPORT_BYTES_MAX: Final = 1 << 20


class LeaseState(IntEnum):
    """
    What an engine has reported so far.
    """

    WAITING = 0
    RUNNING = 1
    ENDED = 2


@attrs.define(eq=False)
class BridgedLease:
    """
    Implements `interfaces.Lease`. The verbs of the engine may be called by any thread,
    the ones of the bridge by the reactor's.
    """

    _order: OpenOrder
    #: Called by any thread when there is something to flush.
    _wake: Callable[[BridgedLease], None] = attrs.field(repr=False)
    _state: LeaseState = LeaseState.WAITING
    _tokens: int = 0
    _queue: deque[tuple[Event, int, bytes]] = attrs.field(factory=deque, repr=False)
    _queued_bytes: int = 0
    _fault: str | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock, repr=False)

    @property
    def order(self) -> OpenOrder:
        """What was asked for."""
        return self._order

    # --- the engine's verbs: any thread ---------------------------------------

    def opened(self, prompt_tokens: int) -> None:
        """See `interfaces.Lease`."""
        with self._lock:
            if self._state == LeaseState.WAITING and _is_count(prompt_tokens, low=1):
                self._state = LeaseState.RUNNING
                self._queue.append((Event.OPENED, prompt_tokens, b""))
            else:
                self._break("opened with a bad value, or twice")
        self._wake(self)

    def refused(self, status: int) -> None:
        """See `interfaces.Lease`."""
        with self._lock:
            if self._state == LeaseState.WAITING:
                self._end(Event.REFUSED, _status(status))
            else:
                self._break("refused after opened")
        self._wake(self)

    def emit(self, data: bytes, tokens: int) -> None:
        """See `interfaces.Lease`."""
        with self._lock:
            fault = self._emission_fault(data, tokens)
            if fault is None:
                self._tokens += tokens
                self._queue_emission(bytes(data), tokens)
            else:
                self._break(fault)
        self._wake(self)

    def done(self, finish: int) -> None:
        """See `interfaces.Lease`."""
        with self._lock:
            if self._state == LeaseState.RUNNING and finish in (
                Finish.STOP,
                Finish.LENGTH,
            ):
                self._end(Event.DONE, int(finish))
            else:
                self._break("done with a bad value, or before opened")
        self._wake(self)

    def failed(self, status: int) -> None:
        """See `interfaces.Lease`."""
        with self._lock:
            if self._state == LeaseState.RUNNING:
                self._end(Event.FAILED, _status(status))
            else:
                self._break("failed before opened")
        self._wake(self)

    # --- the bridge's verbs: the reactor's thread -----------------------------

    def flush(self, report: Callable[[int, int, int, int, bytes], bool]) -> bool:
        """
        Hand what is queued to *report* (`IDevice.report`) while it takes it.

        Returns whether nothing is left.
        """
        slot, generation = self._order.slot, self._order.generation
        with self._lock:
            while self._queue:
                kind, value, data = self._queue[0]
                if not report(slot, generation, kind, value, data):
                    return False
                self._queue.popleft()
                self._queued_bytes -= len(data)
        return True

    def drop(self) -> bool:
        """
        The lease has ended on the device's side: forget what is queued, take no more.

        Returns whether the engine still works on it.
        """
        with self._lock:
            was_live = self._state != LeaseState.ENDED
            self._state = LeaseState.ENDED
            self._queue.clear()
            self._queued_bytes = 0
        return was_live

    def give_up(self) -> None:
        """The engine could not even open it: fail with 503 unless it has ended."""
        with self._lock:
            if self._state != LeaseState.ENDED:
                self._fail()
        self._wake(self)

    def take_fault(self) -> str | None:
        """What the engine did wrong, once; None if nothing."""
        with self._lock:
            fault, self._fault = self._fault, None
        return fault

    @property
    def is_over(self) -> bool:
        """Whether it has ended and nothing waits."""
        with self._lock:
            return self._state == LeaseState.ENDED and not self._queue

    # --- with the lock held ---------------------------------------------------

    def _emission_fault(self, data: Any, tokens: Any) -> str | None:
        if self._state != LeaseState.RUNNING:
            return "emitted before opened"
        if not isinstance(data, (bytes, bytearray)):
            return "emitted what is not bytes"
        if not _is_count(tokens, low=0) or (not tokens and not data):
            return "emitted nothing, or a bad count of tokens"
        if self._tokens + tokens > self._order.limit:
            return "emitted more tokens than the limit"
        if len(data) > limits.EVENT_BYTES_PER_SLOT:
            return "emitted more bytes at once than the limit"
        if self._queued_bytes + len(data) > REPORT_BYTES_MAX:
            return "emitted more bytes than may wait"
        return None

    def _queue_emission(self, data: bytes, tokens: int) -> None:
        self._queued_bytes += len(data)
        if self._queue:
            kind, value, waiting = self._queue[-1]
            size = len(waiting) + len(data)
            if kind == Event.EMIT and size <= limits.TAKE_BYTES_MAX:
                self._queue[-1] = (kind, value + tokens, waiting + data)
                return
        self._queue.append((Event.EMIT, tokens, data))

    def _end(self, kind: Event, value: int) -> None:
        self._state = LeaseState.ENDED
        self._queue.append((kind, value, b""))

    def _fail(self) -> None:
        opened = self._state == LeaseState.RUNNING
        self._end(Event.FAILED if opened else Event.REFUSED, Status.UNAVAILABLE)

    def _break(self, reason: str) -> None:
        """A report out of order or with a bad value; nothing after the end counts."""
        if self._state != LeaseState.ENDED:
            self._fail()
            self._fault = reason


def _is_count(value: Any, low: int) -> bool:
    """Whether *value* is an integer that the device's words can hold."""
    return isinstance(value, int) and low <= value < 2**31


def _status(value: Any) -> int:
    """*value* if it is a failure status, else 503 (`device.md` §10)."""
    if isinstance(value, int) and 400 <= value <= 599:
        return int(value)
    return int(Status.UNAVAILABLE)
