"""
What an engine may report, and in which order (`device.md` §10).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.doubles import open_order
from twisted_aotx import limits
from twisted_aotx.device.numbers import Event
from twisted_aotx.runtime.leases import REPORT_BYTES_MAX, BridgedLease
from twisted_aotx.testing.engines import RecordedLease

OPENED = (Event.OPENED, 5, b"")
UNAVAILABLE = 503
Step = Callable[[Any], None]


def opened(value: Any = 5) -> Step:
    return lambda lease: lease.opened(value)


def refused(status: Any) -> Step:
    return lambda lease: lease.refused(status)


def emit(data: Any, tokens: Any) -> Step:
    return lambda lease: lease.emit(data, tokens)


def done(finish: Any) -> Step:
    return lambda lease: lease.done(finish)


def failed(status: Any) -> Step:
    return lambda lease: lease.failed(status)


def played(*steps: Step, limit: int = 64) -> RecordedLease:
    lease = RecordedLease(open_order(limit=limit))
    for step in steps:
        step(lease)
    return lease


@pytest.mark.parametrize(
    ("steps", "reports"),
    [
        ([opened()], [OPENED]),
        ([opened(1)], [(Event.OPENED, 1, b"")]),
        ([refused(413)], [(Event.REFUSED, 413, b"")]),
        (
            [opened(), emit(b"ab", 1), emit(b"", 1), emit(b"c", 0), done(1)],
            [
                OPENED,
                (Event.EMIT, 1, b"ab"),
                (Event.EMIT, 1, b""),
                (Event.EMIT, 0, b"c"),
                (Event.DONE, 1, b""),
            ],
        ),
        ([opened(), done(2)], [OPENED, (Event.DONE, 2, b"")]),
        ([opened(), failed(500)], [OPENED, (Event.FAILED, 500, b"")]),
        ([opened(), emit(bytearray(b"x"), 1)], [OPENED, (Event.EMIT, 1, b"x")]),
    ],
)
def test_reports_in_order_pass(steps: list[Step], reports: list[Any]) -> None:
    """What the table of `device.md` §10 allows reaches the device unchanged."""
    lease = played(*steps)

    assert lease.reports == reports
    assert lease.fault is None


@pytest.mark.parametrize(
    "steps",
    [
        [emit(b"x", 1)],
        [done(1)],
        [failed(500)],
        [opened(0)],
        [opened(-1)],
        [opened(2**31)],
        [opened("5")],
        [opened(None)],
    ],
)
def test_a_fault_before_opened_is_a_refusal(steps: list[Step]) -> None:
    """Nothing but `opened` and `refused` may come first."""
    lease = played(*steps)

    assert lease.reports == [(Event.REFUSED, UNAVAILABLE, b"")]
    assert lease.fault is not None


@pytest.mark.parametrize(
    "step",
    [
        opened(),
        refused(400),
        emit(b"", 0),
        emit(b"x", -1),
        emit(b"x", 65),
        emit(b"x", 1.0),
        emit("x", 1),
        emit(None, 1),
        emit(b"x" * (limits.EVENT_BYTES_PER_SLOT + 1), 1),
        done(0),
        done(3),
        done(None),
    ],
)
def test_a_fault_after_opened_fails_with_503(step: Step) -> None:
    """The lease ends; whatever else the engine says about it is dropped."""
    lease = played(opened(), step, emit(b"late", 1), done(1))

    assert lease.reports == [OPENED, (Event.FAILED, UNAVAILABLE, b"")]
    assert lease.fault is not None


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        (400, 400),
        (599, 599),
        (399, UNAVAILABLE),
        (600, UNAVAILABLE),
        (0, UNAVAILABLE),
        (-400, UNAVAILABLE),
        ("400", UNAVAILABLE),
    ],
)
def test_status_outside_400_to_599_counts_as_503(status: Any, counted: int) -> None:
    """`device.md` §10, Statuses; that alone is no fault."""
    refusal, failure = played(refused(status)), played(opened(), failed(status))

    assert refusal.reports == [(Event.REFUSED, counted, b"")]
    assert failure.reports == [OPENED, (Event.FAILED, counted, b"")]
    assert refusal.fault is None
    assert failure.fault is None


def test_tokens_may_sum_to_the_limit_and_no_further() -> None:
    """The limit over several emissions, and one token past it."""
    within = played(opened(), emit(b"x", 3), emit(b"y", 2), limit=5)
    past = played(opened(), emit(b"x", 3), emit(b"y", 3), limit=5)

    assert within.fault is None
    assert within.sampled_tokens == 5
    assert past.reports[-1] == (Event.FAILED, UNAVAILABLE, b"")
    assert past.output == b"x"


@pytest.mark.parametrize(
    "end", [[refused(400)], [opened(), done(1)], [opened(), failed(500)]]
)
def test_after_its_end_nothing_counts(end: list[Step]) -> None:
    """No report and no fault, whatever the engine still says."""
    lease = played(*end)
    before = list(lease.reports)

    for step in (opened(), emit(b"x", 99), done(9), failed(1), refused(2)):
        step(lease)

    assert lease.reports == before
    assert lease.fault is None


class Ring:
    """
    A device's ring that can be shut.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.reports: list[tuple[Event, int, bytes]] = []

    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes
    ) -> bool:
        if self.is_open:
            self.reports.append((Event(kind), value, data))
        return self.is_open


def waiting_lease(limit: int = 2**30) -> tuple[BridgedLease, Ring]:
    lease, ring = BridgedLease(open_order(limit=limit), lambda lease: None), Ring()
    lease.opened(1)
    return lease, ring


def test_emissions_that_wait_are_joined_to_a_take() -> None:
    """Up to 4,096 bytes together; order, bytes and tokens stay."""
    lease, ring = waiting_lease()
    for data in (b"a" * 4000, b"b" * 96, b"c", b"", b"d" * 4096):
        lease.emit(data, 1)
    lease.done(1)
    assert not lease.flush(ring.report)

    ring.is_open = True
    assert lease.flush(ring.report)

    assert ring.reports == [
        (Event.OPENED, 1, b""),
        (Event.EMIT, 2, b"a" * 4000 + b"b" * 96),
        (Event.EMIT, 2, b"c"),
        (Event.EMIT, 1, b"d" * 4096),
        (Event.DONE, 1, b""),
    ]
    assert lease.is_over


def test_what_waits_is_bounded() -> None:
    """REPORT_BYTES_MAX bytes may wait, in few pieces; one more is a fault."""
    lease, ring = waiting_lease()
    for _ in range(REPORT_BYTES_MAX // 128):
        lease.emit(b"x" * 128, 0)
    assert lease.take_fault() is None
    lease.emit(b"x", 1)

    assert lease.take_fault() is not None
    ring.is_open = True
    assert lease.flush(ring.report)
    assert len(ring.reports) <= 2 * REPORT_BYTES_MAX // limits.TAKE_BYTES_MAX + 3
    assert sum(len(data) for _, _, data in ring.reports) == REPORT_BYTES_MAX
    assert ring.reports[-1] == (Event.FAILED, UNAVAILABLE, b"")


def test_room_counts_again_once_flushed() -> None:
    """The bound is on what waits, not on the whole output."""
    lease, ring = waiting_lease()
    ring.is_open = True
    for _ in range(40):
        lease.emit(b"x" * 65536, 1)
        lease.flush(ring.report)

    assert lease.take_fault() is None


def test_a_dropped_lease_forgets_what_waits() -> None:
    """The device ended it: nothing of it is reported afterwards [D4]."""
    lease, ring = waiting_lease()
    lease.emit(b"x", 1)
    ring.is_open = True

    assert lease.drop()
    assert not lease.drop()
    lease.emit(b"y", 1)
    lease.done(1)

    assert lease.flush(ring.report)
    assert ring.reports == []
    assert lease.take_fault() is None


def test_reports_of_one_thread_survive_flushes_of_another() -> None:
    """Emissions from a thread arrive whole and in order while another flushes."""
    lease, ring = waiting_lease()
    ring.is_open = True
    pieces = [b"%d " % n for n in range(5000)]

    def produce() -> None:
        for piece in pieces:
            lease.emit(piece, 1)
        lease.done(1)

    thread = threading.Thread(target=produce)
    thread.start()
    while thread.is_alive():
        lease.flush(ring.report)
    thread.join()
    lease.flush(ring.report)

    assert b"".join(data for _, _, data in ring.reports) == b"".join(pieces)
    assert sum(v for kind, v, _ in ring.reports if kind == Event.EMIT) == 5000
    assert ring.reports[-1] == (Event.DONE, 1, b"")


def test_prompt_and_output_stay_out_of_repr() -> None:
    """A lease may be logged."""
    lease = RecordedLease(open_order())
    lease.opened(1)
    lease.emit(b"secret output", 1)

    assert "Hello" not in repr(lease)
    assert "secret" not in repr(lease)
