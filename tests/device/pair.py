"""
A device and the oracle side by side: one face, and everything compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tests.device.model import Oracle
from twisted_aotx.device.host import Device
from twisted_aotx.devices import DeviceStats
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import (
    MediaJob,
    OpenOrder,
    SourceRecord,
    StopOrder,
    StoredPolicy,
    StoredSource,
    StoreRecord,
)

#: Where METRICS says how many bytes the tables take, which the oracle cannot know.
_ALLOCATION = slice(128 + 72, 128 + 80)
_MEDIA, _METRICS = 6, 8


class Divergence(AssertionError):
    """
    The device and the oracle did not do the same.
    """


def _same(what: str, device: object, oracle: object) -> None:
    if device != oracle:
        raise Divergence(f"{what}: device {device!r}, oracle {oracle!r}")


def _same_packet(what: str, device: bytes, oracle: bytes) -> None:
    _same(f"length of {what}", len(device), len(oracle))
    differ = [at for at in range(len(device)) if device[at] != oracle[at]]
    if differ:
        at = differ[0] & ~3
        _same(
            f"{what}, byte {at}", device[at : at + 16].hex(), oracle[at : at + 16].hex()
        )


def byte_classes(order: OpenOrder) -> bytes:
    """The class of every rendered byte; how adjacent spans are cut is free."""
    classes = bytearray()
    for end, span_class in order.spans:
        assert end >= len(classes), "spans run backwards"
        classes += bytes([span_class]) * (end - len(classes))
    assert len(classes) == len(order.rendered), "spans do not cover the prompt"
    return bytes(classes)


def _comparable(order: OpenOrder | StopOrder) -> object:
    if isinstance(order, StopOrder):
        return order
    return attrs.evolve(order, spans=()), order.rendered, byte_classes(order)


class Pair:
    """
    Gives both the same inputs and answers as the device does.
    """

    def __init__(self, device: Device, oracle: Oracle) -> None:
        self.device = device
        self.oracle = oracle
        self._metrics: set[int] = set()
        self._jobs: list[MediaJob] = []
        #: Whether there may be a source at all.
        self._has_media = False
        self._watched = False

    @property
    def channels(self) -> int:
        return self.device.channels

    def is_free(self, channel: int) -> bool:
        free = self.device.is_free(channel)
        _same(f"channel {channel} free", free, self.oracle.is_free(channel))
        return free

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        self._metrics.discard(channel)
        if packet[8:12] == _METRICS.to_bytes(4, "little"):
            self._metrics.add(channel)
        if packet[8:12] == _MEDIA.to_bytes(4, "little"):
            self._has_media = True
        self.device.publish(channel, packet, length=length)
        self.oracle.publish(channel, packet, length=length)

    def collect(self) -> Sequence[int]:
        replied = self.device.collect()
        _same("replies", list(replied), list(self.oracle.collect()))
        return replied

    def reply(self, channel: int) -> bytes:
        packet = self.device.reply(channel)
        expected = self.oracle.reply(channel)
        _same_packet(
            f"reply in channel {channel}",
            self._masked(channel, packet),
            self._masked(channel, expected),
        )
        return packet

    def _masked(self, channel: int, packet: bytes) -> bytes:
        if channel not in self._metrics or len(packet) < _ALLOCATION.stop:
            return packet
        return packet[: _ALLOCATION.start] + bytes(8) + packet[_ALLOCATION.stop :]

    def release(self, channel: int) -> None:
        self.device.release(channel)
        self.oracle.release(channel)

    def tick(self, now_ns: int) -> None:
        before = self._progress()
        self.device.tick(now_ns)
        self.oracle.tick(now_ns, self._told())
        self._check_notices(before)
        stats = attrs.evolve(self.device.stats(), busy_ns=0)
        if not self.oracle.state.restoring:
            _same("stats", stats, self.oracle.stats())
        jobs = self.device.media_jobs()
        for job in jobs:
            self.oracle.post_job(job)
        _same("media jobs", list(jobs), list(self.oracle.media_jobs()))
        self._jobs += jobs

    def _told(self) -> Sequence[int]:
        """The phases of the device's sources; a copy of its tables costs its time."""
        if not self._has_media:
            return []
        phases: list[int] = self.device.look()["m_phase"].tolist()
        return phases

    def watch(self, watched: bool) -> None:
        self._watched = watched
        self.device.watch(watched)

    def _progress(self) -> dict[tuple[bytes, bytes], tuple[int, int, int]]:
        """Output bytes, phase and admission number of every request."""
        entries = self.oracle.state.entries
        return {
            key: (len(entry.output), entry.phase, entry.sequence)
            for key, entry in entries.items()
        }

    def _check_notices(
        self, before: dict[tuple[bytes, bytes], tuple[int, int, int]]
    ) -> None:
        """
        Who watches is told once of everything that changed, and as it is now.

        Of an admission its SUBMIT is told, be it of an id that was another request's.
        """
        after = self._progress()
        told = self.device.progress()
        if told is None:
            raise Divergence("notices were lost that were read after every tick")
        found = [(each.principal, each.id) for each in told]
        _same("requests told of more than once", len(found), len(set(found)))
        for each in told:
            key = each.principal, each.id
            _same("a notice", (each.total_bytes, each.phase), after[key][:2])
        changed = {
            key
            for key, now in after.items()
            if key in before and before[key] != now and before[key][2] == now[2]
        }
        if self._watched and not changed <= set(found):
            raise Divergence(f"nobody was told of {changed - set(found)}")

    def is_settled(self) -> bool:
        return self.oracle.is_settled()

    def orders(self) -> Sequence[OpenOrder | StopOrder]:
        orders = self.device.orders()
        expected = self.oracle.orders()
        for slot in {order.slot for order in (*orders, *expected)}:
            # Between slots the order is free.
            _same(
                f"orders of slot {slot}",
                [_comparable(order) for order in orders if order.slot == slot],
                [_comparable(order) for order in expected if order.slot == slot],
            )
        return orders

    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool:
        taken = self.device.report(slot, generation, kind, value, data)
        expected = self.oracle.report(slot, generation, kind, value, data)
        _same("room for a report", taken, expected)
        return taken

    def media_jobs(self) -> Sequence[MediaJob]:
        jobs, self._jobs = self._jobs, []
        return jobs

    def source_bytes(
        self, index: int, generation: int, offset: int, size: int
    ) -> bytes:
        where = index, generation, offset, size
        found: list[bytes | None] = []
        for each in (self.device, self.oracle):
            try:
                found.append(each.source_bytes(*where))
            except SourceGone:
                found.append(None)
        _same("bytes of a source", *found)
        if found[0] is None:
            raise SourceGone(index)
        return found[0]

    def finish_media(self, worker: int, decoded: bool) -> None:
        self.device.finish_media(worker, decoded)
        self.oracle.finish_media(worker, decoded)

    def records(self) -> Sequence[StoreRecord]:
        records = self.device.records()
        _same("records", list(records), list(self.oracle.records()))
        return records

    def record_bytes(self, record: SourceRecord, start: int, size: int) -> bytes:
        data = self.device.record_bytes(record, start, size)
        _same("record", data, self.oracle.record_bytes(record, start, size))
        return data

    def finish_record(self, saved: bool) -> None:
        self.device.finish_record(saved)
        self.oracle.finish_record(saved)

    def restore_policy(self, policy: StoredPolicy) -> None:
        self.device.restore_policy(policy)
        self.oracle.restore_policy(policy)

    def break_policy(self) -> None:
        self.device.break_policy()
        self.oracle.break_policy()

    def restore_source(self, source: StoredSource) -> int:
        self._has_media = True
        status = self.device.restore_source(source)
        _same("restored", status, self.oracle.restore_source(source))
        return status

    def flush(self) -> None:
        self.device.flush()
        self.oracle.flush()

    def set_engine(self, role: int, active: bool) -> None:
        self.device.set_engine(role, active)
        self.oracle.set_engine(role, active)

    def set_control(self, row: int, available: bool) -> None:
        self.device.set_control(row, available)
        self.oracle.set_control(row, available)

    def set_hold(self, held: bool) -> None:
        self.device.set_hold(held)
        self.oracle.set_hold(held)

    def set_restoring(self, restoring: bool) -> None:
        self.device.set_restoring(restoring)
        self.oracle.set_restoring(restoring)

    def stats(self) -> DeviceStats:
        return self.device.stats()

    def invariants(self) -> Sequence[str]:
        return [*self.device.invariants(), *self.oracle.invariants()]

    def close(self) -> None:
        self.device.close()
        self.oracle.close()

    def free(self) -> None:
        self.device.free()
        self.oracle.free()

    def digest(self) -> bytes | str:
        return self.device.digest()
