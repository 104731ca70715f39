"""
cases A: frames and headers, below the broker (`device.md` §3).
"""

from __future__ import annotations

import struct

import attrs
import pytest

from tests.device.capacities import NO_MEDIA
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    HELLO,
    P1,
    P2,
    grant,
    request_id,
)
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import MAGIC, join, split_reply

#: Infer, upload, telemetry, policy: what this version serves.
SERVED = 1 | 2 | 8 | 128

OPERATIONS = (*range(14), 99)


@pytest.fixture
def driver(start: Start) -> Driver:
    """P1 may do everything, P2 only read telemetry."""
    driver = start()
    assert driver.install(grant(actions=SERVED), grant(P2, actions=8)) == 200
    return driver


def status_of(driver: Driver, packet: bytes) -> int:
    return int(struct.unpack_from("<I", driver.raw(packet), 8)[0])


def packet_of(driver: Driver, operation: int) -> bytes:
    """A frame that is right in everything."""
    if operation == Operation.SUBMIT:
        return join(driver.submit_header(1), HELLO)
    addressed = operation in (Operation.READ, Operation.CANCEL)
    return join(
        driver.header(
            operation,
            epoch=EPOCH if addressed else 0,
            id=request_id(1) if addressed else bytes(16),
        )
    )


def with_byte(packet: bytes, offset: int, value: int) -> bytes:
    return packet[:offset] + bytes([value]) + packet[offset + 1 :]


def test_bad_magic_is_answered_with_the_right_one(driver: Driver) -> None:
    """cases A 4."""
    packet = b"AOTXAPI2" + packet_of(driver, Operation.INFO)[8:]

    reply = driver.raw(packet)

    assert reply[:8] == MAGIC
    assert split_reply(reply)[0].status == 400
    assert split_reply(reply)[0].epoch == EPOCH


@pytest.mark.parametrize("off", [-1, 1, 2**16, 2**31])
@pytest.mark.parametrize("operation", [Operation.INFO, Operation.SUBMIT])
def test_length_field_is_the_payload_exactly(
    driver: Driver, operation: int, off: int
) -> None:
    """cases A 5."""
    packet = packet_of(driver, operation)
    told = struct.pack("<I", (len(packet) - 128 + off) % 2**32)

    assert status_of(driver, packet[:88] + told + packet[92:]) == 400


@pytest.mark.parametrize("offset", range(96, 128))
def test_reserved_bytes_are_zero(driver: Driver, offset: int) -> None:
    """cases A 7, for every operation."""
    for operation in OPERATIONS:
        packet = with_byte(packet_of(driver, operation), offset, 0x80)
        assert status_of(driver, packet) == 400


@pytest.mark.parametrize("offset", range(12, 16))
def test_flags_are_zero(driver: Driver, offset: int) -> None:
    """`wire.md` §2: u32@12."""
    packet = packet_of(driver, Operation.INFO)
    assert status_of(driver, with_byte(packet, offset, 1)) == 400


def test_selector_bytes(driver: Driver) -> None:
    """cases A 8."""
    info = packet_of(driver, Operation.INFO)
    submit = packet_of(driver, Operation.SUBMIT)

    assert status_of(driver, with_byte(info, 92, 48)) == 400
    assert status_of(driver, with_byte(submit, 92, 47)) == 400
    assert len(HELLO) < 48
    assert status_of(driver, with_byte(submit, 92, 48)) == 400
    assert driver.read(1)[0].status == 404


def test_info_has_no_payload(driver: Driver) -> None:
    """cases A 10."""
    assert driver.status(driver.header(Operation.INFO), b"\0") == 400
    assert driver.status(driver.header(Operation.METRICS), b"\0") == 400


@pytest.mark.parametrize(
    "change", [{"role": 1}, {"limit": 1}, {"temperature": 1.0}, {"top_p": 1.0}]
)
@pytest.mark.parametrize("operation", [op for op in OPERATIONS if op != 3])
def test_only_submit_has_sampling_fields(
    driver: Driver, operation: int, change: dict[str, float]
) -> None:
    """cases A 11, for every operation."""
    header = attrs.evolve(
        driver.header(operation, epoch=EPOCH, id=request_id(1)),
        **change,  # type: ignore[arg-type]
    )
    assert driver.status(header) == 400


def test_negative_zero_is_not_zero_bytes(driver: Driver) -> None:
    """`wire.md` §2: temperature is zero bytes, not zero, outside SUBMIT."""
    packet = packet_of(driver, Operation.INFO)
    assert status_of(driver, with_byte(packet, 83, 0x80)) == 400


def test_media_frames_while_media_is_off(start: Start) -> None:
    """cases A 13, 14 with media off: shape first, then the right, then 503."""
    driver = start(NO_MEDIA)
    assert driver.install(grant(actions=SERVED), grant(P2, actions=8)) == 200
    read, listing = Operation.MEDIA_READ, Operation.MEDIA_LIST

    assert driver.status(driver.header(read, epoch=1)) == 400
    assert driver.status(driver.header(read, cursor=1)) == 400
    assert driver.status(driver.header(Operation.MEDIA, epoch=1)) == 400
    assert driver.status(driver.header(Operation.MEDIA, cursor=1)) == 400
    assert driver.status(driver.header(listing, id=request_id(1))) == 400
    assert driver.status(driver.header(listing, epoch=1)) == 400
    assert driver.status(driver.header(listing), b"\0") == 400
    for operation in (Operation.MEDIA, read, listing):
        assert driver.status(driver.header(operation, P2)) == 403
        assert driver.status(driver.header(operation)) == 503
    assert driver.status(driver.header(read), b"\0") == 503


def test_unknown_operations(driver: Driver) -> None:
    """cases A 16, and operation 13 [D1]: 400 with the infer bit, else 403."""
    for operation in (0, 13, 99, 2**32 - 1):
        assert driver.status(driver.header(operation)) == 400
        assert driver.status(driver.header(operation, P2)) == 403


def test_grants_from_a_peer_are_an_unknown_operation(driver: Driver) -> None:
    """`device.md` §3: only channel 0 installs."""
    assert driver.status(driver.header(Operation.GRANTS)) == 400
    assert driver.status(driver.header(Operation.GRANTS, P2)) == 403


def test_shared_operations_are_off(driver: Driver) -> None:
    """`device.md` §3 row 11: before the infer bit is looked at."""
    for operation in (10, 11):
        assert driver.status(driver.header(operation)) == 503
        assert driver.status(driver.header(operation, P2)) == 503


def test_refusals_carry_epoch_and_echo(driver: Driver) -> None:
    """cases A 17."""
    old = driver.header(
        Operation.READ, epoch=EPOCH - 1, id=request_id(7), cursor=2**64 - 1
    )
    wrong_shape = attrs.evolve(old, role=1)
    stranger = attrs.evolve(old, principal=bytes(15) + b"\x77")
    late = attrs.evolve(old, revision=2**63)

    for header, status in (
        (old, 410),
        (wrong_shape, 400),
        (stranger, 403),
        (late, 403),
    ):
        reply, data = driver.send(header)
        assert (reply.status, reply.phase, data) == (status, 0, b"")
        assert reply.epoch == EPOCH
        assert reply.principal == header.principal
        assert reply.revision == header.revision
        assert reply.id == header.id
        assert reply.cursor == header.cursor


@pytest.mark.parametrize("length", [0, 5, 127, 65537, 2**32])
def test_impossible_mailbox_length(driver: Driver, length: int) -> None:
    """cases A 19: nothing is echoed."""
    reply = driver.raw(packet_of(driver, Operation.INFO), length=length)

    expected = bytearray(128)
    expected[:8] = MAGIC
    struct.pack_into("<I", expected, 8, 400)
    struct.pack_into("<Q", expected, 40, EPOCH)
    assert reply == bytes(expected)


def test_reply_to_control_frames_of_impossible_length(driver: Driver) -> None:
    """cases A 19 on channel 0; the table in force stays."""
    packet = driver.raw(packet_of(driver, Operation.INFO), channel=0, length=5)

    assert split_reply(packet)[0].status == 400
    assert driver.info(P1).grant_actions == SERVED
