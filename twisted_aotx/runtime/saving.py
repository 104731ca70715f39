"""
`Saver`: the thread between the device's records and the state store (D12).

Rules:
1. Records are committed in the order published, and each is finished with its own
   result. Records that wait together share a transaction, at most `GROUP_RECORDS` and
   `GROUP_BYTES`; if it fails, each has one of its own.
2. The first record that cannot be saved sets the hold [D10]. Then the store is probed
   every `PROBE_SECONDS`, and the first probe that works clears it. Each is one line in
   the log.
3. After `stop` it saves what is published and ends.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs
from twisted.logger import Logger

from twisted_aotx.devices import IDevice
from twisted_aotx.journal.errors import StoreError
from twisted_aotx.journal.store import Store
from twisted_aotx.orders import SourceRecord, StoreRecord

#: Seconds between two probes while held.
PROBE_SECONDS: Final = 1.0
#: Records in one transaction.
GROUP_RECORDS: Final = 64
#: Bytes of sources in one transaction of several records.
GROUP_BYTES: Final = 4 << 20


@attrs.frozen(kw_only=True)
class SavingState:
    """
    What became of records so far, per epoch.
    """

    #: Records that are on the disk.
    saved: int = 0
    #: Records that could not be saved.
    failed: int = 0
    #: Bytes of the store's pages in use.
    store_bytes: int = 0
    #: What the last transaction took, in seconds; 0 before the first one.
    last_seconds: float = 0.0


class Saver:
    """
    Saves the records of *device* in *store*.

    `run` is the thread; `stop` may be called by any other one. *seconds* is a clock
    that never goes back.
    """

    _log = Logger()

    def __init__(
        self,
        device: IDevice,
        store: Store,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._store = store
        self._seconds = seconds
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopping = False
        #: When the hold was set, and when to probe; None unless held.
        self._held_since: float | None = None
        self._probe_at = 0.0
        #: Replaced as a whole, so that any thread may look.
        self.state = SavingState()

    # --- any thread ---------------------------------------------------------------

    def stop(self) -> None:
        """Let `run` return once nothing is left to save."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)

    def free(self) -> None:
        """Close what wakes the thread; only after `run` has returned, or without it."""
        os.close(self._wake)

    # --- its thread ---------------------------------------------------------------

    def run(self) -> None:
        """Save until `stop`, then close the store."""
        waits = select.poll()
        for bell in (self._device.store_doorbell, self._wake):
            waits.register(bell, select.POLLIN)
        try:
            # A store that is full from the start is told of at once.
            self.probe()
            while True:
                for bell, _ in waits.poll(self.wait_ms()):
                    os.eventfd_read(bell)
                last = self._stopping
                if not self.turn() and last:
                    return
        finally:
            self._store.close()

    def wait_ms(self) -> int | None:
        """How long to wait for a doorbell; None is for ever."""
        if self._stopping:
            return 0
        if self._held_since is None:
            return None
        return max(0, math.ceil((self._probe_at - self._seconds()) * 1000))

    def turn(self) -> bool:
        """Save what is published, probe when it is due; whether there was anything."""
        records = self._device.records()
        for group in groups(records):
            self._save(group)
            self._device.ring()
        if self._held_since is not None and self._seconds() >= self._probe_at:
            self.probe()
        return bool(records)

    def probe(self) -> None:
        """Ask the store whether it can write; the hold follows the answer."""
        try:
            self._store.probe()
            used = self._store.used_bytes()
        except StoreError as error:
            self._hold(error)
        else:
            self.state = attrs.evolve(self.state, store_bytes=used)
            self._release()

    def _save(self, group: Sequence[StoreRecord]) -> None:
        began = self._seconds()
        try:
            self._store.save_together(group, self._device.record_bytes)
        except StoreError as error:
            if len(group) > 1:
                for record in group:
                    self._save((record,))
                return
            self.state = attrs.evolve(self.state, failed=self.state.failed + 1)
            # Before its result: who is told of it meets the hold.
            self._hold(error)
            self._device.finish_record(False)
            return
        self.state = attrs.evolve(
            self.state,
            saved=self.state.saved + len(group),
            store_bytes=self._used_bytes(),
            last_seconds=self._seconds() - began,
        )
        for _ in group:
            self._device.finish_record(True)

    def _used_bytes(self) -> int:
        """As last known, if the store cannot say: what is saved stays saved."""
        try:
            return self._store.used_bytes()
        except StoreError:
            return self.state.store_bytes

    def _hold(self, error: StoreError) -> None:
        self._probe_at = self._seconds() + PROBE_SECONDS
        if self._held_since is None:
            self._held_since = self._seconds()
            self._device.set_hold(True)
            self._log.error(
                "the state store cannot write, what would change state is refused "
                "until it can: {reason}",
                reason=str(error),
            )

    def _release(self) -> None:
        if self._held_since is not None:
            self._log.info(
                "the state store writes again, after {seconds:.0f} s",
                seconds=self._seconds() - self._held_since,
            )
            self._held_since = None
            self._device.set_hold(False)


def groups(records: Sequence[StoreRecord]) -> Iterator[Sequence[StoreRecord]]:
    """*records* in order, cut where a transaction is to end (rule 1)."""
    group: list[StoreRecord] = []
    group_bytes = 0
    for record in records:
        size = record.size if isinstance(record, SourceRecord) else 0
        full = len(group) == GROUP_RECORDS or group_bytes + size > GROUP_BYTES
        if group and full:
            yield group
            group, group_bytes = [], 0
        group.append(record)
        group_bytes += size
    if group:
        yield group
