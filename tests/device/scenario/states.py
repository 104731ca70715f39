"""
Every row of the state table (`device.md` §9), and what an engine may do wrong.
"""

from __future__ import annotations

import attrs

from tests.device.making import (
    DONE,
    EMIT,
    FAILED,
    OPENED,
    P2,
    REFUSED,
    SECOND,
    grant,
    message,
    payload_of,
)
from tests.device.scenario.player import HOST, ROWS, Scenario
from twisted_aotx.limits import EVENTS_PER_SLOT
from twisted_aotx.wire.numbers import Phase


def _completed(s: Scenario) -> None:
    number, order = s.running()
    s.say(order, EMIT, 1, b"one")
    s.say(order, EMIT, 2, b"")
    assert s.read(number)[1] == b"one"
    s.follow("`done(1)`", [number], lambda: s.say(order, DONE, 1))
    other, order = s.running()
    s.report(order, EMIT, 8, b"eight")
    s.follow("`done(2)`", [other], lambda: s.say(order, DONE, 2))
    assert s.read(other, cursor=2)[1] == b"ght"
    assert s.read(other, cursor=6)[0].status == 409

    def anything() -> None:
        s.device.set_engine(HOST, False)
        s.cancel(number)
        s.report(order, EMIT, 1, b"late")
        s.device.set_engine(HOST, True)
        s.step(40 * SECOND)

    before = s.entry(number)
    s.follow("anything", [number], anything)
    assert s.entry(number) == before
    assert s.cancel(number, cursor=1)[0].status == 409


def _admitted_and_queued(s: Scenario) -> None:
    numbers, orders = s.one_each()
    s.note("–", "admitted", numbers[2])

    def make_room() -> None:
        s.report(orders[0], DONE, 1)
        s.step()
        s.step()

    s.follow("leased", numbers[2:], make_room)
    (order,) = s.opens()
    for each in (orders[1], order):
        s.play(each, [b"a", b"b"])
    s.step()


def _cancelled(s: Scenario) -> None:
    for which in range(3):
        numbers, orders = s.one_each()
        number = numbers[which]

        def cancel(number: int = number) -> None:
            assert s.cancel(number)[0].status == 200
            s.step()

        s.follow("cancel", [number], cancel)
        s.take_orders()
        for order in [*orders, *s.leases.values()]:
            s.report(order, REFUSED, 400)
        s.step()
        for order in s.opens():
            s.say(order, REFUSED, 400)


def _overdue(s: Scenario) -> None:
    numbers, _ = s.one_each()
    s.step(30 * SECOND - 9)
    s.follow("deadline", numbers, lambda: s.step(SECOND))
    s.take_orders()


def _revoked(s: Scenario) -> None:
    numbers, _ = s.one_each()
    many = (grant(bytes([9] * 15 + [n])) for n in range(13))
    s.follow("revoked", numbers, lambda: s.install(*ROWS, *many))
    s.take_orders()
    assert s.read(numbers[0])[0].status == 404


def _lost(s: Scenario) -> None:
    numbers, _ = s.one_each()
    events = {0: "engine lost", 1: "engine lost", 2: "lease check fails"}

    def lose() -> None:
        s.device.set_engine(HOST, False)
        s.step()

    before = [s.phase_of(number) for number in numbers]
    lose()
    for n, number in enumerate(numbers):
        s.note(before[n], events[n], number)
    s._number += 1
    assert s.submit(s._number) == 404
    s.device.set_engine(HOST, True)
    s.device.set_engine(HOST, True)
    s.step()
    s.take_orders()


def _failures(s: Scenario) -> None:
    number, order = s.preparing(limit=60)
    over = 8192 - 60 + 1
    s.follow(
        "`opened`, tokens do not fit", [number], lambda: s.say(order, OPENED, over)
    )
    number, order = s.preparing()
    s.say(order, OPENED, 0)
    assert s.submit(1, P2) == 202
    (order,) = s.opens()
    s.say(order, OPENED, 9)
    assert s.entry(1, P2)["r_status"] == 400
    number, order = s.preparing()
    s.follow("`refused(status)`", [number], lambda: s.say(order, REFUSED, 413))
    number, order = s.running()
    s.follow("`failed(status)`", [number], lambda: s.say(order, FAILED, 599))
    for value in (399, 600, -1):
        number, order = s.running()
        s.say(order, FAILED, value)
        assert s.entry(number)["r_status"] == 503
    marked = payload_of(message(1, b"see <|image_", b"pad|> here"))
    number = s.new(payload=marked)
    assert s.opens() == []
    # Admitted, leased and failed in one tick.
    s.note("preparing", "refused media markers", number)
    s.take_orders()


def _overflow(s: Scenario) -> None:
    number, order = s.running(limit=60)
    for _ in range(2):
        s.say(order, EMIT, 1, bytes(4095))
    s.report(order, EMIT, 1, b"ab")
    s.follow("overflow", [number], lambda: s.say(order, EMIT, 1, b"c"))
    assert s.entry(number)["r_total"] == 8190
    number, order = s.running(limit=60)
    for _ in range(2):
        s.report(order, EMIT, 1, bytes(4000))
    s.step()
    assert s.entry(number)["r_total"] == 4000
    s.step()
    s.follow("overflow", [number], lambda: s.say(order, EMIT, 1, bytes(8193)))
    s.take_orders()


def _faults(s: Scenario) -> None:
    """Events out of order, above the limit, of another generation; full rings."""
    for reports in (
        [(EMIT, 1, b"x")],
        [(DONE, 1, b"")],
        [(OPENED, 5, b""), (OPENED, 5, b"")],
        [(OPENED, 5, b""), (EMIT, 0, b"")],
        [(OPENED, 5, b""), (EMIT, -1, b"x")],
        [(OPENED, 5, b""), (EMIT, 9, b"x")],
        [(OPENED, 5, b""), (DONE, 3, b"")],
        [(OPENED, 5, b""), (9, 0, b"")],
    ):
        number, order = s.preparing()
        for kind, value, data in reports:
            s.report(order, kind, value, data)
        s.step()
        entry = s.entry(number)
        assert (entry["r_phase"], entry["r_status"]) == (Phase.FAILED, 503)
        s.take_orders()
    _, order = s.running(limit=60)
    stale = attrs.evolve(order, generation=order.generation - 1)
    s.report(order, EMIT, 1, b"kept")
    s.report(stale, EMIT, 1, b"dropped")
    s.report(order, EMIT, 1, b"next take")
    s.step()
    s.report(stale, DONE, 1)
    s.step()
    for _ in range(EVENTS_PER_SLOT):
        s.report(order, EMIT, 0, b"y")
    slot, generation = order.slot, order.generation
    assert not s.device.report(slot, generation, EMIT, 0, b"full")
    s.step()
    s.report(order, EMIT, 0, bytes(60))
    assert not s.device.report(slot, generation, EMIT, 0, bytes(65536))
    s.say(order, DONE, 1)


STAGES = (
    _completed, _admitted_and_queued, _cancelled, _overdue, _revoked, _lost,
    _failures, _overflow, _faults,
)  # fmt: skip
