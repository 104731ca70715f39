"""
What the oracle remembers: the device as plain records, lists and dictionaries.

Nothing here is laid out for speed; it is written from `device.md` and `wire.md` alone
and shares no code with the kernels.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from tests.device.oracle.media_state import Media, MediaSource
from tests.device.oracle.store import Store
from twisted_aotx.interfaces import MessageFormat, ReferenceModel
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import MediaJob, OpenOrder, Selection, StopOrder
from twisted_aotx.wire.info import ControlRow

if TYPE_CHECKING:
    from tests.device.oracle.kernel_engine import Sequence
    from tests.device.oracle.policy_state import Policy

#: Request phases (`wire.md` §3).
QUEUED, PREPARING, RUNNING, COMPLETED, FAILED, CANCELLED = 1, 2, 3, 4, 5, 6
ACTIVE = (QUEUED, PREPARING, RUNNING)
PHASES = ("–", "queued", "preparing", "running", "completed", "failed", "cancelled")

#: Span classes (`device.md` §5).
TEMPLATE, CALLER, LINK = 0, 1, 2

#: Tokens in one page [D8].
PAGE = 16


@attrs.define(kw_only=True)
class Grant:
    """One row of the grant table (`wire.md` §6), as it was sent."""

    principal: bytes
    actions: int
    roles: int
    pages: int
    tokens: int
    requests: int
    media_objects: int
    media_bytes: int


@attrs.define(kw_only=True)
class Model:
    """What one engine declared, and whether it serves now (`device.md` §10)."""

    role: int
    sha256: bytes
    modalities: int
    capacity: int
    message_format: MessageFormat
    controls: tuple[ControlRow, ...] = ()
    #: What the device's own kernels run, if this is such an engine.
    kernel: ReferenceModel | None = None
    active: bool = True
    #: What the host said last; the next work step takes it over.
    reported_active: bool = True
    #: Lost since the last work step: its leases end there, even if it is back.
    lost: bool = False
    #: Rows of `controls` that the engine has withdrawn.
    withdrawn: set[int] = attrs.field(factory=set)

    def doses(self, row: int) -> tuple[int, ...]:
        """Those of control *row* that may be selected now."""
        return () if row in self.withdrawn else self.controls[row].doses


@attrs.define(kw_only=True)
class Prompt:
    """What rendering gives (`device.md` §5)."""

    data: bytes
    #: (end offset, class) per span.
    spans: tuple[tuple[int, int], ...]
    #: Caller text spells an engine's own media markers: the lease fails with 400.
    forbidden: bool
    #: (kind, source) of each link, in order.
    references: tuple[tuple[int, MediaSource], ...] = ()


@attrs.define(kw_only=True)
class Entry:
    """One request with its result (`device.md` §4 Recorded, §9)."""

    principal: bytes
    id: bytes
    revision: int
    role: int
    model_sha256: bytes
    pages: int
    limit: int
    temperature: float
    top_p: float
    payload: bytes
    prompt: Prompt
    selection: Selection | None
    opened_ns: int
    changed_ns: int
    sequence: int
    phase: int = QUEUED
    status: int = 0
    cancel: int = 0
    finish: int = 0
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    output: bytearray = attrs.field(factory=bytearray)

    @property
    def key(self) -> tuple[bytes, bytes]:
        return self.principal, self.id


@attrs.define(kw_only=True)
class Outcome:
    """How a lease ends in the commit of this tick."""

    #: What ends it, as the table of request states in `device.md` §9 names it.
    event: str
    phase: int
    status: int
    cancel: int = 0
    finish: int = 0


@attrs.define(kw_only=True)
class Lease:
    """A request that has a slot (`device.md` §9)."""

    entry: Entry
    slot: int
    generation: int
    #: The host was asked to have it opened.
    ordered: bool = False
    #: Its sequence, where the device's kernels are the engine.
    sequence: Sequence | None = None
    said: list[Event] = attrs.field(factory=list)
    outcome: Outcome | None = None


@attrs.define(kw_only=True)
class Event:
    """One report of an engine, on its way to the device."""

    generation: int
    kind: int
    value: int
    data: bytes


@attrs.define(kw_only=True)
class Mailbox:
    """One channel (`wire.md` §12)."""

    state: int = 0
    length: int = 0
    packet: bytes = b""
    #: Its frame was taken and waits for the store; the broker sees no difference.
    waits: bool = False


@attrs.define(kw_only=True)
class State:
    """Everything that a tick reads and writes."""

    capacities: Capacities
    epoch: int
    seed_key: int
    models: dict[int, Model]
    mailboxes: list[Mailbox]
    media: Media
    policy: Policy
    store: Store = attrs.field(factory=Store)
    #: Images that the media worker has not taken.
    media_jobs: list[MediaJob] = attrs.field(factory=list)
    now: int = 0
    ticks: int = 0
    held: bool = False
    restoring: bool = False
    revision: int = 0
    grants: dict[bytes, Grant] = attrs.field(factory=dict)
    #: Every request by (principal, id).
    entries: dict[tuple[bytes, bytes], Entry] = attrs.field(factory=dict)
    #: Terminal entries, the one that changed longest ago first.
    retained: list[Entry] = attrs.field(factory=list)
    admitted: int = 0
    leases: dict[int, Lease] = attrs.field(factory=dict)
    generations: list[int] = attrs.field(factory=list)
    #: Reports by slot.
    reports: dict[int, list[Event]] = attrs.field(factory=dict)
    dropped_events: int = 0
    #: Orders that the host has not taken, with the sources whose bytes it will need;
    #: slots whose open order is among them.
    orders: list[tuple[OpenOrder | StopOrder, tuple[MediaSource, ...]]] = attrs.field(
        factory=list
    )
    unread: set[int] = attrs.field(factory=set)
    last_channel: int = 0
    replied: list[int] = attrs.field(factory=list)
    #: Frames answered so far.
    answered: int = 0
    #: How often each transition of `device.md` §9 was made: (from, event, to, status).
    transitions: Counter[tuple[str, str, str, int]] = attrs.field(factory=Counter)

    @property
    def pages_max(self) -> int:
        """P of `wire.md` §6."""
        return -(-self.capacities.sequence_tokens // PAGE)

    def send(self, order: OpenOrder | StopOrder, *sources: MediaSource) -> None:
        self.orders.append((order, sources))

    def answer(self, channel: int, packet: bytes) -> None:
        """Publish the reply in *channel*."""
        mailbox = self.mailboxes[channel]
        mailbox.state = 2
        mailbox.waits = False
        mailbox.packet = packet
        mailbox.length = len(packet)
        self.replied.append(channel)
        self.answered += 1

    def note(self, before: int, event: str, after: int, status: int = 0) -> None:
        """A request went from one phase to another."""
        self.transitions[PHASES[before], event, PHASES[after], status] += 1

    def active_requests(self, principal: bytes) -> int:
        """Counted by principal id, all revisions (`device.md` §2)."""
        return sum(
            entry.principal == principal and entry.phase in ACTIVE
            for entry in self.entries.values()
        )

    def queued(self) -> list[Entry]:
        """In the order of admission."""
        return sorted(
            (e for e in self.entries.values() if e.phase == QUEUED),
            key=lambda entry: entry.sequence,
        )

    def finish_entry(self, entry: Entry, outcome: Outcome) -> None:
        """The terminal transition (`device.md` §9)."""
        assert entry.phase in ACTIVE
        self.note(entry.phase, outcome.event, outcome.phase, outcome.status)
        entry.phase = outcome.phase
        entry.status = outcome.status
        entry.cancel = outcome.cancel
        entry.finish = outcome.finish
        entry.changed_ns = self.now
        self.retained.append(entry)
        for _, source in entry.prompt.references:
            source.leases -= 1
        self.policy.record(entry)
