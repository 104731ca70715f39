"""
The state store on a disk that fails, and the thread that writes it, stepped.

The store is the real one, on real SQLite, in a folder of the run's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from tests.simulation.process import Process
from twisted_aotx.devices import IDevice
from twisted_aotx.journal.errors import StoreFailed, StoreFull
from twisted_aotx.journal.store import Store
from twisted_aotx.journal.writer import ReadBytes
from twisted_aotx.orders import StoreRecord
from twisted_aotx.runtime.saving import Saver

STORE_BYTES: Final = 1 << 26
#: Seconds between a doorbell of the store and its thread's turn, at most.
_TURN_SECONDS: Final = 0.01
#: Seconds that a disk stays broken, and that a slow one takes for a turn, at most.
_BROKEN_SECONDS: Final = 4.0
_SLOW_SECONDS: Final = 3.0


class FaultyStore(Store):
    """
    A store whose disk fails now and then, for a moment or for seconds.

    Attributes:
        fails: how likely a write begins to fail, 0..1.
        slow: how likely a turn of its thread takes seconds, 0..1.
    """

    def __init__(self, process: Process, directory: Path) -> None:
        self._world = process.world
        self.fails = self.slow = 0.0
        self._broken_until = 0.0
        world = process.world
        super().__init__(directory, store_bytes=STORE_BYTES, now=lambda: int(world.now))

    def save_together(
        self, records: Sequence[StoreRecord], read_bytes: ReadBytes
    ) -> None:
        self._may_fail()
        super().save_together(records, read_bytes)

    def probe(self) -> None:
        self._may_fail()
        super().probe()

    def used_bytes(self) -> int:
        self._may_fail()
        return super().used_bytes()

    def mend(self) -> None:
        """The disk works from now on."""
        self.fails = self.slow = self._broken_until = 0.0

    def _may_fail(self) -> None:
        world = self._world
        if world.now < self._broken_until:
            raise StoreFailed(self.path, "disk I/O error (simulated)")
        if not self.fails or not world.chance(self.fails):
            return
        if world.chance(0.5):
            self._broken_until = world.now + world.random.random() * _BROKEN_SECONDS
        world.history.count("fault", "store error")
        kind = world.random.choice((StoreFailed, StoreFull))
        raise kind(self.path, "no room, or no disk (simulated)")


class SteppedSaver(Saver):
    """
    The store's thread as calls of *process*.
    """

    def __init__(self, process: Process, device: IDevice, store: FaultyStore) -> None:
        super().__init__(device, store, process.seconds)
        self._disk = store
        #: Until when the thread waits for its disk.
        self._busy_until = 0.0
        self._process = process
        self._is_free = False
        self._ended: Deferred[None] | None = None
        self._next: IDelayedCall | None = None

    def free(self) -> None:
        if not self._is_free:
            self._is_free = True
            super().free()

    def begin(self) -> Deferred[None]:
        """What `run` does; fires when it would return."""
        self._ended = Deferred()
        self.probe()
        self.rung()
        return self._ended

    def rung(self) -> None:
        """A doorbell of this thread."""
        if self._ended is not None and not self._ended.called:
            world = self._process.world
            seconds = world.random.random() * _TURN_SECONDS
            if self._disk.slow and world.chance(self._disk.slow):
                world.history.count("fault", "store slow")
                self._busy_until = (
                    world.now + seconds + world.random.random() * (_SLOW_SECONDS)
                )
            self._later(max(seconds, self._busy_until - world.now))

    def stop(self) -> None:
        super().stop()
        self.rung()

    def _later(self, seconds: float) -> None:
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = self._process.callLater(seconds, self._turn)

    def _turn(self) -> None:
        last = self._stopping
        assert self._ended is not None, "begun"
        if not self.turn() and last:
            self._store.close()
            self._ended.callback(None)
            return
        wait_ms = self.wait_ms()
        if wait_ms is not None:
            self._later(max(wait_ms / 1000, 0.0005))
