"""
What the clients of a storm write down, for all to see.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import attrs

from tests.torture.histories import History

#: Seconds between two looks at what is waited for.
PAUSE_SECONDS: Final = 0.05
#: Faults after which no more are kept.
FAULTS_MAX: Final = 50


@attrs.define
class Book:
    """
    Shared by threads; what must not be torn is changed under `lock`.

    Attributes:
        done: Requests that were followed to their end, all rounds.
        counts: What happened, by name, all rounds.
        faults: What was wrong, in words.
    """

    histories: list[History] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)
    faults: list[str] = attrs.field(factory=list)
    done: int = 0
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    #: Set when clients shall finish what they do, and do nothing new.
    stopping: threading.Event = attrs.field(factory=threading.Event)

    def saw(self, what: str, count: int = 1) -> None:
        """Count it."""
        with self.lock:
            self.counts[what] += count

    def fault(self, *what: str) -> None:
        """Something is wrong."""
        with self.lock:
            room = FAULTS_MAX - len(self.faults)
            self.faults += what[: max(0, room)]

    def write(self, history: History) -> None:
        """A request that may have been admitted."""
        with self.lock:
            self.histories.append(history)

    def ended(self, end: str) -> None:
        """A request was followed to its end, or to that of its epoch."""
        with self.lock:
            self.done += 1
            self.counts[end] += 1

    def wait(self, reached: Callable[[], bool], seconds: float, what: str) -> bool:
        """Until *reached*; False, and a fault, if it never is."""
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                self.fault(f"not within {seconds:.0f} s: {what}")
                return False
            time.sleep(PAUSE_SECONDS)
        return True

    def taken(self) -> list[History]:
        """The histories so far; the next round begins with none."""
        with self.lock:
            taken, self.histories = self.histories, []
        return taken
