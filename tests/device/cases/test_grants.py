"""
cases B: grant tables through channel 0 (`device.md` §2, `wire.md` §6).
"""

from __future__ import annotations

import struct

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    P1,
    P2,
    P3,
    grant,
    played_engine,
    request_id,
)
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.numbers import Operation, Phase
from twisted_aotx.wire.packet import split_reply

PAGES = -(-SMALL.sequence_tokens // 16)


@pytest.fixture
def driver(start: Start) -> Driver:
    return start()


def table(revision: int, count: int = 1) -> bytes:
    """A table of *count* rows that is right in everything."""
    rows = (grant(request_id(number + 1)) for number in range(count))
    return GrantTable(
        revision, tuple(attrs.evolve(row, revision=revision) for row in rows)
    ).pack()


def put(data: bytes, offset: int, code: str, value: int) -> bytes:
    size = struct.calcsize(code)
    return data[:offset] + struct.pack(code, value) + data[offset + size :]


def install(driver: Driver, packet: bytes) -> int:
    return split_reply(driver.raw(packet, channel=0))[0].status


def is_granted(driver: Driver, revision: int, principal: bytes = P1) -> bool:
    header = driver.header(Operation.INFO, principal, revision=revision)
    return driver.status(header) == 200


def test_first_table(driver: Driver) -> None:
    """cases B 20, the device's part: nobody is known before, every row afterwards."""
    assert not is_granted(driver, 1)

    assert install(driver, table(1, SMALL.principals)) == 200

    for number in range(SMALL.principals):
        assert is_granted(driver, 1, request_id(number + 1))
    assert not is_granted(driver, 1, request_id(SMALL.principals + 1))
    assert not is_granted(driver, 2)


def test_revision_zero(driver: Driver) -> None:
    """cases B 22."""
    packet = put(put(table(1), 32, "<Q", 0), 128 + 16, "<Q", 0)

    assert install(driver, packet) == 400
    assert not is_granted(driver, 0)


def test_revisions_only_rise(driver: Driver) -> None:
    """`device.md` §2: compared as unsigned 64-bit numbers."""
    assert install(driver, table(2**63 - 1)) == 200
    for revision in (2**63 - 1, 1, 2**63 - 2):
        assert install(driver, table(revision)) == 400
    assert install(driver, table(2**63)) == 200
    assert install(driver, table(2**63 - 1)) == 400
    assert install(driver, table(2**64 - 1)) == 200
    assert is_granted(driver, 2**64 - 1)


@pytest.mark.parametrize("row", [0, 7, SMALL.principals - 1])
def test_row_of_another_revision(driver: Driver, row: int) -> None:
    """cases B 23."""
    assert install(driver, table(1, 2)) == 200
    packet = put(table(2, SMALL.principals), 128 + 64 * row + 16, "<Q", 3)

    assert install(driver, packet) == 400

    assert is_granted(driver, 1)
    assert not is_granted(driver, 2)


def test_pages_zero_is_the_whole_context(driver: Driver) -> None:
    """cases B 25 [D8]."""
    driver.install(grant(pages=0), grant(P2, pages=1), grant(P3, pages=PAGES))

    assert driver.info(P1).grant_pages == PAGES
    assert driver.info(P2).grant_pages == 1
    assert driver.info(P3).grant_pages == PAGES


def test_row_count(driver: Driver) -> None:
    """cases B 26: one row beyond the capacity; fewer rows than told."""
    assert install(driver, table(1, SMALL.principals + 1)) == 400
    assert install(driver, put(table(1, 1), 76, "<I", 2)) == 400
    assert install(driver, put(table(1, 2), 76, "<I", 1)) == 400
    assert install(driver, put(table(1, 1), 76, "<I", 2**32 - 1)) == 400
    assert not is_granted(driver, 1)


@pytest.mark.parametrize(
    ("offset", "code", "value", "status"),
    [
        (0, "<Q", 0, 200),
        (24, "<I", 0, 400),
        (24, "<I", 255, 200),
        (24, "<I", 256, 400),
        (24, "<I", 257, 400),
        (28, "<I", 0, 200),
        (28, "<I", 0b11100, 200),
        (28, "<I", 0b11101, 400),
        (28, "<I", 0b10, 400),
        (28, "<I", 0b100000, 400),
        (32, "<I", PAGES, 200),
        (32, "<I", PAGES + 1, 400),
        (36, "<I", 0, 400),
        (36, "<I", SMALL.sequence_tokens - 1, 200),
        (36, "<I", SMALL.sequence_tokens, 400),
        (40, "<I", 0, 400),
        (40, "<I", SMALL.requests, 200),
        (40, "<I", SMALL.requests + 1, 400),
        (44, "<I", 2**32 - 1, 200),
        (48, "<Q", 2**64 - 1, 200),
        (56, "<Q", 1, 400),
        (56, "<Q", 1 << 56, 400),
    ],
)
def test_row_fields(
    driver: Driver, offset: int, code: str, value: int, status: int
) -> None:
    """`wire.md` §6, at each limit and one past it."""
    packet = put(table(1, 2), 128 + 64 + offset, code, value)

    assert install(driver, packet) == status
    assert is_granted(driver, 1) == (status == 200)


def test_principals_are_nonzero_and_unique(driver: Driver) -> None:
    """`wire.md` §6."""
    packet = table(1, 2)
    second = 128 + 64

    assert install(driver, packet[:second] + bytes(16) + packet[second + 16 :]) == 400
    twice = packet[:second] + packet[128:144] + packet[second + 16 :]
    assert install(driver, twice) == 400


def test_rows_of_a_refused_table_are_forgotten(driver: Driver) -> None:
    """`device.md` §2: a failure changes nothing, so later tables know none of them."""
    broken = table(1, SMALL.principals)[:-8] + bytes([0] * 7 + [1])
    for _ in range(3):
        assert install(driver, broken) == 400
    assert not is_granted(driver, 1, request_id(2))

    for revision in (1, 2):
        assert install(driver, table(revision)) == 200
        assert is_granted(driver, revision)
        assert not is_granted(driver, revision, request_id(2))
    assert install(driver, table(3, SMALL.principals)) == 200
    assert is_granted(driver, 3, request_id(SMALL.principals))


def test_empty_table_revokes_everyone(driver: Driver) -> None:
    """`device.md` §2: count 0."""
    driver.install(grant())
    assert driver.install() == 200
    assert not is_granted(driver, 2)


def test_same_ids_under_a_higher_revision(driver: Driver) -> None:
    """cases B 28: results of the old revision stay lost, and stay untouched."""
    driver.install(grant())
    driver.submit(1)
    driver.play(driver.opens()[0], [b"x"])
    driver.step()
    driver.install()
    assert driver.install(grant()) == 200

    assert driver.read(1)[0].status == 404
    assert driver.cancel(1)[0].status == 404
    # The entry is still there, and still owned.
    assert driver.submit(1) == 409
    assert driver.submit(2) == 202
    assert driver.phase(2) == Phase.PREPARING


def test_role_is_no_longer_granted(driver: Driver) -> None:
    """cases B 29: the old result is of an old revision too; an own one is not."""
    driver.install(grant(models=0b1100))
    driver.submit(1)
    driver.play(driver.opens()[0], [b"x"])
    driver.step()
    assert driver.install(grant(models=0b1000)) == 200

    assert driver.submit(2) == 404
    assert driver.read(1)[0].status == 404


def test_revocation(start: Start) -> None:
    """`device.md` §2: queued, preparing and running requests of an old revision."""
    driver = start(engines=[played_engine(capacity=2, sequence_tokens=8192)])
    driver.install(grant())
    for number in (1, 2, 3):
        assert driver.submit(number) == 202
    first, second = driver.opens()
    driver.open_one(first)
    assert [driver.phase(n) for n in (1, 2, 3)] == [3, 2, 1]

    assert driver.install(grant(P2)) == 200

    stops = driver.take_orders()
    assert [(stop.slot, stop.generation) for stop in stops] == [
        (first.slot, first.generation),
        (second.slot, second.generation),
    ]
    # Nothing of P1 counts any more: both leases are free for P2.
    for number in (1, 2, 3):
        assert driver.submit(number, P2) == 202
    assert [order.generation for order in driver.opens()] == [2, 2]


def test_other_operation_on_channel_0(driver: Driver) -> None:
    """cases B 32."""
    for operation in (Operation.INFO, Operation.SUBMIT, 0, 99):
        header = driver.header(operation, epoch=EPOCH, id=request_id(1), revision=1)
        reply, data = driver.send(header, channel=0)
        assert (reply.status, data) == (403, b"")
    assert install(driver, table(1)) == 200
