"""
Grant tables, most of them right.
"""

from __future__ import annotations

import functools
import struct

import attrs
from hypothesis import strategies as st

from tests.device.making import P1, P2, P3, P4
from tests.device.strategies.damage import SOUND, Damage, maybe_damaged
from twisted_aotx.limits import Capacities

PRINCIPALS = (P1, P2, P3, P4)


@attrs.frozen
class TableIntent:
    """A grant table whose revision is the current one plus `raised`."""

    rows: tuple[bytes, ...]
    raised: int = 1
    operation: int = 1
    count_off: int = 0
    damage: Damage = SOUND

    def packet(self, current: int) -> bytes:
        revision = (current + self.raised) % 2**64
        rows = b"".join(
            row[:16] + struct.pack("<Q", revision) + row[24:] for row in self.rows
        )
        head = struct.pack(
            "<8sII16sQ32xIIIIII32x",
            b"AOTXAPI1",
            self.operation,
            0,
            bytes(16),
            revision,
            0,
            (len(self.rows) + self.count_off) % 2**32,
            0,
            0,
            len(rows),
            0,
        )
        return self.damage.apply(head + rows)


def _row(
    principal: bytes,
    actions: int,
    models: int,
    pages: int,
    tokens: int,
    requests: int,
    reserved: bytes,
    media: tuple[int, int] = (9, 20000),
) -> bytes:
    return (
        struct.pack(
            "<16sQIIIIIIQ",
            principal,
            0,
            actions,
            models,
            pages,
            tokens,
            requests,
            *media,
        )
        + reserved
    )


def everyone(capacities: Capacities, requests: int = 0) -> TableIntent:
    """Everything for the first three principals; *requests* 0 is the whole table."""
    full = _row(
        P1,
        255,
        0b11100,
        0,
        capacities.sequence_tokens - 1,
        requests or capacities.requests,
        bytes(8),
    )
    return TableIntent(tuple(p + full[16:] for p in PRINCIPALS[:3]))


@functools.lru_cache
def tables(capacities: Capacities) -> st.SearchStrategy[TableIntent]:
    pages = -(-capacities.sequence_tokens // 16)
    tokens = capacities.sequence_tokens
    good = st.builds(
        lambda who, actions, models, pages, tokens, requests, media: [
            _row(p, actions, models, pages, tokens, requests, bytes(8), media)
            for p in who
        ],
        st.one_of(
            st.lists(st.sampled_from(PRINCIPALS[1:]), unique=True).map(
                lambda who: [*who, P1]
            ),
            st.lists(st.sampled_from(PRINCIPALS), unique=True),
        ),
        st.sampled_from((1, 255, 255, 3, 8, 2, 33, 0x81)),
        st.sampled_from((0b1100, 0b1100, 0b11100, 0b100, 0)),
        st.sampled_from((0, 0, 1, 2, pages)),
        st.sampled_from((1, 16, tokens - 1)),
        st.sampled_from((1, 2, 3, capacities.requests)),
        st.sampled_from(((9, 20000), (2, 2000), (0, 10), (99, 2**64 - 1))),
    ).map(tuple)
    one_row = st.builds(
        _row,
        st.sampled_from((*PRINCIPALS, bytes(16))),
        st.sampled_from((0, 1, 255, 256, 257, 2**32 - 1)),
        st.sampled_from((0, 1, 2, 0b1100, 0b11100, 0b100000, 2**32 - 4)),
        st.sampled_from((0, pages, pages + 1, 2**32 - 1)),
        st.sampled_from((0, 1, tokens - 1, tokens, 2**32 - 1)),
        st.sampled_from((0, 1, capacities.requests, capacities.requests + 1)),
        st.sampled_from((bytes(8), bytes(8), bytes(7) + b"\1")),
    )
    return st.one_of(
        st.builds(everyone, st.just(capacities), st.sampled_from((0, 0, 2))),
        st.builds(everyone, st.just(capacities), st.sampled_from((0, 0, 2))),
        st.builds(TableIntent, rows=good, raised=st.sampled_from((1, 1, 1, 0, -1))),
        st.builds(
            TableIntent,
            rows=st.lists(one_row, max_size=3).map(
                lambda rows: (*everyone(capacities).rows, *rows)
            ),
            raised=st.sampled_from((1, 1, 0, -1, 5, 2**63)),
            operation=st.sampled_from((1, 1, 1, 2, 0)),
            count_off=st.sampled_from((0, 0, 0, 1, -1)),
            damage=maybe_damaged,
        ),
    )
