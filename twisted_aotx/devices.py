"""
The seams around a device: the broker's mailboxes, the engines' side, the media worker
and the state store.

Layer 0. Inner seams, kept here so that no layer imports its neighbour for a type; what
third parties implement is in `interfaces`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
        """
        Take the mailbox back (state 2 → 0).

        Raises:
            ChannelBusy: there is no reply; the mailbox stays whose it is.
        """


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
