"""
One virtual machine: a clock, the processes on it, and what is ready in which order.

Everything in a simulation that could be decided by chance, by the kernel's scheduler or
by the time that work takes is decided by `World.random`, so a seed decides all of it.

Rules:
1. One thing happens at a time: a call that is due, or one descriptor that is ready. In
   which order those that could be next happen is drawn.
2. Time moves by a few microseconds with each of them, and else to whatever is due next.
3. A process that is stopped does nothing until it goes on; one that was killed never
   does anything again, and its sockets are closed as the kernel closes them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from tests.simulation.history import History
from tests.simulation.process import Action, Process
from tests.simulation.streams import StreamNetwork
from twisted_aotx.testing import MemorySystem

#: Seconds on the clock when a simulation begins.
BEGIN_SECONDS: Final = 1000.0
#: Things that happen before it is taken that something spins.
ACTIONS_MAX: Final = 200_000

_log = Logger("aotx.simulation")


class Spins(Exception):
    """
    More happened than any sound run needs.
    """


class Packets(MemorySystem):
    """
    The machine's seqpacket sockets; descriptors that nothing else has.
    """

    def __init__(self) -> None:
        super().__init__()
        self._descriptors = 1_000_000


class World:
    """
    The machine of one seed.

    Attributes:
        now: seconds; only ever grows.
        random: what decides.
        delay: how likely a ready descriptor is left alone for a while, 0..1.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = BEGIN_SECONDS
        self.delay = 0.0
        self.history = History()
        self.packets = Packets()
        self.streams = StreamNetwork(self.random)
        self.processes: list[Process] = []
        self.actions = 0
        #: Whether a process is being killed: what it leaves may stumble, unheard.
        self.is_killing = False

    def process(self, name: str) -> Process:
        """A new process."""
        made = Process(self, name)
        self.processes.append(made)
        return made

    def record(self, kind: str, **fields: Any) -> int:
        """Note that something happened; its number."""
        return self.history.add(self.now, kind, fields)

    def chance(self, likelihood: float) -> bool:
        """Whether something happens that does so with *likelihood*."""
        return self.random.random() < likelihood

    # --- running ----------------------------------------------------------------------

    def run(self, until: Callable[[], object], seconds: float) -> bool:
        """
        Let things happen until *until* is true; False if it is not after *seconds*, or
        if nothing is left that could happen.
        """
        end = self.now + seconds
        while not until():
            if self.now > end:
                return False
            if not self._turn() and not self._sleep(end):
                return bool(until())
        return True

    def _turn(self) -> bool:
        """Do some of what can happen now; whether there was anything."""
        ready: list[Action] = []
        for process in self.processes:
            if process.is_running(self.now):
                process.add_ready(self.now, ready)
        if not ready:
            return False
        self.random.shuffle(ready)
        del ready[self.random.randint(1, len(ready)) :]
        for process, action in ready:
            if process.is_running(self.now):
                self._act(action)
        return True

    def _act(self, action: Callable[[], bool]) -> None:
        try:
            acted = action()
        except Exception:
            # What a reactor does with it; whoever watches the log has found a fault.
            _log.failure("unhandled in a simulated reactor")
            acted = True
        if acted:
            self.actions += 1
            self.now += self.random.randrange(1, 30) * 1e-6
            if self.actions > ACTIONS_MAX:
                raise Spins(f"{self.actions} actions by {self.now:.3f} s")

    def _sleep(self, end: float) -> bool:
        """Move the clock to what is due next; False if nothing ever is."""
        due = [at for each in self.processes if (at := each.next_due(self.now))]
        if not due:
            return False
        self.now = max(self.now, min(*due, end + 1e-6))
        return True

    # --- for those who wait -----------------------------------------------------------

    def settle(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.run(lambda: False, seconds)

    def wait_for(self, deferred: Deferred[Any], seconds: float) -> bool:
        """Run until *deferred* has fired; whether it has within *seconds*."""
        fired: list[bool] = []

        def note(result: Any) -> Any:
            fired.append(True)
            return result

        deferred.addBoth(note)
        return self.run(lambda: fired, seconds)
