"""
A device, engines and a reactor for the runtime's tests.
"""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from twisted_aotx.device.numbers import Event
from twisted_aotx.devices import DeviceStats, IDevice, Progress
from twisted_aotx.engines.formats import CHATML
from twisted_aotx.errors import SourceGone
from twisted_aotx.interfaces import EngineFacts, EngineHost, IEngine, Lease
from twisted_aotx.journal.store import Store
from twisted_aotx.orders import (
    MediaJob,
    OpenOrder,
    SourceRecord,
    StopOrder,
    StoredPolicy,
    StoredSource,
    StoreRecord,
)
from twisted_aotx.testing import MemoryMailboxes
from twisted_aotx.testing.engines import sample_order
from twisted_aotx.wire.numbers import PolicyState

#: Seconds after which a test that waits for a thread has failed.
PATIENCE_SECONDS = 20.0

Report = tuple[int, int, Event, int, bytes]


class ThreadedReactor(Clock):
    """
    A clock that stands, real descriptors, and calls from real threads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Any] = []
        self.stops = 0
        self._calls: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.remove(reader)

    def callFromThread(self, call: Any, *args: Any) -> None:
        self._calls.put(lambda: call(*args))

    def stop(self) -> None:
        self.stops += 1

    def settle(self) -> None:
        """Run what is ready until nothing is."""
        while self._turn():
            pass

    def until(self, reached: Callable[[], Any]) -> None:
        """Run until *reached* is true."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < end, "nothing more happened"
            if not self._turn():
                time.sleep(0.001)

    def _turn(self) -> bool:
        busy = False
        while not self._calls.empty():
            self._calls.get()()
            busy = True
        ready = select.select(self.readers, [], [], 0)[0]
        for reader in ready:
            if reader in self.readers:
                reader.doRead()
        return busy or bool(ready)


@implementer(IDevice)
class MemoryDevice(MemoryMailboxes):
    """
    A device without kernels: a list of orders to give, and a ring for each slot.

    Attributes:
        log: what was called, in order: `report` and `ring` by the reactor's thread,
            `warm_up`, `run` and `run ended` by others.
        reports: what the rings took.
        room: reports that each slot's ring holds; `make_room` empties it.
    """

    def __init__(self, room: int = 64) -> None:
        super().__init__(channels=4)
        self.broker_doorbell = os.eventfd(0, os.EFD_NONBLOCK)
        self.engine_doorbell = os.eventfd(0, os.EFD_NONBLOCK)
        self.store_doorbell = os.eventfd(0, os.EFD_NONBLOCK)
        self.log: list[str] = []
        self.reports: list[Report] = []
        self.roles: list[tuple[int, bool]] = []
        self.controls: list[tuple[int, bool]] = []
        self.room = room
        self.is_freed = False
        self.may_warm_up = threading.Event()
        self.may_warm_up.set()
        self.run_error: BaseException | None = None
        self.hangs = False
        self.held = False
        self.usage_pending = 0
        self.policy_state = int(PolicyState.QUIET)
        #: What workers said; (index, generation) of sources that are gone.
        self.decoded: list[tuple[int, bool]] = []
        self.gone: set[tuple[int, int]] = set()
        self._jobs: list[MediaJob] = []
        #: Bytes of sources, what became of records, what was restored.
        self.pool = b""
        self.results: list[bool] = []
        self.restored: list[StoredPolicy | StoredSource | str] = []
        self.restore_status = 0
        self.on_flush: Callable[[], None] = lambda: None
        self._records: list[StoreRecord] = []
        self._taken: dict[int, int] = {}
        self._orders: list[OpenOrder | StopOrder] = []
        self._closed = threading.Event()

    # --- a test's side ------------------------------------------------------------

    def order(self, *orders: OpenOrder | StopOrder) -> None:
        """Publish *orders* and ring."""
        self._orders.extend(orders)
        os.eventfd_write(self.engine_doorbell, 1)

    def decode(self, *jobs: MediaJob) -> None:
        """Publish *jobs* and ring."""
        self._jobs.extend(jobs)
        os.eventfd_write(self.engine_doorbell, 1)

    def record(self, *records: StoreRecord) -> None:
        """Publish *records* and ring the store."""
        self._records.extend(records)
        os.eventfd_write(self.store_doorbell, 1)

    def make_room(self) -> None:
        """Handle what the rings hold, and ring."""
        self._taken.clear()
        os.eventfd_write(self.engine_doorbell, 1)

    def die(self, error: BaseException | None = None) -> None:
        """Let `run` return, or raise *error*."""
        self.run_error = error
        self._closed.set()

    # --- IDevice ------------------------------------------------------------------

    def warm_up(self) -> None:
        self.may_warm_up.wait(PATIENCE_SECONDS)
        self.log.append("warm_up")

    def run(self) -> None:
        self.log.append("run")
        self._closed.wait(PATIENCE_SECONDS)
        if self.hangs:
            time.sleep(1)
        self.log.append("run ended")
        if self.run_error is not None:
            raise self.run_error

    def close(self) -> None:
        self.log.append("close")
        self._closed.set()

    def stats(self) -> DeviceStats:
        return DeviceStats(
            ticks=0,
            frames=0,
            leases=0,
            queued=0,
            dropped_events=0,
            held=self.held,
            roles_active=sum(1 << role for role, active in self.roles if active),
            busy_ns=0,
            usage_pending=self.usage_pending,
            policy_state=self.policy_state,
        )

    def free(self) -> None:
        assert not self.is_freed
        self.is_freed = True
        self.log.append("free")
        os.close(self.broker_doorbell)
        os.close(self.engine_doorbell)
        os.close(self.store_doorbell)

    def tick(self, now_ns: int) -> None:
        raise NotImplementedError

    def orders(self) -> Sequence[OpenOrder | StopOrder]:
        orders, self._orders = self._orders, []
        return orders

    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool:
        if self._taken.get(slot, 0) >= self.room:
            return False
        self._taken[slot] = self._taken.get(slot, 0) + 1
        self.reports.append((slot, generation, Event(kind), value, data))
        self.log.append("report")
        return True

    def watch(self, watched: bool) -> None:
        raise NotImplementedError

    def progress(self) -> Sequence[Progress] | None:
        raise NotImplementedError

    def ring(self) -> None:
        self.log.append("ring")

    def set_engine(self, role: int, active: bool) -> None:
        self.roles.append((role, active))

    def set_control(self, row: int, available: bool) -> None:
        self.controls.append((row, available))

    def set_hold(self, held: bool) -> None:
        self.held = held
        self.log.append(f"hold {held}")

    # --- what is for the media worker and comes from it ---------------------------

    def media_jobs(self) -> Sequence[MediaJob]:
        jobs, self._jobs = self._jobs, []
        return jobs

    def source_bytes(
        self, index: int, generation: int, offset: int, size: int
    ) -> bytes:
        if (index, generation) in self.gone:
            raise SourceGone(index)
        return self.pool[offset : offset + size]

    def finish_media(self, worker: int, decoded: bool) -> None:
        self.decoded.append((worker, decoded))

    # --- what is for the store and comes from it ----------------------------------

    def records(self) -> Sequence[StoreRecord]:
        records, self._records = self._records, []
        return records

    def record_bytes(self, record: SourceRecord, start: int, size: int) -> bytes:
        return self.pool[record.offset + start :][:size]

    def finish_record(self, saved: bool) -> None:
        self.results.append(saved)

    def flush(self) -> None:
        self.log.append("flush")
        self.on_flush()

    def restore_policy(self, policy: StoredPolicy) -> None:
        self.restored.append(policy)

    def break_policy(self) -> None:
        self.restored.append("broken")

    def restore_source(self, source: StoredSource) -> int:
        self.restored.append(source)
        return self.restore_status


def new_store(folder: Path) -> Store:
    """An open store that stamps with 1."""
    return Store(folder, store_bytes=1 << 30, now=lambda: 1)


def facts(role: int = 2) -> EngineFacts:
    """What a small engine declares."""
    return EngineFacts(
        role=role,
        model_sha256=bytes(32),
        modalities=1,
        capacity=3,
        sequence_tokens=1024,
        message_format=CHATML,
    )


@implementer(IEngine)
@attrs.define(eq=False)
class ListedEngine:
    """
    An engine that keeps its leases, does what the test says, and lists its verbs.
    """

    facts: EngineFacts = attrs.field(factory=facts)
    verbs: list[Any] = attrs.field(factory=list)
    leases: list[Lease] = attrs.field(factory=list)
    host: EngineHost | None = None
    #: What `start` and `close` return.
    starting: Deferred[None] | None = None
    closing: Deferred[None] | None = None
    on_open: Callable[[Lease], None] = lambda lease: None
    on_stop: Callable[[int, int], None] = lambda slot, generation: None

    def start(self, host: EngineHost) -> Any:
        self.verbs.append("start")
        self.host = host
        return self.starting

    def open(self, lease: Lease) -> None:
        self.verbs.append(("open", lease.order.slot, lease.order.generation))
        self.leases.append(lease)
        self.on_open(lease)

    def stop(self, slot: int, generation: int) -> None:
        self.verbs.append(("stop", slot, generation))
        self.on_stop(slot, generation)

    def close(self) -> Any:
        self.verbs.append("close")
        return self.closing


def open_order(slot: int = 1, generation: int = 1, **changes: Any) -> OpenOrder:
    """An order of the default language role."""
    return sample_order(CHATML, slot=slot, generation=generation, **changes)


def stop_order(slot: int = 1, generation: int = 1, role: int = 2) -> StopOrder:
    """The end of a lease."""
    return StopOrder(slot=slot, generation=generation, role=role)
