"""
The seams between the parts: device, broker, engines.

Layer 0. Third parties implement `IEngineMaker` and `IEngine` (docs/engines.md); the
other interfaces are inner seams, kept here so that no layer imports its neighbour for a
type. What an engine is asked is in `orders`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted_aotx.orders import (
        MediaJob,
        OpenOrder,
        StopOrder,
        StoredPolicy,
        StoredSource,
        StoreRecord,
    )
    from twisted_aotx.wire.info import ControlRow


@attrs.frozen(kw_only=True)
class MessageFormat:
    """
    How a model wants a conversation written: nine spans and a prefix (`device.md` §5).

    Each span holds at most `limits.SPAN_BYTES_MAX` bytes.
    """

    system_head: bytes
    system_tail: bytes
    user_head: bytes
    user_tail: bytes
    assistant_head: bytes
    assistant_tail: bytes
    generation_head: bytes
    think_open: bytes = b""
    think_close: bytes = b""
    #: Leading bytes of `system_head` that stand once at the start of every prompt.
    prefix_bytes: int = 0


@attrs.frozen(kw_only=True)
class EngineFacts:
    """
    What an engine declares at start (`device.md` §10).
    """

    #: 2, 3 or 4 (`wire.numbers.Role`); one engine per role.
    role: int
    #: 32 bytes.
    model_sha256: bytes
    #: Bits of `wire.numbers.Modality`; text is always set.
    modalities: int
    #: Leases at once, 1 or more.
    capacity: int
    #: The most tokens (prompt and output) that one lease can hold.
    sequence_tokens: int
    message_format: MessageFormat
    #: At most 16, for the default language role only.
    controls: tuple[ControlRow, ...] = ()


@attrs.frozen(kw_only=True)
class ReferenceModel:
    """
    The model of an engine that runs inside the device's own kernels (`device.md` §17).
    """

    #: The text that the n-gram table is made from.
    corpus: bytes
    #: Tokens per second and lease; 0 is as fast as ticks allow.
    rate: int = 0
    #: Bytes emitted exactly, then the end token; None samples from the corpus.
    fixed_output: bytes | None = None


class Lease(Protocol):
    """
    One running sequence as its engine sees it.

    The reports may be called from any thread, in the order of `device.md` §10:
    `opened` or `refused` once and first; `emit` any number of times; `done` or
    `failed` once and last. Reports of a lease that has ended are dropped. Nothing
    blocks.
    """

    @property
    def order(self) -> OpenOrder:
        """What was asked for."""

    def opened(self, prompt_tokens: int) -> None:
        """The sequence is open; *prompt_tokens*, 1 or more, count against limits."""

    def refused(self, status: int) -> None:
        """The prompt cannot be served; *status* is 400..599."""

    def emit(self, data: bytes, tokens: int) -> None:
        """
        Append *data*, sampled as *tokens* tokens. Either may be empty or 0, not both.

        More than `limits.EVENT_BYTES_PER_SLOT` bytes are a fault of the engine.
        """

    def done(self, finish: int) -> None:
        """The sequence ended: 1 at an end token, 2 at the limit."""

    def failed(self, status: int) -> None:
        """The engine gave up on this sequence; *status* is 400..599."""


class EngineHost(Protocol):
    """
    What an engine may ask of the runtime. May be called from any thread.
    """

    def lost(self, reason: str) -> None:
        """The engine cannot serve: its leases end with 503, its role is inactive."""

    def back(self) -> None:
        """The engine serves again, with the facts it declared at start."""

    def control(self, name: str, available: bool) -> None:
        """
        Withdraw the control *name* of the engine's facts, or offer it again.

        While it is withdrawn it shows no dose and nobody can select it; requests that
        did and are leased meanwhile fail with 503. Running sequences go on.

        Raises:
            ValueError: the facts have no such control.
        """


class IEngine(Interface):
    """
    A model that serves leases. The verbs are called on the reactor's thread.
    """

    facts: EngineFacts = Attribute("What the engine declares; constant (EngineFacts).")

    def start(host: EngineHost) -> Any:
        """
        Get ready to serve; return None or a Deferred that fires when ready.

        Loading a model belongs into the maker or here, never into `open`.
        """

    def open(lease: Lease) -> None:
        """Begin to serve *lease*. Must not block."""

    def stop(slot: int, generation: int) -> None:
        """
        The lease *generation* of *slot* has ended: free its sequence.

        Called once at most per lease, never after `refused`, `done` or `failed`.
        """

    def close() -> Any:
        """Free everything; return None or a Deferred. No verb is called afterwards."""


class IKernelEngine(IEngine):
    """
    An engine whose sequences the device's own kernels run; `open` is never called.

    Its first control, if it has any, is the kernels' `caution`, its second `verve`.
    """

    model: ReferenceModel = Attribute("What the kernels need (ReferenceModel).")


class IEngineMaker(Interface):
    """
    A twisted plugin that makes engines: `twisted/plugins/NAME_aotx.py`.
    """

    name: str = Attribute("What `engine` in runtime.json says (str).")
    help: str = Attribute("One line for people (str).")
    paths: tuple[str, ...] = Attribute(
        "Options that are paths: a relative one counts from the folder of runtime.json "
        "and reaches `make` absolute (tuple of str)."
    )

    def make(
        role: int, options: Mapping[str, Any], slots: int, sequence_tokens: int
    ) -> IEngine:
        """
        Make the engine of *role* from its options in `runtime.json` (`engine` removed).

        *slots* and *sequence_tokens* are the device's capacities; `capacity` defaults
        to slots − 1. Called in a thread, one maker at a time, and may take its time;
        the reactor runs meanwhile.

        Raises:
            ConfigError: an option is unknown or out of range; its path is the option.
        """


class IMailboxes(Interface):
    """
    The broker's side of the peers' mailboxes (`wire.md` §12). Reactor thread only.

    A channel is free (state 0), published (1) or answered (2). Channel 0 is the
    operator's.
    """

    channels: int = Attribute("Mailboxes, channel 0 included (int).")

    def is_free(channel: int) -> bool:
        """Whether the mailbox is owned by the broker (state 0)."""

    def publish(channel: int, packet: bytes) -> None:
        """
        Hand *packet* (at most 65,536 bytes) to the device and ring it.

        Raises:
            ChannelBusy: the state is not 0; nothing was written.
        """

    def collect() -> Sequence[int]:
        """The channels whose replies were published since the last call, in order."""

    def reply(channel: int) -> bytes:
        """
        A copy of the reply in *channel*; the mailbox stays taken until `release`.

        Raises:
            ChannelBusy: there is no reply.
        """

    def release(channel: int) -> None:
        """Take the mailbox back (state 2 → 0)."""


@attrs.frozen
class Progress:
    """
    A request's output or phase has changed; by now it may have changed again.
    """

    #: 16 bytes each.
    principal: bytes
    id: bytes
    #: Output bytes so far.
    total_bytes: int
    #: `wire.numbers.Phase`.
    phase: int


class IProgress(Interface):
    """
    What a device tells of its requests while somebody watches. Reactor thread only.
    """

    def watch(watched: bool) -> None:
        """
        Whether to tell from the next tick on; nothing is told before the first call.

        While it tells, the broker's doorbell rings for progress, too.
        """

    def progress() -> Sequence[Progress] | None:
        """
        What was told since the last call, in order; None: some of it was lost, so
        anything may have changed.
        """


@attrs.frozen(kw_only=True)
class DeviceStats:
    """
    What the device tells of itself, as of a recent tick; counters are per epoch.
    """

    ticks: int
    #: Frames answered.
    frames: int
    #: Leases held now, and requests queued now.
    leases: int
    queued: int
    #: Late engine events of ended leases that were dropped [D4].
    dropped_events: int
    held: bool
    #: Bit per role whose engine serves.
    roles_active: int
    #: Time spent in ticks, in ns.
    busy_ns: int
    #: Sources in phases 1 to 6, and bytes of the source pool that are free.
    media_objects: int = 0
    media_bytes_free: int = 0
    #: Upload receipts that are pending or cached (`device.md` §12).
    media_receipts: int = 0
    #: Usage records after the frontier, and committed ones in all [D11].
    usage_pending: int = 0
    usage_reviewed: int = 0
    #: `wire.numbers.PolicyState`.
    policy_state: int = 0


class IDevice(IMailboxes, IProgress):
    """
    A device: tables, kernels and their two doorbells (`device.md`).

    `orders`, `report`, `set_engine` and the mailboxes belong to the reactor's thread;
    `run` to the device's; `tick` is for those who step it themselves.
    """

    broker_doorbell: int = Attribute(
        "eventfd that rings when replies or progress were published."
    )
    engine_doorbell: int = Attribute(
        "eventfd that rings when orders or media jobs were published."
    )
    store_doorbell: int = Attribute("eventfd that rings when records were published.")

    def warm_up() -> None:
        """Compile every kernel that `run` needs; changes nothing. Any thread."""

    def run() -> None:
        """Tick until `close`, without the GIL (device.backend cpu)."""

    def close() -> None:
        """Mark the region closed and wake `run`, which returns. Idempotent."""

    def free() -> None:
        """Close the doorbells; only after `run` has returned, and nothing after it."""

    def tick(now_ns: int) -> None:
        """Run one tick at *now_ns* (ns, never less than the last one)."""

    def orders() -> Sequence[OpenOrder | StopOrder]:
        """Take the orders published since the last call, in the order sent."""

    def report(
        slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool:
        """
        Hand one engine event to the device: kind is `device.numbers.Event`.

        *value* is prompt tokens, sampled tokens, finish or status. False: the slot's
        ring is full, nothing was written; try again after the next doorbell.
        """

    def media_jobs() -> Sequence[MediaJob]:
        """The images to decode that were published since the last call."""

    def source_bytes(index: int, generation: int, offset: int, size: int) -> bytes:
        """
        A copy of a source's bytes; any thread.

        Raises:
            SourceGone: the descriptor has another source by now.
        """

    def finish_media(worker: int, decoded: bool) -> None:
        """The media worker is done with its job."""

    def ring() -> None:
        """Wake the device (after a batch of reports)."""

    def records() -> Sequence[StoreRecord]:
        """The records published since the last call, in order. The store's thread."""

    def record_bytes(record: Any, start: int, size: int) -> bytes:
        """
        A part of what a `SourceRecord` keeps; until its `finish_record`. The store's
        thread.
        """

    def finish_record(saved: bool) -> None:
        """
        The oldest record that was not finished yet is saved, or is not and will not be.
        The store's thread.
        """

    def restore_policy(policy: StoredPolicy) -> None:
        """Before `run`: policy, ledger and frontier of the last activation."""

    def break_policy() -> None:
        """Before `run`: the saved policy state is unusable; state error."""

    def restore_source(source: StoredSource) -> int:
        """
        Before `run`: take a source of the last activation as ready, its rows computed
        anew. Returns 0, or the `MediaStatus` that says why it does not fit any more.
        """

    def flush() -> None:
        """
        Commit the usage records that wait, whatever the review's state (orderly stop);
        `stats().usage_pending` falls to 0.
        """

    def stats() -> DeviceStats:
        """What the device tells of itself. Reactor thread."""

    def set_engine(role: int, active: bool) -> None:
        """The role's engine was lost or is back."""

    def set_control(row: int, available: bool) -> None:
        """
        The engine withdrew the control in *row* of its `EngineFacts.controls`, or
        offers it again.
        """

    def set_hold(held: bool) -> None:
        """Set or clear the hold word (`device.md` §8)."""
