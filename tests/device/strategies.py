"""
Hypothesis strategies for everything that reaches a device.

What depends on the state of the run (epoch, revision, live leases) is drawn as an
intent: a small record that the machine turns into a frame or a report.
"""

from __future__ import annotations

import functools
import itertools
import struct
from typing import Any

import attrs
from hypothesis import strategies as st

from tests.device.driver import P1, P2, P3, P4, message, part, payload_of
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import Operation

PRINCIPALS = (P1, P2, P3, P4)
U64_EDGES = (0, 1, 2, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
U32_EDGES = (0, 1, 2, 63, 64, 65, 2**31 - 1, 2**31, 2**32 - 1)


# --- damage: one well-formed frame in many wrong shapes ------------------------------


@attrs.frozen
class Damage:
    """What is done to the bytes of a packet before it is published."""

    #: (offset, xor) pairs; offsets beyond the packet are left out.
    flips: tuple[tuple[int, int], ...] = ()
    #: Bytes cut from the end, and appended there.
    cut: int = 0
    extra: bytes = b""
    #: What the length field says afterwards: the truth plus this, or as it was.
    relength: int | None = None
    #: The mailbox length, when it is a lie.
    length: int | None = None

    def apply(self, packet: bytes) -> bytes:
        data = bytearray(packet[: len(packet) - self.cut] + self.extra)
        if self.relength is not None and len(data) >= 92:
            told = (len(data) - 128 + self.relength) % 2**32
            struct.pack_into("<I", data, 88, told)
        for offset, xor in self.flips:
            if offset < len(data):
                data[offset] ^= xor
        return bytes(data)


SOUND = Damage()

damages: st.SearchStrategy[Damage] = st.one_of(
    st.builds(
        Damage,
        flips=st.lists(
            st.tuples(st.integers(0, 127), st.integers(1, 255)),
            min_size=1,
            max_size=2,
        ).map(tuple),
    ),
    st.builds(Damage, relength=st.sampled_from((-1, 1, 2**31))),
    st.builds(
        Damage,
        cut=st.integers(0, 3),
        extra=st.binary(max_size=3),
        relength=st.just(0),
    ),
    st.builds(
        Damage,
        length=st.sampled_from((0, 5, 127, 65537, 2**32, 2**62)),
    ),
)

#: Mostly sound.
maybe_damaged = st.one_of(*[st.just(SOUND)] * 6, damages)


# --- text and messages ---------------------------------------------------------------

_FRAGMENTS = (
    b"[image:",
    b"[audio:",
    b"[ima",
    b"ge:",
    b"[Image:",
    b"<|vision_",
    b"<|image_pad|>",
    b"<|image_",
    b"pad|>",
    b"<|AUDIO|>",
    b"<|audio_",
    b"<|im_end|>",
    b"\x00",
    "é".encode(),
    "𝄞".encode(),
    b"\xf4\x8f\xbf\xbf",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x80",
    b"\xe2\x82",
    b"x" * 40,
)

#: Whole texts; about one in three breaks a rule.
texts = st.lists(
    st.one_of(
        st.text(max_size=6).map(lambda text: text.encode("utf-8", "ignore")),
        st.sampled_from(_FRAGMENTS),
    ),
    max_size=4,
).map(b"".join)

plain_texts = st.text("abc é", max_size=8).map(str.encode)


@st.composite
def split_texts(draw: st.DrawFn) -> tuple[bytes, ...]:
    """One text cut into parts anywhere, also within characters and markers."""
    text = draw(st.one_of(plain_texts, plain_texts, texts))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=4).map(sorted))
    edges = [0, *cuts, len(text)]
    return tuple(text[a:b] for a, b in itertools.pairwise(edges))


messages = st.builds(
    lambda role, parts: message(role, *parts), st.integers(0, 2), split_texts()
)

_odd_messages = st.one_of(
    st.builds(struct.pack, st.just("<II"), st.integers(0, 4), st.integers(0, 33)),
    st.builds(
        lambda kind, data: struct.pack("<II", 1, 1) + part(data, kind),
        st.integers(1, 3),
        st.one_of(st.just(bytes(32)), st.binary(max_size=33)),
    ),
    st.builds(
        lambda size: struct.pack("<IIII", 1, 1, 0, size) + b"abc",
        st.sampled_from((0, 2, 4, 2**31, 2**32 - 1)),
    ),
    st.binary(max_size=12),
)

payloads: st.SearchStrategy[bytes] = st.one_of(
    *[st.lists(messages, min_size=1, max_size=3).map(lambda m: payload_of(*m))] * 4,
    st.lists(st.one_of(messages, _odd_messages), max_size=3).map(
        lambda m: payload_of(*m)
    ),
    st.builds(
        lambda count, rest: struct.pack("<I", count) + rest,
        st.sampled_from((0, 1, 2, 64, 65, 2**32 - 1)),
        st.one_of(messages, st.binary(max_size=8)),
    ),
    st.binary(max_size=5),
)


def long_payloads(capacities: Capacities) -> st.SearchStrategy[bytes]:
    """Prompts around the prompt capacity, most of them near its end."""
    near = st.integers(-40, 3).map(
        lambda delta: max(0, capacities.prompt_bytes + delta)
    )
    return st.builds(
        lambda size, role: payload_of(message(role, b"y" * size))[: 65536 - 128],
        near,
        st.integers(0, 2),
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
        st.sampled_from((b"\x01", b"\x01", b"\x00")),
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


# --- frames --------------------------------------------------------------------------


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
        role=st.sampled_from((2, 2, 3)),
        limit=st.sampled_from((1, 2, 8, 16, 40)),
        temperature=st.just(_f32(0.0)),
        top_p=st.just(_f32(1.0)),
    )


def submits(capacities: Capacities) -> st.SearchStrategy[Intent]:
    tokens = capacities.sequence_tokens

    sane = st.builds(
        _submit,
        payload=st.one_of(payloads, payloads, long_payloads(capacities)),
        selector=st.just(b""),
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
    (2, 2, 8, 8, 6, 7, 9, 10, 11, 12, 12, 0, 1, 13, 99, 2**31, 2**32 - 1)
)

_plain_others = st.builds(
    lambda operation, principal: Intent(operation, principal, addressed=False),
    _operations,
    _principals,
)

_odd_others = st.builds(
    Intent,
    operation=_operations,
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


# --- grant tables --------------------------------------------------------------------


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
            3,
            1000,
        )
        + reserved
    )


def everyone(capacities: Capacities) -> TableIntent:
    """Everything for the first three principals."""
    full = _row(
        P1,
        255,
        0b11100,
        0,
        capacities.sequence_tokens - 1,
        capacities.requests,
        bytes(8),
    )
    return TableIntent(tuple(p + full[16:] for p in PRINCIPALS[:3]))


@functools.lru_cache
def tables(capacities: Capacities) -> st.SearchStrategy[TableIntent]:
    pages = -(-capacities.sequence_tokens // 16)
    tokens = capacities.sequence_tokens
    good = st.builds(
        lambda who, actions, models, pages, tokens, requests: [
            _row(p, actions, models, pages, tokens, requests, bytes(8)) for p in who
        ],
        st.one_of(
            st.lists(st.sampled_from(PRINCIPALS[1:]), unique=True).map(
                lambda who: [*who, P1]
            ),
            st.lists(st.sampled_from(PRINCIPALS), unique=True),
        ),
        st.sampled_from((1, 255, 9, 8, 2, 33, 0x81)),
        st.sampled_from((0b1100, 0b1100, 0b11100, 0b100, 0)),
        st.sampled_from((0, 0, 1, 2, pages)),
        st.sampled_from((1, 16, tokens - 1)),
        st.sampled_from((1, 2, 3, capacities.requests)),
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
        st.just(everyone(capacities)),
        st.just(everyone(capacities)),
        st.builds(TableIntent, rows=good),
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


# --- clock and engines ---------------------------------------------------------------


@attrs.frozen
class Step:
    """A clock step: so many ns, or to a request's deadline and so many ns beyond."""

    ns: int
    to_deadline: bool = False


steps: st.SearchStrategy[Step] = st.one_of(
    *[st.builds(Step, st.sampled_from((0, 1, 1, 1, 1000, 10**9)))] * 3,
    st.builds(Step, st.sampled_from((0, 0, 1, 1, -1)), st.just(True)),
)


@attrs.frozen
class Report:
    """What an engine says about one lease."""

    kind: int
    #: Named values are resolved against the lease's limit and the capacities.
    value: int | str
    size: int | str = 0
    #: Added to the generation; events of other generations are to be dropped.
    generation_off: int = 0


_token_values = st.sampled_from((0, 1, 1, 1, 1, 2, "limit", "over"))
_sizes = st.sampled_from(
    (0, 1, 1, 5, 5, 100, 1000, 4095, 4096, 4097, 5000, "room", "over")
)
_stale = st.sampled_from((0,) * 15 + (-1, 2**40))

reports: st.SearchStrategy[Report] = st.one_of(
    st.builds(
        Report,
        st.just(1),
        st.sampled_from((1, 5, 0, "fits", "over", "pages", "pages over", 2**31)),
        generation_off=_stale,
    ),
    st.builds(Report, st.just(2), st.sampled_from((400, 413, 599, 0, 399, 600, 503))),
    *[st.builds(Report, st.just(3), _token_values, _sizes, _stale)] * 4,
    st.builds(
        Report, st.just(4), st.sampled_from((1, 1, 2, 2, 0, 3)), st.just(0), _stale
    ),
    st.builds(Report, st.just(5), st.sampled_from((500, 400, 599, 0, 399, 600, 200))),
)

#: Sequences of an engine that does everything right.
emissions = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from((0, 1, 3, 700, 4096))).filter(
        lambda pair: pair != (0, 0)
    ),
    max_size=4,
)
