"""
What the device asks of an engine, as plain records (`device.md` §10). Layer 0.
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
