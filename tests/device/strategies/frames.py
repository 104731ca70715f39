"""
Frames of peers: each operation, each field at its limits and past them.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import attrs
from hypothesis import strategies as st

from tests.device.making import (
    P1,
    P2,
    P3,
    P4,
    message,
    payload_of,
)
from tests.device.strategies.damage import SOUND, Damage, maybe_damaged
from tests.device.strategies.prompts import long_payloads, payloads, plain_texts
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import Operation

U64_EDGES = (0, 1, 2, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


#: What the machine's first control row answers.
_good_selectors = st.sampled_from((1, -1, 40000)).map(
    lambda dose: struct.pack("<IIiI", 1, 1, dose, 0) + b"\1" * 32
)
_selectors = st.one_of(
    st.just(bytes(48)),
    st.builds(
        lambda version, kind, dose, zero, digest: (
            struct.pack("<IIiI", version, kind, dose, zero) + digest * 32
        ),
        st.sampled_from((1, 1, 1, 0, 2)),
        st.sampled_from((1, 1, 1, 0, 2)),
        st.sampled_from((1, -1, 40000, -40000, 0, 40001, -40001, -(2**31))),
        st.sampled_from((0, 0, 0, 1)),
        st.sampled_from((b"\x01", b"\x01", b"\x01", b"\x02", b"\x03", b"\x00")),
    ),
)


def _f32(value: float) -> bytes:
    return struct.pack("<f", value)


_temperatures = st.one_of(
    st.sampled_from((0.0, 1.0, 0.7, 2.0)).map(_f32),
    st.sampled_from(
        (
            _f32(-0.1),
            _f32(2.01),
            _f32(float("nan")),
            _f32(float("inf")),
            _f32(-0.0),
            b"\x01\x00\x00\x40",  # the next number after 2
            b"\x01\x00\x00\x00",  # the smallest denormal
            b"\x01\x00\x00\x80",  # and the one below zero
            b"\xff\xff\xff\xff",
        )
    ),
)
_top_ps = st.one_of(
    st.sampled_from((1.0, 0.9, 0.1)).map(_f32),
    st.sampled_from(
        (
            _f32(0.0),
            _f32(-0.0),
            _f32(-1.0),
            _f32(1.01),
            _f32(float("nan")),
            _f32(float("-inf")),
            b"\x01\x00\x80\x3f",  # the next number after 1
            b"\x01\x00\x00\x00",
        )
    ),
)


@attrs.frozen
class Intent:
    """A frame but for what the run decides."""

    operation: int
    principal: bytes
    payload: bytes = b""
    #: One of a few ids, so that they meet again.
    number: int = 0
    cursor: int = 0
    #: Added to the current epoch and revision; mostly 0.
    epoch_off: int = 0
    revision_off: int = 0
    role: int = 0
    limit: int = 0
    temperature: bytes = bytes(4)
    top_p: bytes = bytes(4)
    selector_bytes: int = 0
    #: Whether the operation has an epoch and an id.
    addressed: bool = True
    damage: Damage = SOUND

    def packet(self, epoch: int, revision: int) -> bytes:
        head = struct.pack(
            "<8sII16sQQ16sQII4s4sII32x",
            b"AOTXAPI1",
            self.operation,
            0,
            self.principal,
            (revision + self.revision_off) % 2**64,
            (epoch + self.epoch_off) % 2**64 if self.addressed else 0,
            self.number.to_bytes(16, "big"),
            self.cursor,
            self.role,
            self.limit,
            self.temperature,
            self.top_p,
            len(self.payload),
            self.selector_bytes,
        )
        return self.damage.apply(head + self.payload)


_principals = st.sampled_from((P1,) * 4 + (P2,) * 3 + (P3, P3, P4))
_offs = st.sampled_from((0,) * 12 + (-1, 1, 2**63))
_numbers = st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8, 1 << 127))


def _submit(payload: bytes, selector: bytes, **fields: Any) -> Intent:
    return Intent(
        Operation.SUBMIT,
        payload=payload + selector,
        selector_bytes=len(selector),
        **fields,
    )


@functools.lru_cache
def plain_submits() -> st.SearchStrategy[Intent]:
    """Short and right in everything but, perhaps, limit and quota."""
    return st.builds(
        _submit,
        payload=st.lists(
            st.builds(message, st.integers(0, 2), plain_texts), min_size=1, max_size=2
        ).map(lambda m: payload_of(*m)),
        selector=st.just(b""),
        principal=_principals,
        number=_numbers,
        role=st.sampled_from((2, 2, 3, 4)),
        limit=st.sampled_from((1, 2, 8, 16, 40)),
        temperature=st.just(_f32(0.0)),
        top_p=st.just(_f32(1.0)),
    )


def submits(capacities: Capacities) -> st.SearchStrategy[Intent]:
    tokens = capacities.sequence_tokens

    sane = st.builds(
        _submit,
        payload=st.one_of(payloads, payloads, long_payloads(capacities)),
        selector=st.one_of(st.just(b""), st.just(b""), _good_selectors),
        principal=_principals,
        number=_numbers,
        role=st.sampled_from((2, 2, 3)),
        limit=st.integers(1, 8),
        temperature=st.just(_f32(0.5)),
        top_p=st.just(_f32(1.0)),
    )
    wild = st.builds(
        _submit,
        payload=payloads,
        selector=st.one_of(st.just(b""), _selectors),
        principal=_principals,
        number=st.one_of(_numbers, st.just(0)),
        cursor=st.sampled_from((0,) * 6 + (1, 2**63)),
        epoch_off=_offs,
        revision_off=_offs,
        role=st.sampled_from((0, 1, 2, 2, 2, 3, 4, 5, 9, 63, 2**32 - 1)),
        limit=st.sampled_from((0, 1, 8, 16, 17, tokens - 1, tokens, 2**32 - 1)),
        temperature=_temperatures,
        top_p=_top_ps,
        damage=maybe_damaged,
    )
    return st.one_of(plain_submits(), plain_submits(), sane, wild)


def reads(operation: int) -> st.SearchStrategy[Intent]:
    """READ or CANCEL."""
    cursors = (0,) * 8 + (1, 3, 7, 4096, *U64_EDGES)
    return st.builds(
        Intent,
        operation=st.just(operation),
        principal=_principals,
        payload=st.sampled_from((b"",) * 9 + (b"x",)),
        number=st.one_of(_numbers, _numbers, st.just(0)),
        cursor=st.sampled_from(cursors),
        epoch_off=_offs,
        revision_off=_offs,
        damage=maybe_damaged,
    )


_policy_payloads = st.one_of(
    st.just(b""),
    st.builds(
        lambda schema, action, revision: struct.pack("<IIQ", schema, action, revision),
        st.sampled_from((1, 1, 0, 2)),
        st.integers(0, 6),
        st.sampled_from(U64_EDGES),
    ),
    st.binary(max_size=17),
)

_operations = st.sampled_from(
    (2, 2, 8, 8, 6, 7, 9, 10, 10, 11, 11, 12, 12, 0, 1, 13, 99, 2**31, 2**32 - 1)
)

_plain_others = st.builds(
    lambda operation, principal: Intent(operation, principal, addressed=False),
    _operations,
    _principals,
)

_odd_others = st.builds(
    Intent,
    operation=st.one_of(_operations, st.sampled_from((10, 11))),
    principal=_principals,
    payload=st.one_of(st.just(b""), st.just(b""), _policy_payloads),
    number=st.sampled_from((0, 0, 0, 1)),
    cursor=st.sampled_from((0,) * 6 + (1, 2**64 - 1)),
    epoch_off=_offs,
    revision_off=_offs,
    role=st.sampled_from((0,) * 8 + (2,)),
    limit=st.sampled_from((0,) * 8 + (1,)),
    temperature=st.sampled_from((bytes(4),) * 8 + (_f32(-0.0),)),
    top_p=st.sampled_from((bytes(4),) * 8 + (_f32(1.0),)),
    selector_bytes=st.sampled_from((0,) * 8 + (48, 47)),
    addressed=st.sampled_from((False, False, False, True)),
    damage=maybe_damaged,
)

others: st.SearchStrategy[Intent] = st.one_of(_plain_others, _plain_others, _odd_others)


@functools.lru_cache
def frames(capacities: Capacities) -> st.SearchStrategy[Intent]:
    return st.one_of(
        submits(capacities),
        submits(capacities),
        reads(Operation.READ),
        reads(Operation.CANCEL),
        others,
    )
