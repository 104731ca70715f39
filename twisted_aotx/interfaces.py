"""
What an engine is, says and is asked: the seam that third parties implement
(docs/engines.md).

Layer 0. Imports nothing of its neighbours but for types. What an engine is asked is in
`orders`; the seams around the device are in `devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted_aotx.orders import OpenOrder
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
    corpus: bytes = attrs.field(repr=False)
    #: Tokens per second and lease; 0 is as fast as ticks allow.
    rate: int = 0
    #: Bytes emitted exactly, then the end token; None samples from the corpus.
    fixed_output: bytes | None = attrs.field(default=None, repr=False)


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

        Called once at most per lease, never after `refused`, `done` or `failed`. After
        `lost` and `back` it comes for leases that went with the loss, too: an engine
        that knows nothing of them any more has nothing to do.
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
