"""
cases F: what media frames answer, and what an upload becomes (`device.md` §12).
"""

from __future__ import annotations

import attrs
import pytest

from tests.device.capacities import SMALL, WIDE
from tests.device.cases.starting import Start
from tests.device.cases.uploading import (
    JPEG_FILE,
    WAV_FILE,
    begin,
    begin_frame,
    cancel,
    chunk,
    end,
    listed,
    look,
    seen,
    send,
    with_media,
)
from tests.device.driver import Driver
from tests.device.making import EPOCH, P1, P2, grant, request_id
from twisted_aotx.wire.media import BeginData, MediaFrame, Metadata
from twisted_aotx.wire.numbers import MediaFormat, MediaPhase, MediaStatus, Operation

RECEIVING, HASHING, WAITING, DECODING, ENCODING, READY, REFUSED = range(1, 8)


@pytest.fixture
def driver(start: Start) -> Driver:
    return with_media(start)


def test_chunks_that_do_not_fit(driver: Driver) -> None:
    """cases F 92: 409, and the source still stands where it stood."""
    size = len(JPEG_FILE)
    begin(driver, 1)
    chunk(driver, 1, JPEG_FILE[:100], size)
    before = look(driver, 1)

    for piece, total, offset in (
        (JPEG_FILE[100:200], size, 99),
        (JPEG_FILE[100:200], size, 101),
        (JPEG_FILE[100:200], size, 0),
        (JPEG_FILE[100:200], size + 1, 100),
        (JPEG_FILE[100:200], size - 1, 100),
        (bytes(size - 99), size, 100),
        (b"x", size, 2**63),
    ):
        status, metadata = chunk(driver, 1, piece, total, offset)
        assert (status, (200, metadata)) == (409, before)
    assert chunk(driver, 1, JPEG_FILE[100:], size, 100)[0] == 200
    assert chunk(driver, 1, b"x", size, size)[0] == 409
    assert end(driver, 1, size)[0] == 200
    assert chunk(driver, 1, b"x", size, 0)[0] == 409


def test_chunk_without_data(driver: Driver) -> None:
    """`device.md` §12."""
    begin(driver, 1)
    empty = bytearray(MediaFrame.chunk(request_id(1), len(JPEG_FILE), 0, b"x").pack())
    empty[40:44] = bytes(4)

    assert send(driver, bytes(empty[:64]), 1)[0] == 400
    assert seen(driver, 1) == (RECEIVING, 0)


@pytest.mark.parametrize("short", [1, 0, -1])
def test_end_that_is_not_the_end(driver: Driver, short: int) -> None:
    """`device.md` §12 END: refused with status 1."""
    size = len(JPEG_FILE)
    begin(driver, 1)
    chunk(driver, 1, JPEG_FILE[: size - (short == 0)], size)

    status, metadata = end(driver, 1, size + short)

    assert metadata is not None
    assert (status, metadata.phase, metadata.status) == (400, REFUSED, 1)
    assert listed(driver)[2] == ()
    assert cancel(driver, 1)[0] == 200


def damaged(number: int) -> list[tuple[str, bytes, int]]:
    """What is wrong, the payload, and the number of the header's id."""
    whole = begin_frame(number, JPEG_FILE, size=100).pack()

    def at(offset: int, value: int) -> bytes:
        changed = value.to_bytes(4, "little")
        return whole[:offset] + changed + whole[offset + 4 :]

    long = MediaFrame.chunk(request_id(number), 9000, 0, bytes(8192)).pack()
    over = long[:40] + (8193).to_bytes(4, "little") + long[44:] + b"x"
    return [
        ("no payload", b"", number),
        ("63 bytes", whole[:63], number),
        ("schema 2", at(0, 2), number),
        ("schema 0", at(0, 0), number),
        ("command 0", at(4, 0), number),
        ("command 5", at(4, 5), number),
        ("another id", whole, number + 1),
        ("no id", whole[:8] + bytes(16) + whole[24:], 0),
        ("a byte more", whole + b"x", number),
        ("a byte less", whole[:-1], number),
        ("length field", at(40, 47), number),
        ("8193 bytes", over, number),
        *[(f"byte {n}", whole[:n] + b"\1" + whole[n + 1 :], number) for n in (44, 63)],
    ]


@pytest.mark.parametrize("what", [what for what, _, _ in damaged(1)])
def test_frames_of_wrong_shape(driver: Driver, what: str) -> None:
    """cases F 95: 400 without metadata, before the id is looked for."""
    begin(driver, 1, size=9000)
    for number in (1, 3):
        ((payload, id_),) = [(p, i) for w, p, i in damaged(number) if w == what]
        assert send(driver, payload, id_) == (400, None)
    assert seen(driver, 1) == (RECEIVING, 0)
    assert look(driver, 3)[0] == 404


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (24, 0),
        (24, 2**61),
        (32, 1),
        (64, 0),
        (64, 2),
        (64, 4),
        (68, 1),
        (72, 1),
        (76, 1),
    ],
)
def test_begin_with_wrong_numbers(driver: Driver, offset: int, value: int) -> None:
    """`device.md` §12 row 5: nothing is recorded."""
    whole = begin_frame(1, JPEG_FILE).pack()
    width = 8 if offset < 64 else 4
    wrong = value.to_bytes(width, "little")

    answer = send(driver, whole[:offset] + wrong + whole[offset + width :], 1)

    assert answer == (400, None)
    assert look(driver, 1)[0] == 404


def test_begin_with_other_data(driver: Driver) -> None:
    """`device.md` §12 row 5: 48 bytes, no more and no less."""
    whole = begin_frame(1, JPEG_FILE).pack()
    for data in (whole[64:-1], whole[64:] + b"\0"):
        size = len(data).to_bytes(4, "little")
        assert send(driver, whole[:40] + size + whole[44:64] + data, 1) == (400, None)


def test_ids(driver: Driver) -> None:
    """cases F 97: D22, another's id is an unknown one."""
    begin(driver, 1)
    assert begin(driver, 1, WAV_FILE) == (409, None)
    size = len(JPEG_FILE)

    for answer in (
        chunk(driver, 1, b"x", size, principal=P2),
        end(driver, 1, size, P2),
        cancel(driver, 1, P2),
        look(driver, 1, P2),
        chunk(driver, 2, b"x", size),
        end(driver, 2, size),
        cancel(driver, 2),
        look(driver, 2),
    ):
        assert answer == (404, None)
    assert begin(driver, 1, WAV_FILE, P2)[0] == 200
    assert seen(driver, 1) == (RECEIVING, 0)


def test_id_of_what_was_refused(driver: Driver) -> None:
    """`device.md` §12 row 4: as long as a descriptor or a receipt has it."""
    begin(driver, 1)
    assert cancel(driver, 1)[0] == 200

    assert begin(driver, 1) == (409, None)
    assert seen(driver, 1) == (REFUSED, MediaStatus.CANCELLED)


def test_media_read_of_wrong_shape(driver: Driver) -> None:
    """cases A 13."""
    begin(driver, 1)
    good = driver.header(Operation.MEDIA_READ, id=request_id(1))

    assert driver.status(attrs.evolve(good, epoch=EPOCH)) == 400
    assert driver.status(attrs.evolve(good, cursor=1)) == 400
    assert driver.status(good, b"\0") == 400
    assert driver.status(good) == 200


def test_media_list_of_wrong_shape(driver: Driver) -> None:
    """cases A 14."""
    good = driver.header(Operation.MEDIA_LIST)

    assert driver.status(attrs.evolve(good, epoch=EPOCH)) == 400
    assert driver.status(attrs.evolve(good, id=request_id(1))) == 400
    assert driver.status(good, b"\0") == 400
    assert driver.status(good) == 200


def test_list(driver: Driver) -> None:
    """cases F 110: own rows in table order, refused ones left out, cursors."""
    for number in range(1, 8):
        principal = P1 if number % 2 else P2
        assert begin(driver, number, principal=principal, size=100)[0] == 200
    cancel(driver, 3)

    status, cursor, rows = listed(driver)
    assert (status, cursor) == (200, 0)
    assert [row.transfer_id for row in rows] == [request_id(n) for n in (1, 5, 7)]
    assert len(listed(driver, P2)[2]) == 3
    status, cursor, rows = listed(driver, cursor=4)
    assert [row.transfer_id for row in rows] == [request_id(n) for n in (5, 7)]
    size = SMALL.media_objects
    assert listed(driver, cursor=size) == (200, 0, ())
    assert listed(driver, cursor=size + 1)[:2] == (409, size + 1)
    assert listed(driver, cursor=2**64 - 1)[0] == 409


@pytest.mark.slow
def test_list_of_a_thousand(start: Start) -> None:
    """cases F 110: pages of at most 817 rows, whose cursors end with 0."""
    driver = with_media(start, WIDE, objects=1024)
    for first_number in range(1, 1001, 200):
        # Many in a tick: the tables of this set are looked at after each.
        replies = driver.send_together(
            [
                (
                    driver.header(Operation.MEDIA, id=request_id(number)),
                    begin_frame(number, JPEG_FILE, size=100).pack(),
                )
                for number in range(first_number, first_number + 200)
            ]
        )
        assert [reply.status for reply, _ in replies] == [200] * 200

    status, cursor, first = listed(driver)
    assert (status, len(first)) == (200, 817)
    status, last, second = listed(driver, cursor=cursor)
    assert (status, last, len(second)) == (200, 0, 183)
    names = [row.transfer_id for row in (*first, *second)]
    assert names == [request_id(number) for number in range(1, 1001)]


def test_list_of_nothing(driver: Driver) -> None:
    """cases F 110."""
    assert listed(driver, P2) == (200, 0, ())


def test_begin_beside_the_quota(driver: Driver) -> None:
    """`wire.md` §10: the largest size is judged by the quota, then by the pool."""
    frame = MediaFrame.begin(
        request_id(1), (2**64 - 1) // 8, BeginData(MediaFormat.JPEG, b"\1" * 32)
    )
    assert send(driver, frame, 1) == (429, None)
    driver.install(grant(actions=2, media=1, media_bytes=2**64 - 1))
    status, metadata = send(driver, frame, 1)
    assert metadata is not None
    assert (status, metadata.phase, metadata.status) == (413, REFUSED, 2)


def test_two_channels_of_one_upload(driver: Driver) -> None:
    """`device.md` §12: frames of one tick see each other."""
    size = len(WAV_FILE)
    frames = [
        begin_frame(1, WAV_FILE),
        MediaFrame.chunk(request_id(1), size, 0, WAV_FILE[:100]),
        MediaFrame.chunk(request_id(1), size, 100, WAV_FILE[100:]),
        MediaFrame.end(request_id(1), size),
        MediaFrame.end(request_id(1), size),
    ]
    header = driver.header(Operation.MEDIA, id=request_id(1))
    packets = [(header, frame.pack()) for frame in frames]
    replies = driver.send_together(packets)

    assert [reply.status for reply, _ in replies] == [200] * 5
    phases = [Metadata.unpack(data).phase for _, data in replies]
    assert phases == [MediaPhase.RECEIVING] * 3 + [MediaPhase.HASHING] * 2
