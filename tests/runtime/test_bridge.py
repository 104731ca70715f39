"""
Orders to engines, reports to the device (`device.md` §10), over real eventfds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import attrs
import pytest
from twisted.logger import LogLevel, capturedLogs
from zope.interface.verify import verifyObject

from tests.runtime.bridges import Bridged, joined
from tests.runtime.doubles import (
    ListedEngine,
    MemoryDevice,
    facts,
    open_order,
    stop_order,
)
from twisted_aotx.device.numbers import Event
from twisted_aotx.devices import IDevice
from twisted_aotx.interfaces import IEngine, Lease


@pytest.fixture
def logged() -> Iterator[Callable[[], list[str]]]:
    """Levels of what is logged as a warning or worse."""
    with capturedLogs() as events:
        yield lambda: [
            event["log_level"].name
            for event in events
            if event["log_level"] > LogLevel.info
        ]


def test_doubles_are_what_they_claim() -> None:
    """The device and the engine of these tests provide the interfaces."""
    device = MemoryDevice()
    verifyObject(IDevice, device)
    verifyObject(IEngine, ListedEngine())
    device.free()


def test_orders_reach_the_engine_of_their_role_in_order() -> None:
    """Opens and stops of two roles, in the order sent."""
    language, audio = ListedEngine(facts(2)), ListedEngine(facts(4))
    world = joined(language, audio)

    world.device.order(
        open_order(1, 1),
        attrs.evolve(open_order(2, 7), role=4),
        stop_order(1, 1),
        open_order(1, 2),
    )
    world.reactor.settle()

    assert language.verbs == [("open", 1, 1), ("stop", 1, 1), ("open", 1, 2)]
    assert audio.verbs == [("open", 2, 7)]
    world.device.free()


def test_reports_carry_slot_and_generation(world: Bridged) -> None:
    """What the engine says of a lease reaches the device under its name [D4]."""
    lease = world.open(3, 9)
    lease.opened(17)
    lease.emit(b"out", 1)
    lease.done(1)
    world.reactor.settle()

    assert world.device.reports == [
        (3, 9, Event.OPENED, 17, b""),
        (3, 9, Event.EMIT, 1, b"out"),
        (3, 9, Event.DONE, 1, b""),
    ]


def test_a_stop_wakes_the_device(world: Bridged) -> None:
    """The slot's next order waits until the mailbox of this one was given back."""
    world.device.order(open_order(), stop_order())
    world.reactor.settle()

    assert world.device.log == ["ring"]


def test_one_ring_for_one_batch(world: Bridged) -> None:
    """Reports of one turn wake the device once, after the last of them."""
    leases = [world.open(slot) for slot in (1, 2)]
    world.device.log.clear()
    for lease in leases:
        lease.opened(1)
        lease.emit(b"x", 1)
    world.reactor.settle()

    assert world.device.log == ["report"] * 4 + ["ring"]


def test_reports_from_a_thread(world: Bridged) -> None:
    """Any thread may report; the device is only called on the reactor's."""
    lease = world.open()
    seen: list[int] = []
    take = world.device.report

    def report(*args: object) -> bool:
        seen.append(threading.get_ident())
        return take(*args)  # type: ignore[arg-type]

    world.device.report = report  # type: ignore[method-assign, assignment]

    def serve() -> None:
        lease.opened(1)
        for _ in range(100):
            lease.emit(b"x", 1 if seen else 0)
        lease.done(2)

    thread = threading.Thread(target=serve)
    thread.start()
    world.reactor.until(
        lambda: world.device.reports and world.device.reports[-1][2] == Event.DONE
    )
    thread.join()

    data = b"".join(report[4] for report in world.device.reports)
    assert data == b"x" * 100
    assert set(seen) == {threading.get_ident()}


def test_a_full_ring_is_back_pressure() -> None:
    """What does not fit waits for the doorbell, in order, and nothing is lost."""
    world = joined(ListedEngine(), room=2)
    lease = world.open()
    lease.opened(1)
    for n in range(5):
        lease.emit(b"%d" % n * 4096, 1)
    lease.done(1)
    world.reactor.settle()
    assert [report[2] for report in world.device.reports] == [Event.OPENED, Event.EMIT]

    for _ in range(3):
        world.device.make_room()
        world.reactor.settle()

    assert [report[2] for report in world.device.reports] == [
        Event.OPENED,
        *[Event.EMIT] * 5,
        Event.DONE,
    ]
    whole = b"".join(report[4] for report in world.device.reports)
    assert whole == b"".join(b"%d" % n * 4096 for n in range(5))
    world.device.free()


def test_a_full_ring_holds_back_no_other_slot() -> None:
    """Each slot has its own ring."""
    world = joined(ListedEngine(), room=1)
    first, second = world.open(1), world.open(2)
    first.opened(1)
    first.emit(b"x", 1)
    second.opened(2)
    world.reactor.settle()

    assert (2, 1, Event.OPENED, 2, b"") in world.device.reports
    world.device.free()


def test_stop_ends_the_lease_on_both_sides(world: Bridged) -> None:
    """The engine is told once; what it still reports is dropped."""
    lease = world.open()
    lease.opened(1)
    world.reactor.settle()
    world.device.order(stop_order(), stop_order())
    world.reactor.settle()
    lease.emit(b"late", 1)
    lease.done(1)
    world.reactor.settle()

    assert world.engine.verbs == [("open", 1, 1), ("stop", 1, 1)]
    assert [report[2] for report in world.device.reports] == [Event.OPENED]


@pytest.mark.parametrize("end", ["refused", "done", "failed"])
def test_no_stop_after_the_engine_ended_it(world: Bridged, end: str) -> None:
    """The device's stop and the engine's end may cross; the engine sees no stop."""
    lease = world.open()
    if end == "refused":
        lease.refused(400)
    else:
        lease.opened(1)
        getattr(lease, end)(1 if end == "done" else 500)
    world.device.order(stop_order())
    world.reactor.settle()

    assert world.engine.verbs == [("open", 1, 1)]


def test_a_stop_of_an_earlier_generation_touches_nobody(world: Bridged) -> None:
    """Generation 1's stop does not reach generation 2 of the same slot [D4]."""
    world.open(1, 1).refused(400)
    world.open(1, 2)
    world.device.order(stop_order(1, 1))
    world.reactor.settle()

    assert world.engine.verbs == [("open", 1, 1), ("open", 1, 2)]


def test_a_late_report_of_an_earlier_generation_goes_nowhere(world: Bridged) -> None:
    """The slot's next lease gets none of it."""
    first = world.open(1, 1)
    first.opened(1)
    world.device.order(stop_order(1, 1))
    second = world.open(1, 2)
    world.device.reports.clear()
    first.emit(b"old", 1)
    second.opened(3)
    world.reactor.settle()

    assert world.device.reports == [(1, 2, Event.OPENED, 3, b"")]


def test_a_slot_opened_twice_stops_the_first(
    world: Bridged, logged: Callable[[], list[str]]
) -> None:
    """It would be our own fault; the engine keeps one sequence a slot, and we log."""
    world.open(1, 1)
    world.open(1, 2)

    assert world.engine.verbs == [("open", 1, 1), ("stop", 1, 1), ("open", 1, 2)]
    assert logged() == ["error"]


def test_an_engine_that_cannot_open(
    world: Bridged, logged: Callable[[], list[str]]
) -> None:
    """The lease is refused with 503, the exception logged; no stop follows."""

    def fail(lease: Lease) -> None:
        raise ValueError("cannot")

    world.engine.on_open = fail
    world.open()
    world.reactor.settle()

    assert world.device.reports == [(1, 1, Event.REFUSED, 503, b"")]
    assert world.engine.verbs == [("open", 1, 1)]
    assert logged() == ["critical"]


def test_an_engine_that_opens_and_raises(world: Bridged) -> None:
    """What it reported first stays, then the lease fails."""

    def fail(lease: Lease) -> None:
        lease.opened(2)
        raise ValueError("cannot")

    world.engine.on_open = fail
    world.open()
    world.reactor.settle()

    assert [report[2:4] for report in world.device.reports] == [
        (Event.OPENED, 2),
        (Event.FAILED, 503),
    ]


def test_an_engine_that_cannot_stop(
    world: Bridged, logged: Callable[[], list[str]]
) -> None:
    """It is logged; the orders behind it are served."""

    def fail(slot: int, generation: int) -> None:
        raise ValueError("cannot")

    world.engine.on_stop = fail
    world.open(1)
    world.device.order(stop_order(1), open_order(2))
    world.reactor.settle()

    assert world.engine.verbs[-1] == ("open", 2, 1)
    assert logged() == ["critical"]


def test_an_engine_that_breaks_the_order_is_stopped(
    world: Bridged, logged: Callable[[], list[str]]
) -> None:
    """The lease fails with 503 and the engine frees its sequence, told once."""
    lease = world.open()
    lease.opened(1)
    lease.opened(1)
    lease.emit(b"more", 1)
    world.reactor.settle()
    world.device.order(stop_order())
    world.reactor.settle()

    assert [report[2:4] for report in world.device.reports] == [
        (Event.OPENED, 1),
        (Event.FAILED, 503),
    ]
    assert world.engine.verbs == [("open", 1, 1), ("stop", 1, 1)]
    assert logged() == ["warn"]


def test_an_order_for_a_role_without_engine_is_refused(
    world: Bridged, logged: Callable[[], list[str]]
) -> None:
    """Nobody could serve it."""
    world.device.order(attrs.evolve(open_order(2, 5), role=3))
    world.reactor.settle()

    assert world.device.reports == [(2, 5, Event.REFUSED, 503, b"")]
    assert logged() == ["error"]
