"""
A reactor that serves sockets in memory, when told to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet import error, interfaces, main
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from twisted_aotx.testing.memory import MemorySystem

#: What the clock shows at first.
BEGIN_SECONDS: Final = 4096.0


class PumpedReactor(MemoryReactorClock):
    """
    A clock and a descriptor set that serves the sockets of a `MemorySystem`.

    Nothing happens by itself: `settle` runs what is due and what is ready until nothing
    is; `advance` does so after it has set the clock forward.
    """

    #: Turns after which `settle` takes it that something spins.
    turns_max: Final = 10_000

    def __init__(self, system: MemorySystem) -> None:
        MemoryReactorClock.__init__(self)
        # What takes a time for a duration is right at zero, where no process begins.
        self.rightNow = BEGIN_SECONDS
        self._system = system

    def settle(self) -> None:
        """Run until nothing is due and nothing is ready."""
        for _ in range(self.turns_max):
            if not self.turn():
                return
        raise AssertionError(f"still busy after {self.turns_max} turns")

    def advance(self, amount: float) -> None:
        """Set the clock forward by *amount* seconds and settle."""
        Clock.advance(self, amount)
        self.settle()

    def turn(self) -> bool:
        """One turn; whether there was anything to do."""
        due = any(call.getTime() <= self.seconds() for call in self.getDelayedCalls())
        if due:
            Clock.advance(self, 0)
        ready = sorted(self.readers | self.writers, key=lambda one: one.fileno())
        served = [self._serve(one) for one in ready]
        return due or any(served)

    def _serve(self, selectable: Any) -> bool:
        reading, writing = selectable in self.readers, selectable in self.writers
        if not (reading or writing) or selectable.fileno() < 0:
            return False
        watched = self._system.socket_at(selectable.fileno())
        read = reading and watched.is_readable()
        write = writing and watched.is_writable()
        if watched.is_hung_up() and not read:
            done = main.CONNECTION_DONE if reading else main.CONNECTION_LOST
            self._disconnect(selectable, done, is_read=reading)
            return True
        if not (read or write):
            return False
        why = _outcome(selectable.doRead) if read else None
        is_read = read
        if why is None and write:
            why, is_read = _outcome(selectable.doWrite), False
        if why is not None:
            self._disconnect(selectable, why, is_read=is_read)
        return True

    def _disconnect(self, selectable: Any, why: Exception, *, is_read: bool) -> None:
        """What `PosixReactorBase` does with what doRead and doWrite return."""
        self.readers.discard(selectable)
        half = interfaces.IHalfCloseableDescriptor.providedBy(selectable)
        if is_read and half and isinstance(why, error.ConnectionDone):
            selectable.readConnectionLost(Failure(why))
        else:
            self.writers.discard(selectable)
            selectable.connectionLost(Failure(why))


def _outcome(call: Callable[[], Exception | None]) -> Exception | None:
    """
    What *call* returned or raised. A reactor logs what a protocol raises and closes.
    """
    try:
        return call()
    except Exception as raised:
        return raised
