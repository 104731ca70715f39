"""
Start, life and stop of the runtime: threads, doorbells, deadlines.
"""

from __future__ import annotations

import os
import threading

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from tests.runtime.doubles import (
    ListedEngine,
    facts,
    open_order,
)
from tests.runtime.running import Lines, Runtime
from twisted_aotx.runtime.service import (
    ENGINE_CLOSE_SECONDS,
    PROGRESS_SECONDS,
    THREAD_SECONDS,
)


def test_kernels_are_warm_before_the_device_runs(runtime: Runtime) -> None:
    """The device's thread starts after the warm-up; both are threads of their own."""
    runtime.device.may_warm_up.clear()
    runtime.start()
    runtime.reactor.settle()
    assert runtime.started == []
    assert runtime.device.log == []

    runtime.device.may_warm_up.set()
    runtime.reactor.until(lambda: "run" in runtime.device.log)

    assert runtime.device.log == ["warm_up", "run"]
    assert "aotx-device" in {thread.name for thread in threading.enumerate()}


def test_a_long_warm_up_says_so(runtime: Runtime, lines: Lines) -> None:
    """One line each PROGRESS_SECONDS, and one at the end."""
    runtime.device.may_warm_up.clear()
    runtime.start()
    for _ in range(3):
        runtime.reactor.advance(PROGRESS_SECONDS)
    runtime.device.may_warm_up.set()
    runtime.reactor.until(lambda: runtime.started)

    texts = [text for level, text in lines() if level == "info"]
    assert [text.split(";")[0] for text in texts] == [
        "compiling kernels, 5 s so far",
        "compiling kernels, 10 s so far",
        "compiling kernels, 15 s so far",
        "kernels are ready after 15.0 s",
        "the device runs",
    ]
    assert runtime.reactor.getDelayedCalls() == []


def test_it_waits_for_engines_that_load() -> None:
    """`start` fires when warm-up and every engine are done."""
    loading: Deferred[None] = Deferred()
    runtime = Runtime(ListedEngine(), ListedEngine(facts(3), starting=loading))
    runtime.start()
    runtime.reactor.until(lambda: "warm_up" in runtime.device.log)
    runtime.reactor.settle()
    assert runtime.started == []

    loading.callback(None)
    runtime.reactor.until(lambda: runtime.started)

    assert [engine.verbs for engine in runtime.engines] == [["start"], ["start"]]
    runtime.stop()


def test_an_engine_that_cannot_start_ends_the_start() -> None:
    """`start` fails with the engine's error; everything is closed again."""
    runtime = Runtime(ListedEngine(), ListedEngine(facts(3), starting=Deferred()))
    runtime.start()
    assert runtime.engines[1].starting is not None
    runtime.engines[1].starting.errback(ValueError("no model"))
    runtime.reactor.until(lambda: runtime.started)

    assert runtime.started[0].check(ValueError)
    assert [engine.verbs for engine in runtime.engines] == [["start", "close"]] * 2
    assert "run" not in runtime.device.log
    assert runtime.device.is_freed
    assert runtime.reactor.readers == []


def test_a_warm_up_that_fails_ends_the_start(runtime: Runtime) -> None:
    """A kernel that does not compile is the start's failure."""

    def fail() -> None:
        raise ValueError("no compiler")

    runtime.device.warm_up = fail  # type: ignore[method-assign]
    runtime.start()
    runtime.reactor.until(lambda: runtime.started)

    assert runtime.started[0].check(ValueError)
    assert runtime.engines[0].verbs == ["start", "close"]


def test_stop_during_start(runtime: Runtime) -> None:
    """The start is given up with CancelledError; nothing runs afterwards."""
    runtime.device.may_warm_up.clear()
    runtime.start()
    runtime.stop()
    assert runtime.started[0].check(CancelledError)

    runtime.device.may_warm_up.set()
    runtime.reactor.until(lambda: "warm_up" in runtime.device.log)
    runtime.reactor.settle()

    # A device that compiles is not asked to close: it would block the reactor.
    assert runtime.device.log == ["free", "warm_up"]
    assert runtime.engines[0].verbs == ["start", "close"]
    assert runtime.reactor.getDelayedCalls() == []


def test_a_start_that_is_cancelled_closes_what_it_began() -> None:
    """As `stop` during start, asked for by cancelling what `start` gave."""
    runtime = Runtime()
    runtime.device.may_warm_up.clear()
    starting = runtime.service.start()
    starting.addBoth(runtime.started.append)
    starting.cancel()
    runtime.reactor.until(lambda: runtime.started)

    assert runtime.started[0].check(CancelledError)
    assert runtime.engines[0].verbs == ["start", "close"]
    runtime.device.may_warm_up.set()


def test_stop_without_start(runtime: Runtime) -> None:
    """Half a process may be stopped too."""
    runtime.stop()

    assert runtime.device.log == ["free"]
    assert runtime.engines[0].verbs == ["close"]


def test_stop_closes_device_then_engines_and_is_idempotent() -> None:
    """The thread has returned before anything is freed."""
    runtime = Runtime(ListedEngine(), ListedEngine(facts(3)))
    runtime.run()
    runtime.stop()
    runtime.stop()
    runtime.service.stopService()

    assert runtime.device.log == [
        *("warm_up", "run", "flush", "close", "run ended", "free"),
    ]
    assert [engine.verbs for engine in runtime.engines] == [["start", "close"]] * 2
    assert runtime.reactor.readers == []
    assert runtime.reactor.getDelayedCalls() == []
    assert runtime.reactor.stops == 0


def test_replies_are_passed_on(runtime: Runtime) -> None:
    """The broker's doorbell, rung from any thread, calls `on_replies` once a turn."""
    calls: list[int] = []
    runtime.service.on_replies = lambda: calls.append(threading.get_ident())
    runtime.run()
    os.eventfd_write(runtime.device.broker_doorbell, 1)
    os.eventfd_write(runtime.device.broker_doorbell, 1)
    runtime.reactor.settle()

    assert calls == [threading.get_ident()]


def test_a_doorbell_survives_an_error(runtime: Runtime, lines: Lines) -> None:
    """What `on_replies` raises is logged and the next ring is answered."""
    answered: list[int] = []

    def answer() -> None:
        answered.append(1)
        if len(answered) == 1:
            raise ValueError("once")

    runtime.service.on_replies = answer
    runtime.run()
    for _ in range(2):
        os.eventfd_write(runtime.device.broker_doorbell, 1)
        runtime.reactor.settle()

    assert len(answered) == 2
    assert ("critical", "the broker doorbell was not answered") in lines()


def test_orders_and_reports_flow(runtime: Runtime) -> None:
    """The engine's doorbell is in the reactor and its reports reach the device."""
    runtime.run()
    runtime.device.order(open_order())
    runtime.reactor.settle()
    runtime.engines[0].leases[0].opened(4)
    runtime.reactor.settle()

    assert [report[3] for report in runtime.device.reports] == [4]


@pytest.mark.parametrize("error", [None, ValueError("boom"), SystemExit(3)])
def test_a_device_that_dies_stops_the_reactor(
    error: BaseException | None, lines: Lines
) -> None:
    """A loop that ends by itself: one event in the log, then `on_death`."""
    runtime = Runtime()
    runtime.run()
    runtime.device.die(error)
    runtime.reactor.until(lambda: runtime.reactor.stops)

    deaths = [text for level, text in lines() if level == LogLevel.critical.name]
    assert len(deaths) == 1
    assert deaths[0].startswith("the device's thread has died: ")
    runtime.stop()
    assert runtime.device.is_freed


def test_an_engine_that_came_back_while_it_started() -> None:
    """There is nothing to tell the device."""
    loading: Deferred[None] = Deferred()
    runtime = Runtime(ListedEngine(starting=loading))
    runtime.start()
    assert runtime.engines[0].host is not None
    runtime.engines[0].host.lost("its process ended")
    runtime.engines[0].host.back()
    runtime.reactor.settle()
    loading.callback(None)
    runtime.reactor.until(lambda: runtime.started)

    assert runtime.device.roles == []
    runtime.stop()


def test_on_death_may_be_replaced(runtime: Runtime) -> None:
    """The process decides what a death means; it gets the failure."""
    deaths: list[Failure] = []
    runtime.service.on_death = deaths.append
    runtime.run()
    runtime.device.die(ValueError("boom"))
    runtime.reactor.until(lambda: deaths)

    assert deaths[0].check(ValueError)
    assert runtime.reactor.stops == 0


def test_a_thread_that_hangs_is_given_up(lines: Lines) -> None:
    """After THREAD_SECONDS the stop goes on; the doorbells stay open under it."""
    runtime = Runtime()
    runtime.device.hangs = True
    runtime.run()
    runtime.service.stop().addBoth(runtime.stopped.append)
    runtime.reactor.settle()
    runtime.reactor.advance(THREAD_SECONDS - 1)
    assert runtime.stopped == []
    runtime.reactor.advance(1)
    runtime.reactor.until(lambda: runtime.stopped)

    assert runtime.stopped == [None]
    assert not runtime.device.is_freed
    assert runtime.engines[0].verbs == ["start", "close"]
    errors = [text for level, text in lines() if level == "error"]
    assert errors == ["the device's thread did not close within 10 s"]
    runtime.reactor.until(lambda: "run ended" in runtime.device.log)
    runtime.reactor.settle()
    runtime.device.free()


def test_an_engine_that_hangs_or_fails_holds_nobody_up(
    lines: Lines,
) -> None:
    """Each has ENGINE_CLOSE_SECONDS; what it raises is logged."""
    failing: Deferred[None] = Deferred()
    failing.errback(ValueError("cannot close"))
    runtime = Runtime(
        ListedEngine(closing=Deferred()),
        ListedEngine(facts(3), closing=failing),
        ListedEngine(facts(4)),
    )
    runtime.run()
    runtime.service.stop().addBoth(runtime.stopped.append)
    runtime.reactor.until(lambda: "close" in runtime.engines[0].verbs)
    runtime.reactor.advance(ENGINE_CLOSE_SECONDS)

    assert runtime.stopped == [None]
    assert runtime.engines[2].verbs == ["start", "close"]
    assert [text for level, text in lines() if level in ("error", "critical")] == [
        "the engine of role 2 did not close within 10 s",
        "the engine of role 3 did not close well",
    ]


def test_an_engine_lost_while_it_starts() -> None:
    """The device is told when it is warm, before it runs."""
    loading: Deferred[None] = Deferred()
    runtime = Runtime(ListedEngine(starting=loading))
    runtime.start()
    assert runtime.engines[0].host is not None
    runtime.engines[0].host.lost("its process ended")
    runtime.reactor.settle()
    assert runtime.device.roles == []
    loading.callback(None)
    runtime.reactor.until(lambda: runtime.started)

    assert runtime.device.roles == [(2, False)]
    runtime.stop()
