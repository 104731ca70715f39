"""
Who is served next: in turn per principal, first come first served within one (D29).

Sans-IO; calls nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter", bound=Hashable)


class Turns(Generic[Waiter]):
    """
    A bounded queue that no principal can fill for the others' disadvantage.

    With waiters A1 A2 A3 B1 of two principals the order is A1 B1 A2 A3. All methods
    take the same time however many wait.
    """

    def __init__(self, waiters_max: int) -> None:
        self._waiters_max = waiters_max
        self._count = 0
        #: The principal whose turn is next first; its waiters in order of arrival. No
        #: principal without a waiter is kept.
        self._queues: dict[bytes, dict[Waiter, None]] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, principal: bytes, waiter: Waiter) -> bool:
        """
        Queue *waiter*; False, and nothing is changed, if `waiters_max` wait already.
        """
        if self._count >= self._waiters_max:
            return False
        self._queues.setdefault(principal, {})[waiter] = None
        self._count += 1
        return True

    def remove(self, principal: bytes, waiter: Waiter) -> None:
        """
        *waiter* waits no more. One that is not queued is fine.
        """
        queue = self._queues.get(principal, {})
        if waiter in queue:
            del queue[waiter]
            self._count -= 1
            if not queue:
                del self._queues[principal]

    def take(self) -> Waiter | None:
        """
        Remove and return who is served next; None if nobody waits.
        """
        if not self._queues:
            return None
        principal = next(iter(self._queues))
        queue = self._queues.pop(principal)
        waiter = next(iter(queue))
        del queue[waiter]
        self._count -= 1
        if queue:
            self._queues[principal] = queue  # behind every other principal
        return waiter
