"""
Calls by the time at which they are due.
"""

from __future__ import annotations

import heapq
import random

from twisted.internet.base import DelayedCall


class Timers:
    """
    The calls of one process; those of one time in an order that *draw* decides.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._count = 0
        self._entries: list[tuple[float, float, int, DelayedCall]] = []

    def push(self, call: DelayedCall) -> None:
        """One more call."""
        self._count += 1
        entry = call.time, self._draw.random(), self._count, call
        heapq.heappush(self._entries, entry)

    def first(self) -> DelayedCall | None:
        """The next call that still stands."""
        while self._entries:
            due, _, _, call = self._entries[0]
            if not call.active() or due != call.time:
                heapq.heappop(self._entries)
            elif call.delayed_time:
                heapq.heappop(self._entries)
                call.activate_delay()
                self.push(call)
            else:
                return call
        return None

    def standing(self) -> list[DelayedCall]:
        """All that still stand, the order without meaning."""
        return [
            call
            for due, _, _, call in self._entries
            if call.active() and due == call.time
        ]
