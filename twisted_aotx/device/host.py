"""
`Device`: the host's handle on a device. The only module of this package that others
import.

It allocates the regions and hands them to compiled functions; nothing here reads or
writes a table itself. Who may call what: `devices.IDevice`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from zope.interface import implementer

from twisted_aotx import limits
from twisted_aotx.device import entries, launch, tables
from twisted_aotx.device.attach import attach_engines, configure_device
from twisted_aotx.device.invariants import find_violations
from twisted_aotx.device.jobs import JobReader, copy_source
from twisted_aotx.device.notices import NoticeReader
from twisted_aotx.device.numbers import (
    WORD_FLUSH,
    WORD_HELD,
    WORD_RESTORING,
    WORD_WATCHED,
)
from twisted_aotx.device.orders import OrderReader
from twisted_aotx.device.records import RecordReader
from twisted_aotx.device.restoring import restore_policy, restore_source
from twisted_aotx.device.telling import StatsReader
from twisted_aotx.devices import DeviceStats, IDevice, Progress
from twisted_aotx.errors import ChannelBusy, ConfigError
from twisted_aotx.interfaces import IEngine
from twisted_aotx.orders import (
    MediaJob,
    OpenOrder,
    SourceRecord,
    StopOrder,
    StoredPolicy,
    StoredSource,
    StoreRecord,
)


@implementer(IDevice)
class Device:
    """
    Tables, kernels and doorbells of one epoch.

    Args:
        capacities: what the operator sized; checked against `limits.TABLE_BYTES_MAX`.
        epoch: this activation's number, 1 or more [D3].
        hash_key, seed_key: 64-bit secrets drawn at start [D6], `device.md` §10.
        engines: one per role; an `IKernelEngine` runs inside the kernels.
        backend: "cpu" or "cuda".

    Raises:
        ConfigError: a capacity or an engine does not fit; nothing was started.
    """

    def __init__(
        self,
        capacities: limits.Capacities,
        *,
        epoch: int,
        hash_key: int,
        seed_key: int,
        engines: Sequence[IEngine] = (),
        backend: str = "cpu",
    ) -> None:
        self.capacities = capacities
        self.channels = capacities.channels
        regions = tables.regions_of(capacities)
        self.service_bytes = regions.size
        if self.service_bytes > limits.TABLE_BYTES_MAX:
            raise ConfigError(
                "device", f"all tables take {self.service_bytes} bytes, over 8 GiB"
            )
        self._launch = launch.launcher(backend, regions)
        self.doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.broker_doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.engine_doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._packet = np.zeros(limits.PACKET_BYTES_MAX, np.uint8)
        self.store_doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._notices = NoticeReader()
        self._orders = OrderReader()
        self._jobs = JobReader()
        self._records = RecordReader()
        self._stats = StatsReader()
        configure_device(
            self._launch, capacities, regions.size, epoch, hash_key, seed_key
        )
        attach_engines(self._launch, capacities, engines)

    # --- mailboxes: the reactor's thread ----------------------------------------------

    def is_free(self, channel: int) -> bool:
        """See `IDevice.is_free`."""
        return int(self._launch.on_host(entries.mailbox_state, channel)) == 0

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        """
        As `IMailboxes`; *length* overrides the mailbox's length word (tests only).
        """
        data = np.frombuffer(packet, np.uint8)
        size = len(packet) if length is None else length
        if not self._launch.on_host(entries.publish, channel, data, len(packet), size):
            raise ChannelBusy(channel)
        self.ring()

    def collect(self) -> Sequence[int]:
        """See `IDevice.collect`."""
        channels = []
        while (channel := int(self._launch.on_host(entries.next_reply))) >= 0:
            channels.append(channel)
        return channels

    def reply(self, channel: int) -> bytes:
        """See `IDevice.reply`."""
        size = int(self._launch.on_host(entries.copy_reply, channel, self._packet))
        if size < 0:
            raise ChannelBusy(channel)
        return self._packet[:size].tobytes()

    def release(self, channel: int) -> None:
        """See `IDevice.release`."""
        if not self._launch.on_host(entries.release, channel):
            raise ChannelBusy(channel)

    def watch(self, watched: bool) -> None:
        """See `IProgress.watch`."""
        self._launch.on_host(entries.set_word, WORD_WATCHED, int(watched))

    def progress(self) -> Sequence[Progress] | None:
        """See `IProgress.progress`."""
        return self._notices.take(self._launch)

    # --- engines: the reactor's thread ------------------------------------------------

    def orders(self) -> Sequence[OpenOrder | StopOrder]:
        """See `IDevice.orders`."""
        return self._orders.take(self._launch)

    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool:
        """See `IDevice.report`."""
        if not 0 < slot < self.capacities.slots:
            raise ValueError(f"slot {slot} is out of range")
        if len(data) > limits.EVENT_BYTES_PER_SLOT:
            raise ValueError(f"an emission of {len(data)} bytes is over the limit")
        buffer = np.frombuffer(data, np.uint8)
        # An enum as it is costs more than all the rest (docs/kernels.md).
        posted = self._launch.on_host(
            entries.post_event, slot, generation, int(kind), value, buffer, len(data)
        )
        if not posted:
            self.ring()
        return bool(posted)

    def media_jobs(self) -> Sequence[MediaJob]:
        """See `IDevice.media_jobs`."""
        return self._jobs.take(self._launch)

    def source_bytes(
        self, index: int, generation: int, offset: int, size: int
    ) -> bytes:
        """See `IDevice.source_bytes`; *offset* is the place in the pool."""
        return copy_source(self._launch, index, generation, offset, size)

    def finish_media(self, worker: int, decoded: bool) -> None:
        """See `IDevice.finish_media`."""
        self._launch.on_host(entries.finish_job, worker, int(decoded))
        self.ring()

    def ring(self) -> None:
        """See `IDevice.ring`."""
        os.eventfd_write(self.doorbell, 1)

    def stats(self) -> DeviceStats:
        """See `IDevice.stats`."""
        return self._stats.read(self._launch)

    def set_engine(self, role: int, active: bool) -> None:
        """See `IDevice.set_engine`."""
        self._launch.on_host(entries.set_role_state, role, int(active))
        self.ring()

    def set_control(self, row: int, available: bool) -> None:
        """See `IDevice.set_control`."""
        if not 0 <= row < limits.CONTROL_ROWS_MAX:
            raise ValueError(f"control {row} is out of range")
        self._launch.on_host(entries.set_control_state, row, int(available))
        self.ring()

    def set_hold(self, held: bool) -> None:
        """See `IDevice.set_hold`."""
        self._launch.on_host(entries.set_word, WORD_HELD, int(held))
        self.ring()

    def set_restoring(self, restoring: bool) -> None:
        """Set or clear the restoring gate (`device.md` §1)."""
        self._launch.on_host(entries.set_word, WORD_RESTORING, int(restoring))
        self.ring()

    # --- the state store: its thread --------------------------------------------------

    def records(self) -> Sequence[StoreRecord]:
        """See `IDevice.records`."""
        return self._records.take(self._launch)

    def record_bytes(self, record: SourceRecord, start: int, size: int) -> bytes:
        """See `IDevice.record_bytes`."""
        if not 0 <= start <= start + size <= record.size:
            raise ValueError(f"{size} bytes from {start} are outside of the source")
        at = record.offset + start
        return bytes(self._launch.pool[at : at + size])

    def finish_record(self, saved: bool) -> None:
        """See `IDevice.finish_record`."""
        self._launch.on_host(entries.finish_record, int(saved))

    def restore_policy(self, policy: StoredPolicy) -> None:
        """See `IDevice.restore_policy`."""
        restore_policy(self._launch, policy)

    def break_policy(self) -> None:
        """See `IDevice.break_policy`."""
        self._launch.on_device(entries.break_policy)

    def restore_source(self, source: StoredSource) -> int:
        """See `IDevice.restore_source`."""
        return restore_source(self._launch, source)

    def flush(self) -> None:
        """See `IDevice.flush`."""
        self._launch.on_host(entries.set_word, WORD_FLUSH, 1)
        self.ring()

    # --- the device's thread ----------------------------------------------------------

    def warm_up(self) -> None:
        """
        Compile, or load from the cache, every kernel that `run` and the rest need.
        """
        self._launch.compile()

    def tick(self, now_ns: int) -> None:
        """See `IDevice.tick`."""
        self._launch.tick(now_ns)

    def run(self) -> None:
        """See `IDevice.run`."""
        bells = self.broker_doorbell, self.engine_doorbell, self.store_doorbell
        self._launch.run(self.doorbell, bells)

    def close(self) -> None:
        """
        Mark the region closed and wake `run`. The eventfds stay open until `free`.
        """
        self._launch.on_host(entries.close_region)
        self.ring()

    def free(self) -> None:
        """Close the eventfds; only after `run` has returned."""
        bells = self.broker_doorbell, self.engine_doorbell, self.store_doorbell
        for fd in (self.doorbell, *bells):
            os.close(fd)

    # --- tests ------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """A copy of region D, one record (`tables.device_dtype`)."""
        return self._launch.snapshot()[0][0]

    def look(self) -> Any:
        """Region D, one record, to be read before the next tick."""
        return self._launch.look()[0]

    def digest(self) -> str:
        """
        SHA-256 of the regions D, B and P, for comparing targets and for tests that
        nothing changed.
        """
        digest = hashlib.sha256(memoryview(self._launch.pool))
        for region in self._launch.snapshot():
            digest.update(region.tobytes())
        return digest.hexdigest()

    def invariants(self) -> list[str]:
        """Every broken invariant of every table, as sentences; empty when all hold."""
        return find_violations(self.look())
