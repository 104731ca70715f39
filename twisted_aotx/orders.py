"""
What the device asks of an engine, of the media worker and of the state store, as plain
records (`device.md` §10, §12, §14). Layer 0.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Selection:
    """
    A control selection that was accepted at admission (`wire.md` §8).
    """

    qualification_sha256: bytes
    #: Unit 0.0001.
    dose: int


@attrs.frozen(kw_only=True)
class Source:
    """
    One media source of a lease, in order of reference (`device.md` §10).
    """

    kind: int
    sha256: bytes
    format: int
    samples: int
    rows: int
    data: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class OpenOrder:
    """
    The device leased a slot and asks the role's engine to open a sequence.
    """

    slot: int
    #: Raised by 1 at each lease of the slot, never reused in an epoch [D4].
    generation: int
    role: int
    limit: int
    temperature: float
    top_p: float
    seed: int
    #: The prompt as the message format renders it.
    rendered: bytes = attrs.field(repr=False)
    #: (end offset, class) of each span in order, without gaps; class 0 template,
    #: 1 caller, 2 link. Caller spans are tokenised without special tokens [D9].
    spans: tuple[tuple[int, int], ...] = attrs.field(repr=False)
    #: The SUBMIT payload without its selector.
    payload: bytes = attrs.field(repr=False)
    selection: Selection | None = None
    sources: tuple[Source, ...] = attrs.field(default=(), repr=False)


@attrs.frozen(kw_only=True)
class StopOrder:
    """
    The device ended a lease: free its sequence before a later generation is served.
    """

    slot: int
    generation: int
    role: int


@attrs.frozen(kw_only=True)
class MediaJob:
    """
    A JPEG whose markers the kernels have checked, for the media worker to decode.

    The bytes are the pool's at *offset*; they may be overwritten as soon as the source
    is refused, so the worker copies them and then asks whether the job still stands.
    """

    worker: int
    #: Descriptor of the source, and its generation.
    index: int
    generation: int
    offset: int
    size: int
    #: In pixels, as the header says.
    width: int
    height: int


@attrs.frozen(kw_only=True)
class SourceRecord:
    """
    To the store: keep this source. Its bytes stand in the pool until acknowledged.
    """

    owner: bytes
    transfer_id: bytes
    sha256: bytes
    #: `wire.numbers.MediaFormat`.
    format: int
    offset: int
    size: int


@attrs.frozen(kw_only=True)
class RemovalRecord:
    """
    To the store: the source is removed; nothing happens if it is not there.
    """

    owner: bytes
    transfer_id: bytes


@attrs.frozen(kw_only=True)
class ControlRecord:
    """
    To the store: the policy's control state (`device.md` §14).
    """

    control_revision: int
    review: bool
    paused: bool
    stopped: bool


@attrs.frozen(kw_only=True)
class LedgerRow:
    """
    What one principal used of one model: totals of the ledger, or a batch's increments.
    """

    #: 16 bytes; zero for what found no row of its own.
    principal: bytes
    #: 32 bytes; zero for what found no row of its own.
    model_sha256: bytes
    requests: int
    prompt_tokens: int
    sampled_tokens: int


@attrs.frozen(kw_only=True)
class LedgerRecord:
    """
    To the store: one committed batch [D11]; the store stamps it with its commit time.
    """

    #: Completion number of the last record that the batch took or passed over.
    frontier: int
    saved_generation: int
    rows: tuple[LedgerRow, ...]


StoreRecord = SourceRecord | RemovalRecord | ControlRecord | LedgerRecord


@attrs.frozen(kw_only=True)
class StoredSource:
    """
    A source as the store gives it back at start.
    """

    owner: bytes
    transfer_id: bytes
    sha256: bytes
    format: int
    data: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class StoredPolicy:
    """
    Policy, ledger and frontier as the store gives them back at start.
    """

    control: ControlRecord
    frontier: int
    saved_generation: int
    ledger: tuple[LedgerRow, ...]
