"""
What the gateway may hold at once, and who waits for it (`http.md` §3, D29).

Rules:

1. Whatever is taken is a `Hold`; releasing twice frees once.
2. Work slots, body buffers and body credit are there or are not: 429 at once.
3. A body reader is waited for at most 5 s. Waiters are bounded; they are served in
   turn per principal, first come first served within one; one principal holds at most
   half the readers, rounded up.
4. All waits have one length and all bodies another: one timer serves each kind.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred

from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.seqpacket.deadlines import Deadlines

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from twisted_aotx.gateway.settings import Limits
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Seconds that a body may wait for a reader [D29].
READER_WAIT_SECONDS: Final = 5.0


class Hold:
    """
    Something taken from a budget.
    """

    def __init__(self, give_back: Callable[[int], None], amount: int = 1) -> None:
        self._give_back = give_back
        self.amount = amount

    def shrink(self, amount: int) -> None:
        """
        Keep only *amount* of what is held; a larger one changes nothing.
        """
        if amount < self.amount:
            surplus, self.amount = self.amount - amount, amount
            self._give_back(surplus)

    def release(self) -> None:
        """
        Give back all that is held. Idempotent.
        """
        self.shrink(0)


class Counter:
    """
    So many of something, first come, no waiting.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, amount: int = 1) -> Hold:
        """
        Take *amount*.

        Raises:
            Problem: 429 `transport_limit`; nothing was taken.
        """
        if self.held + amount > self.limit:
            raise refusal(ProblemCode.TRANSPORT_LIMIT)
        self.held += amount
        return Hold(self._give_back, amount)

    def _give_back(self, amount: int) -> None:
        self.held -= amount
        assert self.held >= 0, "more was given back than taken"


class FairCounter:
    """
    So many of something for principals that wait for it in turn (rule 3).
    """

    def __init__(
        self,
        limit: int,
        *,
        waiters_max: int,
        wait_seconds: float,
        reactor: IReactorTime,
    ) -> None:
        self.limit = limit
        #: What one principal may hold at once.
        self.share = -(-limit // 2)
        self.held = 0
        self._waiters_max = waiters_max
        self._deadlines: Deadlines[tuple[bytes, Deferred[None]]] = Deadlines(
            reactor, wait_seconds, self._give_up
        )
        self._held_by: dict[bytes, int] = {}
        #: Principals in the order of their turns, each with its waiters in order.
        self._waiting: OrderedDict[bytes, deque[Deferred[None]]] = OrderedDict()

    @property
    def waiters(self) -> int:
        """
        How many wait now.
        """
        return sum(map(len, self._waiting.values()))

    async def take(self, principal: bytes) -> Hold:
        """
        Take one for *principal*, waiting for it if need be.

        Raises:
            Problem: 429 `transport_limit` when too many wait or the wait is over.
            CancelledError: the waiter was cancelled; nothing is held.
        """
        if principal in self._waiting or not self._has_room(principal):
            if self.waiters >= self._waiters_max:
                raise refusal(ProblemCode.TRANSPORT_LIMIT)
            await self._wait(principal)
        else:
            self._grant(principal)
        return Hold(lambda _amount: self._give_back(principal))

    async def _wait(self, principal: bytes) -> None:
        waiter: Deferred[None] = Deferred(lambda _d: self._forget(principal, waiter))
        self._waiting.setdefault(principal, deque()).append(waiter)
        self._deadlines.start((principal, waiter))
        try:
            await waiter
        finally:
            self._deadlines.stop((principal, waiter))

    def _give_up(self, waiting: tuple[bytes, Deferred[None]]) -> None:
        principal, waiter = waiting
        self._forget(principal, waiter)
        waiter.errback(refusal(ProblemCode.TRANSPORT_LIMIT))

    def close(self) -> None:
        """
        Leave no timer behind: nobody waits any more.
        """
        self._deadlines.close()

    def _forget(self, principal: bytes, waiter: Deferred[None]) -> None:
        waiters = self._waiting[principal]
        waiters.remove(waiter)
        if not waiters:
            del self._waiting[principal]

    def resize(self, limit: int) -> None:
        """
        There are *limit* of it from now on. What is held above that is held until it
        is given back; what is there beyond what was goes to those that wait.
        """
        self.limit, self.share = limit, -(-limit // 2)
        while self._serve_next():
            pass

    def _has_room(self, principal: bytes) -> bool:
        return self.held < self.limit and self._held_by.get(principal, 0) < self.share

    def _grant(self, principal: bytes) -> None:
        self.held += 1
        self._held_by[principal] = self._held_by.get(principal, 0) + 1

    def _give_back(self, principal: bytes) -> None:
        self.held -= 1
        left = self._held_by.pop(principal) - 1
        if left:
            self._held_by[principal] = left
        self._serve_next()

    def _serve_next(self) -> bool:
        """
        Give what is free to the first principal in turn that may hold more; whether
        there was one.
        """
        for principal in list(self._waiting):
            if self._has_room(principal):
                waiters = self._waiting.pop(principal)
                waiter = waiters.popleft()
                if waiters:
                    # Its next waiter comes after everybody else's turn.
                    self._waiting[principal] = waiters
                self._grant(principal)
                waiter.callback(None)
                return True
        return False


class Fetches:
    """
    Imports: so many at once, and one of each principal (`http.md` §8).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._principals: set[bytes] = set()

    @property
    def held(self) -> int:
        """
        How many there are now.
        """
        return len(self._principals)

    def check(self, principal: bytes) -> None:
        """
        Refuse a second import of *principal*.

        Raises:
            Problem: 429 `fetch_limit`.
        """
        if principal in self._principals:
            raise refusal(ProblemCode.FETCH_LIMIT)

    def take(self, principal: bytes) -> Hold:
        """
        Begin an import.

        Raises:
            Problem: 429 `fetch_limit` or `transport_limit`; nothing was taken.
        """
        self.check(principal)
        if self.held >= self.limit:
            raise refusal(ProblemCode.TRANSPORT_LIMIT)
        self._principals.add(principal)
        return Hold(lambda _amount: self._principals.remove(principal))


class Budgets:
    """
    The budgets of one gateway, all free at first.
    """

    def __init__(self, limits: Limits, reactor: IReactorTime) -> None:
        #: Calls that keep the device or the network busy.
        self.work = Counter(limits.work)
        #: Imports under way.
        self.fetches = Fetches(limits.fetches)
        #: Bodies alive.
        self.bodies = Counter(limits.connections)
        #: Bytes of the bodies alive.
        self.body_credit = Counter(limits.body_credit)
        #: Bodies being read.
        self.readers = FairCounter(
            limits.body_readers,
            waiters_max=limits.connections,
            wait_seconds=READER_WAIT_SECONDS,
            reactor=reactor,
        )
        #: Each for one whole body.
        self.body_deadlines: Deadlines[GatewayRequest] = Deadlines(
            reactor, limits.body_seconds, _time_out
        )

    def held(self) -> dict[str, int]:
        """
        How much of each budget is in use, by the names of its `limits` key.
        """
        return {
            "work": self.work.held,
            "fetches": self.fetches.held,
            "bodies": self.bodies.held,
            "body_credit": self.body_credit.held,
            "body_readers": self.readers.held,
            "body_waiters": self.readers.waiters,
        }

    def resize(self, limits: Limits) -> None:
        """
        Have *limits* from now on. Nothing that is held is taken away.
        """
        self.work.limit = limits.work
        self.fetches.limit = limits.fetches
        self.bodies.limit = limits.connections
        self.body_credit.limit = limits.body_credit
        self.readers.resize(limits.body_readers)
        self.body_deadlines.change(limits.body_seconds)

    def close(self) -> None:
        """
        Leave no timer behind: the gateway is not used any more.
        """
        self.readers.close()
        self.body_deadlines.close()


def _time_out(txrequest: GatewayRequest) -> None:
    txrequest.fail_body(refusal(ProblemCode.BODY_TIMEOUT))
