"""
Packets: lengths, headers, and what a client may take for a reply (`wire.md` §1–§3).
"""

from __future__ import annotations

import math

import attrs
import pytest

from tests.wire.samples import ID, PRINCIPAL, vectors
from twisted_aotx.errors import LocalWireError, RemoteWireError
from twisted_aotx.wire.layout import offset_of
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import (
    MAGIC,
    PAYLOAD_BYTES_MAX,
    ReplyHeader,
    RequestHeader,
    join,
    split_reply,
    split_request,
)

READ = RequestHeader(Operation.READ, PRINCIPAL, 7, 9, ID, 5)
REPLY = ReplyHeader(200, 3, PRINCIPAL, 7, 9, ID)


def with_u32(packet: bytes, offset: int, value: int) -> bytes:
    return packet[:offset] + value.to_bytes(4, "little") + packet[offset + 4 :]


def refusal_of_request(packet: bytes) -> tuple[str, int]:
    with pytest.raises(RemoteWireError) as caught:
        split_request(packet)
    return caught.value.field, caught.value.offset


def refusal_of_reply(packet: bytes) -> tuple[str, int]:
    with pytest.raises(RemoteWireError) as caught:
        split_reply(packet)
    return caught.value.field, caught.value.offset


def test_join_sets_the_payload_length() -> None:
    header, payload = split_request(join(READ, b"text"))

    assert payload == b"text"
    assert header == attrs.evolve(READ, payload_bytes=4)


def test_the_largest_packet_and_one_byte_more() -> None:
    packet = join(REPLY, bytes(PAYLOAD_BYTES_MAX))

    assert len(packet) == 65536
    assert split_reply(packet)[1] == bytes(PAYLOAD_BYTES_MAX)
    with pytest.raises(LocalWireError) as caught:
        join(REPLY, bytes(PAYLOAD_BYTES_MAX + 1))
    assert (caught.value.record, caught.value.field) == ("ReplyHeader", "payload_bytes")
    assert refusal_of_reply(packet + b"\0") == ("length", 65536)
    assert refusal_of_request(join(READ) + bytes(65409)) == ("length", 65536)


def test_no_packet_is_shorter_than_its_header() -> None:
    for size in range(128):
        assert refusal_of_request(join(READ)[:size]) == ("length", size)
        assert refusal_of_reply(join(REPLY)[:size]) == ("length", size)


def test_the_payload_length_must_be_that_of_the_packet() -> None:
    """cases A 5"""
    packet = join(READ, b"text")
    for wrong in (0, 3, 5, 2**32 - 1):
        assert refusal_of_request(with_u32(packet, 88, wrong)) == ("payload_bytes", 88)
        reply = with_u32(join(REPLY, b"text"), 88, wrong)
        assert refusal_of_reply(reply) == ("payload_bytes", 88)
    assert refusal_of_request(packet[:-1]) == ("payload_bytes", 88)
    assert refusal_of_request(packet + b"\0") == ("payload_bytes", 88)


@pytest.mark.parametrize("at", range(8))
def test_the_magic_is_exact(at: int) -> None:
    """cases A 4"""
    request, reply = bytearray(join(READ)), bytearray(join(REPLY))
    assert request[:8] == reply[:8] == MAGIC
    request[at] ^= 32
    reply[at] ^= 32

    assert refusal_of_request(bytes(request)) == ("magic", 0)
    assert refusal_of_reply(bytes(reply)) == ("magic", 0)


@pytest.mark.parametrize("at", [*range(12, 16), *range(96, 128)])
def test_reserved_bytes_of_a_request(at: int) -> None:
    """cases A 7"""
    packet = bytearray(join(READ))
    packet[at] = 1

    assert refusal_of_request(bytes(packet)) == ("reserved", at)


@pytest.mark.parametrize("at", range(104, 128))
def test_reserved_bytes_of_a_reply(at: int) -> None:
    packet = bytearray(join(REPLY))
    packet[at] = 1

    assert refusal_of_reply(bytes(packet)) == ("echo", 104)


def test_only_a_400_may_echo_what_was_malformed() -> None:
    """`wire.md` §3: every byte that a reply does not list is an echo."""
    packet = bytearray(join(attrs.evolve(REPLY, status=400, phase=0)))
    packet[92:128] = b"\xff" * 36
    header, _ = split_reply(bytes(packet))

    assert (header.status, header.finish) == (400, 2**32 - 1)
    assert header.echo == b"\xff" * 24
    for status in (200, 202, 403, 409, 410, 503):
        changed = with_u32(bytes(packet), 8, status)
        assert refusal_of_reply(changed) == ("finish", 92)


@pytest.mark.parametrize("name", ["role", "limit", "temperature", "top_p"])
@pytest.mark.parametrize("operation", [2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0])
def test_what_only_submit_has_must_be_zero_bytes(name: str, operation: int) -> None:
    """cases A 11; a negative zero is no zero byte."""
    at = offset_of(RequestHeader, name)
    packet = join(attrs.evolve(READ, operation=operation))
    assert split_request(packet)[0].operation == operation
    for value in (1, 0x80000000):
        assert refusal_of_request(with_u32(packet, at, value)) == (name, at)
    submit = with_u32(packet, 8, Operation.SUBMIT)
    assert split_request(with_u32(submit, at, 0x80000000))


def test_the_selector_length() -> None:
    """cases A 8"""
    submit = attrs.evolve(READ, operation=Operation.SUBMIT, selector_bytes=48)

    assert split_request(join(submit, bytes(48)))[0].selector_bytes == 48
    for header, payload in (
        (attrs.evolve(submit, operation=Operation.INFO), bytes(48)),
        (attrs.evolve(submit, selector_bytes=47), bytes(48)),
        (attrs.evolve(submit, selector_bytes=49), bytes(64)),
        (submit, bytes(47)),
        (submit, b""),
    ):
        assert refusal_of_request(join(header, payload)) == ("selector_bytes", 92)


def test_headers_carry_what_a_bad_peer_would_send() -> None:
    """Tests of the device need frames that it must refuse."""
    header = RequestHeader(99, bytes(16), 0, temperature=math.nan, top_p=math.inf)
    again = RequestHeader.unpack(header.pack())

    assert again.operation == 99
    assert math.isnan(again.temperature)
    assert again.top_p == math.inf


def test_a_submit_reply_echoes_the_bits_of_the_floats() -> None:
    header, _ = split_reply(vectors()["submit-reply"].data)

    assert (header.status, header.phase, header.total_bytes) == (202, 1, 256)
    assert header.prompt_tokens.to_bytes(4, "little") == bytes.fromhex("0000803e")
    assert header.sampled_tokens.to_bytes(4, "little") == bytes.fromhex("0000403f")


def test_the_zeroed_answer_to_a_bad_mailbox_length_is_a_reply() -> None:
    """`wire.md` §3; cases A 19"""
    packet = join(ReplyHeader(400, 0, bytes(16), 0, 9))

    assert packet == MAGIC + bytes.fromhex("90010000") + bytes(28) + b"\t" + bytes(87)
    assert split_reply(packet)[0].status == 400
