"""
The engine that runs inside the device, as its own steps (`device.md` §17).

What it says is docs/reference-model.md's (`tests/device/reference_oracle.py`); when it
says it is stated there under Pace. Its reports are handled like any engine's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import attrs

from tests.device.oracle.philox import lease_seed
from tests.device.oracle.state import Event, Lease, State
from tests.device.reference_oracle import END, Model
from twisted_aotx.interfaces import ReferenceModel
from twisted_aotx.limits import MEDIA_BYTES_PER_TICK

#: Tokens that one step makes at most.
STEP = 32
#: Bytes that are hashed at once.
BLOCK = 64
OPENED, EMIT, DONE = 1, 3, 4
_table = functools.lru_cache(Model)


@attrs.define(kw_only=True)
class Sequence:
    """One lease that the kernels serve."""

    tokens: Iterator[int]
    #: Bytes of each source that are not hashed yet.
    unhashed: list[int]
    #: Of the first step, which is not before all of them are.
    first_ns: int = 0
    is_open: bool = False
    made: int = 0


def _fixed(data: bytes) -> Iterator[int]:
    yield from data
    yield END


def open_sequence(state: State, lease: Lease, model: ReferenceModel) -> Sequence:
    """The first step is made in the tick that opens."""
    entry = lease.entry
    sources = [source for _, source in entry.prompt.references]
    if model.fixed_output is not None:
        tokens = _fixed(model.fixed_output)
    else:
        tokens = _table(model.corpus).tokens(
            entry.prompt.data,
            entry.temperature,
            entry.top_p,
            lease_seed(state.seed_key, entry.sequence),
            digests=[source.sha256 for source in sources],
            **_doses(state, lease),
        )
    return Sequence(tokens=tokens, unhashed=[len(source.data) for source in sources])


def _hash(state: State, sequence: Sequence) -> None:
    """One tick's share of the sources, whose digests were checked when they came."""
    share = max(BLOCK, MEDIA_BYTES_PER_TICK // len(state.leases))
    while sequence.unhashed and share > 0:
        blocks = min(share, sequence.unhashed[0]) // BLOCK
        sequence.unhashed[0] -= blocks * BLOCK
        share -= blocks * BLOCK
        if blocks == 0 and sequence.unhashed[0] >= BLOCK:
            return
        if blocks == 0:
            sequence.unhashed.pop(0)
            share -= BLOCK


def _doses(state: State, lease: Lease) -> dict[str, int]:
    """The selected control by its name."""
    selection = lease.entry.selection
    if selection is None:
        return {}
    (name,) = (
        row.name
        for row in state.models[lease.entry.role].controls
        if row.qualification_sha256 == selection.qualification_sha256
    )
    return {name: selection.dose}


def step(state: State, lease: Lease, sequence: Sequence, rate: int) -> None:
    """Report what one tick makes: tokens that are due, and the end."""
    if not sequence.is_open:
        _hash(state, sequence)
        if sequence.unhashed:
            return
        prompt = lease.entry.prompt
        rows = sum(source.rows for _, source in prompt.references)
        _report(lease, OPENED, len(prompt.data) + rows)
        sequence.is_open = True
        sequence.first_ns = state.now
    data = bytearray()
    made = finish = 0
    while made < STEP and not finish and _is_due(state, sequence, rate):
        token = next(sequence.tokens)
        sequence.made += 1
        made += 1
        if token == END:
            finish = 1
        else:
            data.append(token)
            if sequence.made == lease.entry.limit:
                finish = 2
    if made:
        _report(lease, EMIT, made, bytes(data))
    if finish:
        _report(lease, DONE, finish)


def _is_due(state: State, sequence: Sequence, rate: int) -> bool:
    return rate == 0 or state.now >= due_ns(sequence, rate)


def due_ns(sequence: Sequence, rate: int) -> int:
    """When the next token is due; *rate* is not 0."""
    return sequence.first_ns + -(-sequence.made * 10**9 // rate)


def _report(lease: Lease, kind: int, value: int, data: bytes = b"") -> None:
    lease.said.append(
        Event(generation=lease.generation, kind=kind, value=value, data=data)
    )
