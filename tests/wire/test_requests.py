"""
SUBMIT payloads (`wire.md` §8).
"""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from tests.wire.samples import ID, PRINCIPAL, SHA, vectors
from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.packet import RequestHeader, join, split_request
from twisted_aotx.wire.requests import (
    DigestPart,
    Message,
    Selector,
    Submission,
    TextPart,
    decode,
    encode,
)

TEXT = TextPart(b"hi")
USER = Message(1, (TEXT,))
PLAIN = Submission(2, 8, 1.0, 1.0, (USER,))
SELECTOR = Selector(-5000, SHA).pack()


def header_of(submission: Submission) -> RequestHeader:
    return submission.header(principal=PRINCIPAL, revision=7, epoch=9, id=ID)


def refusal(
    payload: bytes, submission: Submission = PLAIN, **changed: Any
) -> tuple[str, str, int]:
    header = attrs.evolve(header_of(submission), **changed)
    with pytest.raises(RemoteWireError) as caught:
        decode(header, payload)
    return caught.value.record, caught.value.field, caught.value.offset


def ours(make: object, *args: object) -> tuple[str, str]:
    assert callable(make)
    with pytest.raises(LocalWireError) as caught:
        make(*args)
    return caught.value.record, caught.value.field


def u32s(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def test_every_truncation_and_extension_is_refused() -> None:
    header, payload = split_request(vectors()["submit-media-request"].data)
    for size in range(len(payload)):
        with pytest.raises(RemoteWireError) as caught:
            decode(header, payload[:size])
        assert caught.value.offset == size
    for more in (b"\0", bytes(8), bytes(48)):
        with pytest.raises(RemoteWireError) as caught:
            decode(header, payload + more)
        assert (caught.value.field, caught.value.offset) == ("length", len(payload))


@pytest.mark.parametrize("count", [0, 65, 2**32 - 1])
def test_message_counts_past_the_limit(count: int) -> None:
    assert refusal(u32s(count) + bytes(800)) == ("PayloadHead", "messages", 0)


@pytest.mark.parametrize("count", [0, 33, 2**32 - 1])
def test_part_counts_past_the_limit(count: int) -> None:
    payload = u32s(1, 1, count) + bytes(800)

    assert refusal(payload) == ("MessageHead", "parts", 8)


def test_counts_at_the_limit() -> None:
    """cases C 40: empty parts are legal"""
    empty = Message(0, (TextPart(b""),) * 32)
    full = attrs.evolve(PLAIN, messages=(empty,) * 64)

    assert decode(header_of(full), encode(full)) == full
    many = (empty,) * 65
    assert ours(Submission, 2, 8, 1.0, 1.0, many) == ("PayloadHead", "messages")
    assert ours(Message, 0, (TEXT,) * 33) == ("MessageHead", "parts")
    assert ours(Message, 0, ()) == ("MessageHead", "parts")
    assert ours(Submission, 2, 8, 1.0, 1.0, ()) == ("PayloadHead", "messages")


def test_roles_and_kinds_that_are_unknown() -> None:
    assert refusal(u32s(1, 3, 1, 0, 0)) == ("MessageHead", "role", 4)
    assert refusal(u32s(1, 1, 1, 3, 0)) == ("PartHead", "kind", 12)
    assert ours(Message, 3, (TEXT,)) == ("MessageHead", "role")
    assert ours(DigestPart, 0, SHA) == ("PartHead", "kind")
    assert ours(DigestPart, 3, SHA) == ("PartHead", "kind")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_digest_has_32_bytes(size: int) -> None:
    payload = u32s(1, 1, 1, 1, size) + bytes(size)

    assert refusal(payload) == ("PartHead", "bytes", 16)
    assert ours(DigestPart, 1, bytes(size)) == ("PartHead", "bytes")


@pytest.mark.parametrize("role", [0, 2])
def test_only_the_user_names_media(role: int) -> None:
    payload = u32s(1, role, 2, 0, 0, 1, 32) + SHA

    assert refusal(payload) == ("MessageHead", "role", 4)
    assert ours(Message, role, (TEXT, DigestPart(1, SHA))) == ("MessageHead", "role")


def test_a_part_may_not_reach_beyond_the_messages() -> None:
    payload = u32s(1, 1, 1, 0, 6) + b"hello"

    assert refusal(payload) == ("PartHead", "bytes", 25)
    # Nor into the selector.
    selected = attrs.evolve(PLAIN, selector=SELECTOR)
    assert refusal(payload + SELECTOR, selected) == ("PartHead", "bytes", 25)


@pytest.mark.parametrize(
    "text",
    [
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\x80",
        b"\xc3",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xff",
    ],
)
def test_text_is_strict_utf8(text: bytes) -> None:
    """cases C 41"""
    assert ours(TextPart, text) == ("TextPart", "text")
    payload = u32s(1, 1, 1, 0, len(text)) + text
    assert refusal(payload) == ("TextPart", "text", 20)


def test_a_sequence_may_not_straddle_parts() -> None:
    payload = u32s(1, 1, 2, 0, 1) + b"\xc3" + u32s(0, 1) + b"\xa9"

    assert refusal(payload) == ("TextPart", "text", 20)


@pytest.mark.parametrize("text", ["\0", "\U0010ffff", "é🐦", "\ud7ff\ue000"])
def test_text_at_the_limits(text: str) -> None:
    """cases C 41"""
    made = attrs.evolve(PLAIN, messages=(Message(1, (TextPart(text.encode()),)),))

    assert decode(header_of(made), encode(made)) == made


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("limit", [1, 2**32 - 1], [0]),
        ("temperature", [0.0, 2.0, 0, 1e-40], [-0.1, 2.01, math.nan, math.inf]),
        ("top_p", [1.0, 1, 1e-30], [0.0, -1.0, 1.01, math.nan, 1e-60]),
    ],
)
def test_numbers(field: str, good: list[Any], bad: list[Any]) -> None:
    """cases C 49, 50"""
    for value in good:
        made = attrs.evolve(PLAIN, **{field: value})
        assert decode(header_of(made), encode(made)) == made
    for value in bad:
        with pytest.raises(LocalWireError) as caught:
            attrs.evolve(PLAIN, **{field: value})
        assert (caught.value.record, caught.value.field) == ("Submission", field)
        found = refusal(encode(PLAIN), **{field: value})
        assert found == ("Submission", field, caught.value.offset)


def test_a_float_is_what_the_wire_carries() -> None:
    made = attrs.evolve(PLAIN, temperature=0.7, top_p=0.9)

    assert made.temperature == 0.699999988079071
    assert decode(header_of(made), encode(made)) == made
    wrong: list[Any] = ["1", True, 1e39]
    for value in wrong:
        with pytest.raises(LocalWireError):
            attrs.evolve(PLAIN, temperature=value)


def test_the_selector_ends_the_payload() -> None:
    made = attrs.evolve(PLAIN, selector=SELECTOR)
    packet = join(header_of(made), encode(made))

    assert packet[-48:] == SELECTOR
    assert packet[92] == 48
    assert decode(*split_request(packet)) == made


def test_48_zero_bytes_select_nothing() -> None:
    """cases C 59"""
    made = attrs.evolve(PLAIN, selector=bytes(48))

    assert decode(header_of(made), encode(made)).selector == bytes(48)


def test_selector_shape() -> None:
    """cases C 59"""
    selected = attrs.evolve(PLAIN, selector=SELECTOR)
    start = len(encode(PLAIN))
    for at, value, field in (
        (0, 2, "version"),
        (4, 2, "kind"),
        (8, 0, "dose"),
        (8, 40001, "dose"),
        (8, 2**32 - 40001, "dose"),
        (12, 1, "reserved"),
    ):
        broken = SELECTOR[:at] + u32s(value) + SELECTOR[at + 4 :]
        found = refusal(encode(PLAIN) + broken, selected)
        assert found == ("Selector", field, start + at)
        with pytest.raises(LocalWireError):
            attrs.evolve(PLAIN, selector=broken)
    found = refusal(encode(PLAIN) + SELECTOR[:16] + bytes(32), selected)
    assert found == ("Selector", "qualification_sha256", start + 16)


@pytest.mark.parametrize("size", [1, 47, 49])
def test_selector_lengths(size: int) -> None:
    """cases A 8"""
    with pytest.raises(LocalWireError) as caught:
        attrs.evolve(PLAIN, selector=bytes(size))
    assert caught.value.field == "selector_bytes"
    found = refusal(encode(PLAIN) + bytes(size), selector_bytes=size)
    assert found == ("Submission", "selector_bytes", 92)


def test_a_selector_longer_than_the_payload() -> None:
    found = refusal(bytes(47), selector_bytes=48)

    assert found == ("Submission", "selector_bytes", 92)


def test_a_payload_may_be_too_long_for_a_packet() -> None:
    """The caller answers that with a limit of its own; `join` refuses it."""
    long = attrs.evolve(PLAIN, messages=(Message(1, (TextPart(b"x" * 65408),)),))

    payload = encode(long)
    assert len(payload) == 65408 + 20
    with pytest.raises(LocalWireError):
        join(header_of(long), payload)


def test_no_repr_shows_what_was_said() -> None:
    made = attrs.evolve(
        PLAIN, messages=(Message(1, (TextPart(b"secret"), DigestPart(1, SHA))),)
    )

    assert "secret" not in repr(made)
    assert repr(SHA)[2:20] not in repr(made)
    with pytest.raises(LocalWireError) as caught:
        TextPart(b"secret\xff")
    assert "secret" not in str(caught.value) + repr(caught.value)
