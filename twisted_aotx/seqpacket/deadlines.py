"""
Deadlines of one length for many things, on one timer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from twisted.internet.interfaces import IDelayedCall

from twisted_aotx.seqpacket.system import PacketClock

Key = TypeVar("Key", bound=Hashable)


class Deadlines(Generic[Key]):
    """
    Calls *expired* with each key whose last `start` lies *seconds* back.

    All deadlines have the same length, so the order of starting is the order of falling
    due and one timer, set for the oldest, is enough: `start` and `stop` are two
    dictionary operations. A timer per connection would be cancelled and made again
    with every packet.
    """

    def __init__(
        self,
        clock: PacketClock,
        seconds: float,
        expired: Callable[[Key], object],
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._expired = expired
        #: When each key falls due, the oldest first.
        self._due: dict[Key, float] = {}
        self._timer: IDelayedCall | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._due)

    def start(self, key: Key) -> None:
        """
        *key* falls due *seconds* from now; its earlier deadline is forgotten.

        Nothing happens after `close`.
        """
        if self._is_closed:
            return
        self._due.pop(key, None)
        self._due[key] = self._clock.seconds() + self._seconds
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._sweep)

    def stop(self, key: Key) -> None:
        """
        *key* does not fall due. An unknown key is fine.
        """
        self._due.pop(key, None)

    def change(self, seconds: float) -> None:
        """
        From now on all deadlines are of *seconds*, those that run already included.
        """
        if self._is_closed:
            return
        shift, self._seconds = seconds - self._seconds, seconds
        # All move alike, so their order stays.
        self._due = {key: due + shift for key, due in self._due.items()}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due:
            wait = next(iter(self._due.values())) - self._clock.seconds()
            self._timer = self._clock.callLater(max(wait, 0), self._sweep)

    def close(self) -> None:
        """
        Nothing falls due any more, and no timer is left behind.
        """
        self._is_closed = True
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        while self._due:
            key, due = next(iter(self._due.items()))
            if due > now:
                self._timer = self._clock.callLater(due - now, self._sweep)
                return
            del self._due[key]
            self._expired(key)
