"""
Who may ask the device what (`device.md` §3), and that what is another's is answered as
what is nobody's: the same bytes but for the id that was sent [D22].
"""

from __future__ import annotations

import struct
from typing import Final

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    JPEG_FILE,
    WAV_FILE,
    begin,
    begin_frame,
    chunk,
    make_ready,
    post_cancel,
    question,
    reference,
    remove,
    settle,
    upload,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import (
    DONE,
    EMIT,
    EPOCH,
    FAILED,
    HELLO,
    OPENED,
    P1,
    P2,
    grant,
    request_id,
)
from twisted_aotx.wire.media import MediaFrame
from twisted_aotx.wire.numbers import Action, Operation
from twisted_aotx.wire.packet import RequestHeader, join

#: By operation and kind of frame: the actions one of which it needs (0: none), and what
#: it is told without.
NEEDED: Final = {
    (Operation.GRANTS, "read"): (Action.INFER, 403),
    (Operation.INFO, "read"): (0, None),
    (Operation.SUBMIT, "write"): (Action.INFER, 403),
    (Operation.READ, "read"): (Action.INFER, 403),
    (Operation.CANCEL, "read"): (Action.INFER, 403),
    (Operation.MEDIA, "write"): (Action.UPLOAD, 403),
    (Operation.MEDIA_READ, "read"): (Action.UPLOAD, 403),
    (Operation.METRICS, "read"): (Action.TELEMETRY, 403),
    (Operation.MEDIA_LIST, "read"): (Action.UPLOAD, 403),
    (Operation.SHARED_MUTATION, "read"): (0, None),
    (Operation.SHARED_READ, "read"): (0, None),
    (Operation.POLICY, "read"): (Action.TELEMETRY | Action.POLICY_MANAGE, 403),
    (Operation.POLICY, "write"): (Action.POLICY_MANAGE, 403),
    (13, "read"): (Action.INFER, 403),
    (99, "read"): (Action.INFER, 403),
}
#: What they are told who may ask.
ALLOWED: Final = {
    (Operation.GRANTS, "read"): 400,
    (Operation.SUBMIT, "write"): 202,
    (Operation.READ, "read"): 404,
    (Operation.CANCEL, "read"): 404,
    (Operation.MEDIA_READ, "read"): 404,
    (Operation.SHARED_MUTATION, "read"): 503,
    (Operation.SHARED_READ, "read"): 503,
    (Operation.POLICY, "write"): 410,
    (13, "read"): 400,
    (99, "read"): 400,
}
#: Nothing but one, everything but one, and everything.
MASKS: Final = (*(1 << n for n in range(8)), *(255 & ~(1 << n) for n in range(8)), 255)


def test_every_operation_has_a_row() -> None:
    assert {operation for operation, _ in NEEDED} - {13, 99} == set(Operation)


def frame_of(driver: Driver, operation: int, kind: str, owner: bytes) -> bytes:
    """A frame of *owner* that is right in everything."""
    number = int.from_bytes(owner, "big")
    if operation == Operation.SUBMIT:
        return join(driver.submit_header(number, owner), HELLO)
    if operation == Operation.MEDIA:
        header = driver.header(operation, owner, id=request_id(number))
        return join(header, begin_frame(number, WAV_FILE).pack())
    addressed = operation in (Operation.READ, Operation.CANCEL)
    named = addressed or operation == Operation.MEDIA_READ
    header = driver.header(
        operation,
        owner,
        epoch=EPOCH if addressed else 0,
        id=request_id(77) if named else bytes(16),
    )
    if (operation, kind) == (Operation.POLICY, "write"):
        stale = attrs.evolve(header, epoch=EPOCH - 1)
        return join(stale, struct.pack("<IIQ", 1, 1, 1))
    return join(header)


@pytest.mark.parametrize(("operation", "kind"), NEEDED)
def test_operations_by_action(start: Start, operation: int, kind: str) -> None:
    """`device.md` §3, §12, §14, for every mask of one bit, its complement, and all."""
    driver = with_media(start)
    needs, refusal = NEEDED[operation, kind]
    for first, half in ((16, MASKS[:9]), (32, MASKS[9:])):
        owners = [bytes(15) + bytes([first + n]) for n in range(len(half))]
        rows = (
            grant(owner, actions=mask, requests=1, media=1, media_bytes=1 << 12)
            for owner, mask in zip(owners, half, strict=True)
        )
        assert driver.install(*rows) == 200
        for owner, mask in zip(owners, half, strict=True):
            packet = driver.raw(frame_of(driver, operation, kind, owner))
            (status,) = struct.unpack_from("<I", packet, 8)
            may = not needs or mask & needs
            expected = ALLOWED.get((operation, kind), 200) if may else refusal
            assert status == expected, f"actions {mask}"
            if not may:
                assert len(packet) == 128


def test_a_principal_of_no_row_is_told_nothing(start: Start) -> None:
    """Row 5 of `device.md` §3 comes before everything that tells operations apart."""
    driver = with_media(start)
    nobody = bytes(15) + b"\x77"
    for operation, kind in NEEDED:
        packet = driver.raw(frame_of(driver, operation, kind, nobody))
        assert struct.unpack_from("<II", packet, 8) == (403, 0)
        assert len(packet) == 128


# --- requests -------------------------------------------------------------------------

#: Where a request of P1 stands.
STATES: Final = ("queued", "preparing", "running", "completed", "failed", "cancelled")


def bring(driver: Driver, state: str) -> None:
    """Request 1 of P1 there."""
    if state == "queued":
        for number in range(50, 50 + SMALL.slots):
            assert driver.submit(number, P1) == 202
    assert driver.submit(1, P1) == 202
    if state in ("queued", "preparing"):
        return
    (order,) = driver.opens()
    driver.report(order, OPENED, 5)
    driver.report(order, EMIT, 3, b"secret output")
    driver.step()
    if state == "completed":
        driver.end(order, DONE, 1)
    elif state == "failed":
        driver.end(order, FAILED, 503)
    elif state == "cancelled":
        driver.cancel(1, P1)
    driver.step()


def unlike(packet: bytes) -> bytes:
    """A reply without the id that it echoes."""
    return packet[:48] + packet[64:]


def same(driver: Driver, header: RequestHeader, payload: bytes = b"") -> bytes:
    """The answer to P2 about P1's 1, which must be that about nobody's 2."""
    answers = []
    for number in (1, 2):
        own = attrs.evolve(header, id=request_id(number))
        named = payload.replace(header.id, request_id(number)) if payload else b""
        answers.append(unlike(driver.raw(join(own, named))))
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.parametrize("state", STATES)
def test_requests(start: Start, state: str) -> None:
    """READ and CANCEL with any cursor, epoch or payload, whatever state it is in."""
    driver = start()
    both = (grant(P, requests=SMALL.requests) for P in (P1, P2))
    assert driver.install(*both) == 200
    bring(driver, state)
    before = driver.read(1, P1)
    for operation in (Operation.READ, Operation.CANCEL):
        for cursor in (0, 3, 13, 14, 2**63, 2**64 - 1):
            for epoch, status in ((EPOCH, 404), (EPOCH - 1, 410), (0, 410)):
                header = driver.header(
                    operation, P2, epoch=epoch, id=request_id(9), cursor=cursor
                )
                answer = same(driver, header)
                assert struct.unpack_from("<II", answer, 8) == (status, 0)
                assert len(answer) == 112
        # A payload, an old revision.
        assert same(driver, driver.header(operation, P2, id=request_id(9)), b"x")
        old = driver.header(operation, P2, epoch=EPOCH, id=request_id(9), revision=0)
        assert struct.unpack_from("<I", same(driver, old), 8) == (403,)
    assert driver.read(1, P1) == before


@pytest.mark.parametrize("state", STATES)
def test_an_id_of_another_is_free(start: Start, state: str) -> None:
    """`device.md` §4, Identity: SUBMIT is answered alike, and both are two requests."""
    driver = start()
    both = (grant(P, requests=SMALL.requests) for P in (P1, P2))
    assert driver.install(*both) == 200
    bring(driver, state)
    before = driver.read(1, P1)

    header = driver.submit_header(9, P2)
    answer = same(driver, header, HELLO)

    assert struct.unpack_from("<I", answer, 8) == (202,)
    assert driver.read(1, P1) == before


# --- media ----------------------------------------------------------------------------


def receiving(driver: Driver) -> None:
    assert begin(driver, 1, WAV_FILE)[0] == 200
    assert chunk(driver, 1, WAV_FILE[:100], len(WAV_FILE))[0] == 200


def decoding(driver: Driver) -> None:
    upload(driver, 1, JPEG_FILE)
    settle(driver)


def encoding(driver: Driver) -> None:
    upload(driver, 1, WAV_FILE)
    settle(driver)


def ready(driver: Driver) -> None:
    make_ready(driver, 1)


def leased(driver: Driver) -> None:
    make_ready(driver, 1)
    assert driver.submit(1, payload=question(reference(WAV_FILE))) == 202


def leaving(driver: Driver) -> None:
    make_ready(driver, 1)
    post_cancel(driver, 9, 1)


def refused(driver: Driver) -> None:
    upload(driver, 1, WAV_FILE, sha256=bytes(32))
    settle(driver)


def removed(driver: Driver) -> None:
    make_ready(driver, 1)
    remove(driver, 1)


#: How a source of P1 comes where it is.
SOURCES: Final = {
    each.__name__: each
    for each in (
        receiving,
        decoding,
        encoding,
        ready,
        leased,
        leaving,
        refused,
        removed,
    )
}


def frames() -> dict[str, bytes]:
    """Media frames about 9, that are right and that are not."""
    whole = len(WAV_FILE)
    right = {
        "chunk": MediaFrame.chunk(request_id(9), whole, 100, WAV_FILE[100:200]),
        "chunk elsewhere": MediaFrame.chunk(request_id(9), whole, 7, b"abc"),
        "end": MediaFrame.end(request_id(9), whole),
        "cancel": MediaFrame.cancel(request_id(9)),
    }
    packed = {name: frame.pack() for name, frame in right.items()}
    no_data = bytearray(packed["chunk"][:64])
    struct.pack_into("<I", no_data, 40, 0)
    packed["chunk without data"] = bytes(no_data)
    extra = bytearray(packed["end"] + b"abc")
    struct.pack_into("<I", extra, 40, 3)
    packed["end with data"] = bytes(extra)
    extra = bytearray(packed["cancel"] + b"abc")
    struct.pack_into("<I", extra, 40, 3)
    packed["cancel with data"] = bytes(extra)
    return packed


@pytest.mark.parametrize("state", SOURCES)
@pytest.mark.parametrize("has_own", [False, True])
def test_sources(start: Start, state: str, has_own: bool) -> None:
    """CHUNK, END, CANCEL and MEDIA_READ, whether or not the caller has a source."""
    driver = with_media(start)
    SOURCES[state](driver)
    if has_own:
        receiving_of = begin(driver, 5, WAV_FILE, P2)
        assert receiving_of[0] == 200
    look = driver.header(Operation.MEDIA_READ, P1, id=request_id(1))
    before = driver.raw(join(look))
    for payload in frames().values():
        header = driver.header(Operation.MEDIA, P2, id=request_id(9))
        answer = same(driver, header, payload)
        assert struct.unpack_from("<II", answer, 8) == (404, 0)
        assert len(answer) == 112
    header = driver.header(Operation.MEDIA_READ, P2, id=request_id(9))
    assert struct.unpack_from("<I", same(driver, header), 8) == (404,)
    assert struct.unpack_from("<I", same(driver, header, b"x"), 8) == (404,)
    assert driver.raw(join(look)) == before


@pytest.mark.parametrize("state", SOURCES)
def test_a_transfer_id_of_another_is_free(start: Start, state: str) -> None:
    """`device.md` §12: BEGIN too."""
    driver = with_media(start)
    SOURCES[state](driver)
    frame = begin_frame(9, WAV_FILE).pack()
    header = driver.header(Operation.MEDIA, P2, id=request_id(9))

    answer = same(driver, header, frame)

    assert struct.unpack_from("<I", answer, 8) == (200,)


@pytest.mark.parametrize("state", SOURCES)
def test_the_bytes_of_another(start: Start, state: str) -> None:
    """
    `device.md` §5: a digest that another has a ready source of is one that nobody has.
    """
    driver = with_media(start)
    SOURCES[state](driver)
    for data in (WAV_FILE, JPEG_FILE):
        payloads = [question(reference(data)), question(reference(data[:-1] + b"?"))]
        answers = [
            driver.raw(join(driver.submit_header(9, P2), payload))
            for payload in payloads
        ]
        assert answers[0] == answers[1]
        assert struct.unpack_from("<I", answers[0], 8) == (404,)


@pytest.mark.parametrize("state", SOURCES)
def test_lists_hold_no_other_s(start: Start, state: str) -> None:
    """`wire.md` §10: as if the caller were alone, at every cursor."""
    driver, alone = with_media(start), with_media(start)
    SOURCES[state](driver)
    for cursor in (0, 1, 2, SMALL.media_objects, SMALL.media_objects + 1, 2**64 - 1):
        packets = [
            one.raw(join(one.header(Operation.MEDIA_LIST, P2, cursor=cursor)))
            for one in (driver, alone)
        ]
        assert packets[0] == packets[1]
