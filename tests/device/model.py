"""
The oracle: a device in plain Python with the face of `IDevice`.

Written from `device.md` and `wire.md`, never from the kernels; `machine.py` gives both
the same inputs and compares every reply, order and refusal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tests.device.oracle import media, policy, preparation
from tests.device.oracle.admission import admit
from tests.device.oracle.answers import handle_results
from tests.device.oracle.counters import count
from tests.device.oracle.exchange import commit, exchange
from tests.device.oracle.keeping import restore_policy, restore_source
from tests.device.oracle.lease import work
from tests.device.oracle.media_state import JPEG, WAV, Media, media_violations
from tests.device.oracle.policy_state import Policy
from tests.device.oracle.requests import DEFAULT_ROLE
from tests.device.oracle.state import ACTIVE, Event, Mailbox, Model, State
from tests.device.stepped import HasFacts
from twisted_aotx.devices import DeviceStats
from twisted_aotx.errors import ChannelBusy, SourceGone
from twisted_aotx.limits import (
    EVENT_BYTES_PER_SLOT,
    EVENTS_PER_SLOT,
    Capacities,
)
from twisted_aotx.orders import (
    MediaJob,
    OpenOrder,
    SourceRecord,
    StopOrder,
    StoredPolicy,
    StoredSource,
    StoreRecord,
)

#: Modality bits and the formats that they take.
_FAMILIES = ((2, JPEG), (4, WAV))


class Oracle:
    """
    A device whose every tick is a walk over dictionaries.
    """

    def __init__(
        self,
        capacities: Capacities,
        *,
        epoch: int,
        hash_key: int,
        seed_key: int,
        engines: Sequence[HasFacts],
    ) -> None:
        models = {
            engine.facts.role: Model(
                role=engine.facts.role,
                sha256=engine.facts.model_sha256,
                modalities=engine.facts.modalities,
                capacity=engine.facts.capacity,
                message_format=engine.facts.message_format,
                controls=engine.facts.controls,
                kernel=getattr(engine, "model", None),
            )
            for engine in engines
        }
        families = frozenset(
            form
            for bit, form in _FAMILIES
            for model in models.values()
            if model.modalities & bit
        )
        del hash_key  # dictionaries keep their own
        self.channels = capacities.channels
        self.state = State(
            capacities=capacities,
            epoch=epoch,
            seed_key=seed_key,
            models=models,
            mailboxes=[Mailbox() for _ in range(capacities.channels)],
            media=Media(capacities, families),
            policy=Policy(4 * capacities.principals),
            generations=[0] * capacities.slots,
            reports={slot: [] for slot in range(capacities.slots)},
        )
        self._stats = count(self.state)

    # --- the broker's side --------------------------------------------------------

    def is_free(self, channel: int) -> bool:
        return self.state.mailboxes[channel].state == 0

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        mailbox = self.state.mailboxes[channel]
        if mailbox.state != 0:
            raise ChannelBusy(channel)
        mailbox.state = 1
        mailbox.packet = packet
        mailbox.length = len(packet) if length is None else length

    def collect(self) -> Sequence[int]:
        replied, self.state.replied = self.state.replied, []
        return replied

    def reply(self, channel: int) -> bytes:
        mailbox = self.state.mailboxes[channel]
        if mailbox.state != 2:
            raise ChannelBusy(channel)
        return mailbox.packet

    def release(self, channel: int) -> None:
        assert self.state.mailboxes[channel].state == 2
        self.state.mailboxes[channel].state = 0

    # --- the engines' side --------------------------------------------------------

    def orders(self) -> Sequence[OpenOrder | StopOrder]:
        orders, self.state.orders = self.state.orders, []
        self.state.unread.clear()
        # What needs a source that is gone has ended; a stop follows.
        return [
            order
            for order, sources in orders
            if all(source.offset is not None for source in sources)
        ]

    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool:
        reports = self.state.reports[slot]
        waiting = sum(len(event.data) for event in reports)
        if (
            len(reports) >= EVENTS_PER_SLOT
            or waiting + len(data) > EVENT_BYTES_PER_SLOT
        ):
            return False
        reports.append(Event(generation=generation, kind=kind, value=value, data=data))
        return True

    def set_engine(self, role: int, active: bool) -> None:
        model = self.state.models[role]
        model.lost = model.lost or not active
        model.reported_active = active

    def set_control(self, row: int, available: bool) -> None:
        """Of the default language role, the only one that may have some."""
        withdrawn = self.state.models[DEFAULT_ROLE].withdrawn
        if available:
            withdrawn.discard(row)
        else:
            withdrawn.add(row)

    # --- the media worker's and the store's side ----------------------------------

    def media_jobs(self) -> Sequence[MediaJob]:
        jobs, self.state.media_jobs = self.state.media_jobs, []
        return jobs

    def post_job(self, job: MediaJob) -> None:
        """The device beside us asks its media worker for *job*."""
        source = self.state.media.table[job.index]
        assert source is not None, job
        preparation.post(self.state, source)

    def source_bytes(
        self, index: int, generation: int, offset: int, size: int
    ) -> bytes:
        source = self.state.media.table[index]
        if source is None or source.offset is None or source.generation != generation:
            raise SourceGone(index)
        at = offset - source.offset
        return bytes(source.data[at : at + size])

    def finish_media(self, worker: int, decoded: bool) -> None:
        source = self.state.media.workers[JPEG][worker]
        assert source is not None
        assert source.posted
        source.decoded = decoded

    def records(self) -> Sequence[StoreRecord]:
        return self.state.store.take()

    def record_bytes(self, record: SourceRecord, start: int, size: int) -> bytes:
        source = self.state.media.find(record.owner, record.transfer_id)
        assert source is not None
        return bytes(source.data[start : start + size])

    def finish_record(self, saved: bool) -> None:
        self.state.store.finish(saved)

    def restore_policy(self, policy: StoredPolicy) -> None:
        restore_policy(self.state, policy)

    def break_policy(self) -> None:
        self.state.policy.broken = True

    def restore_source(self, source: StoredSource) -> int:
        return restore_source(self.state, source)

    def flush(self) -> None:
        self.state.policy.flushing = True

    # --- the device ---------------------------------------------------------------

    def set_hold(self, held: bool) -> None:
        self.state.held = held

    def set_restoring(self, restoring: bool) -> None:
        self.state.restoring = restoring

    def ring(self) -> None:
        """Nothing sleeps here."""

    def close(self) -> None:
        """Nothing runs here."""

    def free(self) -> None:
        """Nothing is open here."""

    def tick(self, now_ns: int, told: Sequence[int] | None = None) -> None:
        """*told*: the phases of sources that the device beside us ended with."""
        state = self.state
        if state.restoring:
            return
        assert now_ns >= state.now
        state.now = now_ns
        state.ticks += 1
        if not state.held:
            media.expire(state)
        admit(state)
        if not state.held:
            work(state)
            preparation.prepare(state, told)
            exchange(state)
            commit(state)
            policy.review(state)
        handle_results(state)
        self._stats = count(state)
        if not state.held:
            preparation.hash_sources(state, told)
        if told is not None:
            preparation.check_told(state, told)

    def stats(self) -> DeviceStats:
        """As of the last tick that was not skipped; no time is taken here."""
        return self._stats

    def is_settled(self) -> bool:
        """Whether every source that is under way waits for somebody else."""
        return preparation.is_settled(self.state)

    def invariants(self) -> Sequence[str]:
        """What must hold between ticks, as sentences; empty when all of it does."""
        state = self.state
        broken: list[str] = []
        active = [e for e in state.entries.values() if e.phase in ACTIVE]
        if len(state.entries) > state.capacities.requests:
            broken.append("more requests than entries")
        if len(active) + len(state.retained) != len(state.entries):
            broken.append("an entry is neither active nor retained")
        if 0 in state.leases:
            broken.append("slot 0 is leased")
        for model in state.models.values():
            taken = sum(x.entry.role == model.role for x in state.leases.values())
            if taken > model.capacity:
                broken.append(f"role {model.role} has {taken} leases")
        if any(lease.entry.phase not in (2, 3) for lease in state.leases.values()):
            broken.append("a lease of a request that is not preparing or running")
        return [*broken, *media_violations(state.media)]

    def digest(self) -> bytes:
        """Changes exactly when the tables do; the clock and the tick count aside."""
        state = self.state
        tables = (
            state.revision,
            state.grants,
            sorted(state.entries.items()),
            list(state.media.sources()),
            sorted(state.media.receipts.items()),
            state.policy,
            [entry.key for entry in state.retained],
            state.admitted,
            sorted(state.leases.items()),
            state.generations,
        )
        return hashlib.sha256(repr(tables).encode()).digest()
