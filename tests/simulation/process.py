"""
One simulated process: a reactor to whatever runs in it.

It has what a process of this package asks of a reactor: a clock, descriptors, and calls
from other threads (which here are other loops of the same process).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet import error, interfaces, main
from twisted.internet.base import DelayedCall
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from tests.simulation.system import ProcessSystem
from tests.simulation.timers import Timers

if TYPE_CHECKING:
    from tests.simulation.world import World


#: What can happen next, and where; it tells whether it did.
Action: TypeAlias = "tuple[Process, Callable[[], bool]]"


@implementer(interfaces.IReactorTime, interfaces.IReactorFDSet)
class Process:
    """
    A process of *world*. After `kill` all its verbs do nothing.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.system = ProcessSystem(world, self)
        self.is_killed = False
        self._stopped_until = 0.0
        self._timers = Timers(world.random)
        self._called: deque[Callable[[], Any]] = deque()
        #: In the order in which they were added.
        self._readers: dict[Any, None] = {}
        self._writers: dict[Any, None] = {}
        #: Descriptors that are left alone until a time.
        self._asleep: dict[Any, float] = {}
        #: Doorbells that were rung: their descriptors.
        self._rung: dict[int, None] = {}
        #: What is to be closed when the process dies.
        self.on_kill: list[Callable[[], None]] = []

    # --- IReactorTime, IReactorFromThreads --------------------------------------------

    def seconds(self) -> float:
        """Now."""
        return self.world.now

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kw: object
    ) -> interfaces.IDelayedCall:
        """See `IReactorTime`."""
        call = DelayedCall(
            self.seconds() + max(delay, 0),
            callable,
            args,
            kw,
            lambda _: None,
            self._timers.push,
            self.seconds,
        )
        if not self.is_killed:
            self._timers.push(call)
        return call

    def getDelayedCalls(self) -> list[Any]:
        """Those that still stand."""
        return self._timers.standing()

    def callFromThread(
        self, callable: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        """See `IReactorFromThreads`: in the order of the calls."""
        if not self.is_killed:
            self._called.append(lambda: callable(*args, **kw))

    def callWhenRunning(
        self, callable: Callable[..., Any], *args: Any, **kw: Any
    ) -> None:
        """It runs."""
        self.callFromThread(callable, *args, **kw)

    # --- IReactorFDSet ----------------------------------------------------------------

    def addReader(self, reader: Any) -> None:
        """See `IReactorFDSet`."""
        if not self.is_killed:
            self._readers[reader] = None

    def removeReader(self, reader: Any) -> None:
        """See `IReactorFDSet`."""
        self._readers.pop(reader, None)

    def addWriter(self, writer: Any) -> None:
        """See `IReactorFDSet`."""
        if not self.is_killed:
            self._writers[writer] = None

    def removeWriter(self, writer: Any) -> None:
        """See `IReactorFDSet`."""
        self._writers.pop(writer, None)

    def getReaders(self) -> list[Any]:
        """See `IReactorFDSet`."""
        return list(self._readers)

    def getWriters(self) -> list[Any]:
        """See `IReactorFDSet`."""
        return list(self._writers)

    def removeAll(self) -> list[Any]:
        """See `IReactorFDSet`."""
        found = list(self._readers | self._writers)
        self._readers.clear()
        self._writers.clear()
        return found

    # --- for parts of the simulation --------------------------------------------------

    def sleep(self, seconds: float) -> Deferred[None]:
        """Fires after *seconds*."""
        woken: Deferred[None] = Deferred()
        self.callLater(seconds, woken.callback, None)
        return woken

    def ring(self, descriptor: int) -> None:
        """The doorbell *descriptor* was rung."""
        if not self.is_killed:
            self._rung[descriptor] = None

    def stop_for(self, seconds: float) -> None:
        """Do nothing for *seconds* (SIGSTOP, SIGCONT)."""
        self._stopped_until = max(self._stopped_until, self.seconds() + seconds)

    def kill(self) -> None:
        """The end, at once and without a word (SIGKILL). Idempotent."""
        if self.is_killed:
            return
        self.is_killed = self.world.is_killing = True
        self._called.clear()
        for call in self._timers.standing():
            call.cancel()
        self.removeAll()
        self.system.close_all()
        for close in self.on_kill:
            close()
        self.world.is_killing = False

    # --- for the world ----------------------------------------------------------------

    def is_running(self, now: float) -> bool:
        """Whether anything may happen in it."""
        return not self.is_killed and now >= self._stopped_until

    def add_ready(self, now: float, ready: list[Action]) -> None:
        """Add to *ready* what can happen now. A run spends most of its time here."""
        if self._called:
            ready.append((self, self._call_from_thread))
        call = self._timers.first()
        if call is not None and call.time <= now:
            ready.append((self, self._call_due))
        watched = self._readers
        if self._writers:
            watched = self._readers | self._writers
        for each in watched:
            if self._is_ready(each) and self._asleep.get(each, 0.0) <= now:
                ready.append((self, _Serve(self, each)))

    def next_due(self, now: float) -> float | None:
        """When something can happen next by the clock alone; None if nothing can."""
        if self.is_killed:
            return None
        call = self._timers.first()
        times = [] if call is None else [call.time]
        times += [at for at in self._asleep.values() if at > now]
        if self._stopped_until > now:
            times = [max(at, self._stopped_until) for at in times]
            times.append(self._stopped_until)
        return min(times) if times else None

    def _call_from_thread(self) -> bool:
        if not self._called:
            return False
        self._called.popleft()()
        return True

    def _call_due(self) -> bool:
        call = self._timers.first()
        if call is None or call.time > self.seconds():
            return False
        call.called = 1
        call.func(*call.args, **call.kw)
        return True

    def _is_ready(self, each: Any) -> bool:
        descriptor = each.fileno()
        file = self.system.file(descriptor)
        if file is None:
            return descriptor in self._rung
        return (
            (each in self._readers and file.is_readable())
            or (each in self._writers and file.is_writable())
            or file.is_hung_up()
        )

    def serve(self, each: Any) -> bool:
        """One readiness event of a descriptor, unless it is over by now."""
        if (each not in self._readers and each not in self._writers) or not (
            self._is_ready(each)
        ):
            return False
        world = self.world
        if world.delay and world.chance(world.delay):
            seconds = world.random.choice((0.0005, 0.002, 0.01, 0.05, 0.3))
            self._asleep[each] = self.seconds() + seconds * world.random.random()
            world.history.count("fault", "delay")
            return True
        self._asleep.pop(each, None)
        descriptor = each.fileno()
        if descriptor in self._rung:
            del self._rung[descriptor]
            each.doRead()
            return True
        file = self.system.file(descriptor)
        assert file is not None, "it was ready"
        self._serve_file(each, file)
        return True

    def _serve_file(self, each: Any, file: Any) -> None:
        """As `EPollReactor` and `PosixReactorBase` do."""
        read = each in self._readers and file.is_readable()
        write = each in self._writers and file.is_writable()
        if file.is_hung_up() and not read:
            reading = each in self._readers
            why = main.CONNECTION_DONE if reading else main.CONNECTION_LOST
            self._disconnect(each, why, is_read=reading)
            return
        lost: Exception | None = each.doRead() if read else None
        is_read = read
        if lost is None and write and each.fileno() >= 0 and each in self._writers:
            lost, is_read = each.doWrite(), False
        if lost is not None:
            self._disconnect(each, lost, is_read=is_read)

    def _disconnect(self, each: Any, why: Exception, *, is_read: bool) -> None:
        self.removeReader(each)
        half = interfaces.IHalfCloseableDescriptor.providedBy(each)
        if is_read and half and isinstance(why, error.ConnectionDone):
            each.readConnectionLost(Failure(why))
        else:
            self.removeWriter(each)
            each.connectionLost(Failure(why))


class _Serve:
    """
    A readiness event to come.
    """

    def __init__(self, process: Process, each: Any) -> None:
        self._process = process
        self._each = each

    def __call__(self) -> bool:
        return self._process.serve(self._each)
