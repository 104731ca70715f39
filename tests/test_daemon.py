"""
`tap.Daemon` alone: order of starts and stops, failures, signals, exit codes.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from twisted_aotx.errors import ConfigError, ConfigErrors, ServiceClosed
from twisted_aotx.tap import Daemon


@attrs.define(eq=False)
class ScriptedPart:
    """
    Notes what happens to it; starts, reloads and stops when its Deferreds fire.
    """

    name: str
    events: list[str]
    starts: Deferred[None] | None = None
    stops: Deferred[None] | None = None
    died: Callable[[str], None] | None = None
    unreadable: Exception | None = None
    reloads: Deferred[None] | None = None
    late: Callable[[], object] | None = None
    stop_seconds: float = 35.0

    async def start(self, died: Callable[[str], None]) -> None:
        self.events.append(f"start {self.name}")
        self.died = died
        if self.starts is not None:
            await self.starts
        self.events.append(f"started {self.name}")

    def read_again(self) -> None:
        self.events.append(f"read {self.name}")
        if self.unreadable is not None:
            raise self.unreadable

    async def reload(self, late: Callable[[], object]) -> None:
        self.events.append(f"reload {self.name}")
        self.late = late
        if self.reloads is not None:
            await self.reloads

    def reloaded(self, reasons: Sequence[str]) -> None:
        self.events.append(" ".join([f"reloaded {self.name}", *reasons]))

    async def stop(self) -> None:
        self.events.append(f"stop {self.name}")
        if self.stops is not None:
            await self.stops
        self.events.append(f"stopped {self.name}")


class ReactorDouble(Clock):
    """
    A clock with the start and the end of a reactor's life: `run`, and `stop`, which
    calls the `after` triggers once what the `before` ones returned has fired.
    """

    def __init__(self) -> None:
        super().__init__()
        self._whenRunning: list[Callable[[], None]] = []
        self._triggers: dict[str, list[Callable[[], Any]]] = {"before": [], "after": []}

    def callWhenRunning(self, function: Callable[[], None]) -> None:
        self._whenRunning.append(function)

    def callFromThread(self, function: Any, *args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)

    def addSystemEventTrigger(
        self, phase: str, event: str, function: Any, *args: Any
    ) -> None:
        assert event == "shutdown"
        self._triggers[phase].append(lambda: function(*args))

    def run(self) -> None:
        for function in self._whenRunning:
            function()

    def stop(self) -> None:
        (before,) = self._triggers["before"]
        before().addCallback(lambda _: [after() for after in self._triggers["after"]])


@attrs.define
class Running:
    daemon: Daemon
    reactor: ReactorDouble
    events: list[str]
    exits: list[int]
    logged: list[LogEvent]

    def said(self, level: str) -> list[str]:
        return [
            formatEvent(event)
            for event in self.logged
            if event.get("log_namespace") == "aotx" and event["log_level"].name == level
        ]


@pytest.fixture
def run() -> Iterator[Callable[..., Running]]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    logged: list[LogEvent] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        logged.append(event)

    globalLogPublisher.addObserver(observe)

    def make(events: list[str], *parts: ScriptedPart) -> Running:
        reactor = ReactorDouble()
        exits: list[int] = []
        daemon = Daemon(reactor, parts, exit=exits.append)
        daemon.startService()
        reactor.addSystemEventTrigger("before", "shutdown", daemon.stopService)
        assert events == []
        reactor.run()
        return Running(daemon, reactor, events, exits, logged)

    yield make
    globalLogPublisher.removeObserver(observe)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_parts_start_in_order_and_stop_in_reverse(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    running = run(events, ScriptedPart("a", events), ScriptedPart("b", events))
    assert events == ["start a", "started a", "start b", "started b"]

    del events[:]
    signal.raise_signal(signal.SIGTERM)

    assert events == ["stop b", "stopped b", "stop a", "stopped a"]
    assert running.exits == []
    assert running.reactor.getDelayedCalls() == []


def test_a_part_that_fails_to_start_stops_what_began_and_exits_1(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    fails: Deferred[None] = Deferred()
    running = run(
        events,
        ScriptedPart("a", events),
        ScriptedPart("b", events, starts=fails),
        ScriptedPart("c", events),
    )

    del events[:]
    fails.errback(ConfigErrors((ConfigError("x", "is bad"), ConfigError("y", "too"))))

    assert events == ["stop b", "stopped b", "stop a", "stopped a"]
    assert running.exits == [1]
    assert running.said("critical") == [
        "b cannot start: x: is bad",
        "b cannot start: y: too",
    ]


def test_a_start_that_fails_at_once_exits_1(run: Callable[..., Running]) -> None:
    events: list[str] = []
    failed: Deferred[None] = Deferred()
    failed.errback(OSError(28, "No space left on device"))

    running = run(events, ScriptedPart("a", events, starts=failed))

    assert running.exits == [1]
    assert running.said("critical") == [
        "a cannot start: [Errno 28] No space left on device"
    ]


def test_a_part_that_dies_later_exits_1(run: Callable[..., Running]) -> None:
    events: list[str] = []
    part = ScriptedPart("a", events)
    running = run(events, part)
    assert part.died is not None

    part.died("the device's thread has ended")

    assert events[-1] == "stopped a"
    assert running.exits == [1]
    assert running.said("critical") == ["cannot go on: the device's thread has ended"]


def test_a_stop_during_the_start_does_not_wait_for_it(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    running = run(events, ScriptedPart("a", events, starts=Deferred()))

    signal.raise_signal(signal.SIGTERM)

    assert events == ["start a", "stop a", "stopped a"]
    assert running.exits == [0]


def test_a_stop_that_hangs_is_given_up_with_1(run: Callable[..., Running]) -> None:
    events: list[str] = []
    running = run(events, ScriptedPart("a", events, stops=Deferred()))
    signal.raise_signal(signal.SIGTERM)

    running.reactor.advance(39.9)
    assert running.exits == []
    running.reactor.advance(0.2)

    assert running.exits == [1]
    assert running.said("critical") == ["no stop in 40.0 s: giving up"]


def test_a_second_signal_leaves_at_once(run: Callable[..., Running]) -> None:
    events: list[str] = []
    running = run(events, ScriptedPart("a", events, stops=Deferred()))

    signal.raise_signal(signal.SIGTERM)
    assert running.exits == []
    signal.raise_signal(signal.SIGINT)

    assert running.exits == [0]


def test_a_signal_while_a_failure_is_cleared_up_leaves_with_1(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    part = ScriptedPart("a", events, stops=Deferred())
    running = run(events, part)
    assert part.died is not None

    part.died("the device's thread has ended")
    assert running.exits == []
    signal.raise_signal(signal.SIGTERM)

    assert running.exits == [1]


def test_a_part_that_stops_badly_does_not_keep_the_others(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    bad: Deferred[None] = Deferred()
    bad.errback(RuntimeError("no"))
    running = run(
        events, ScriptedPart("a", events), ScriptedPart("b", events, stops=bad)
    )

    signal.raise_signal(signal.SIGTERM)

    assert events[-2:] == ["stop a", "stopped a"]
    assert running.exits == [1]


# --- SIGHUP ---------------------------------------------------------------------------


def test_sighup_reads_every_file_then_reloads_in_order(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    running = run(events, ScriptedPart("a", events), ScriptedPart("b", events))
    del events[:]

    signal.raise_signal(signal.SIGHUP)

    assert events == [
        *("read a", "read b", "reload a", "reload b"),
        *("reloaded a", "reloaded b"),
    ]
    assert running.said("error") == []


def test_a_file_that_cannot_be_taken_changes_nothing(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    part = ScriptedPart("b", events)
    running = run(events, ScriptedPart("a", events), part)
    del events[:]

    part.unreadable = ConfigErrors(
        (ConfigError("x", "is bad"), ConfigError("y", "too"))
    )
    signal.raise_signal(signal.SIGHUP)

    reasons = "x: is bad y: too"
    assert events == [
        "read a",
        "read b",
        f"reloaded a {reasons}",
        f"reloaded b {reasons}",
    ]
    assert running.said("error") == [
        "b goes on as before: x: is bad",
        "b goes on as before: y: too",
    ]

    del events[:]
    part.unreadable = None
    signal.raise_signal(signal.SIGHUP)
    assert events[2:4] == ["reload a", "reload b"]


def test_what_a_part_refuses_the_next_ones_do_not_take(
    run: Callable[..., Running],
) -> None:
    # http.md §10: a refused table keeps both old.
    events: list[str] = []
    refuses: Deferred[None] = Deferred()
    part = ScriptedPart("a", events, reloads=refuses)
    running = run(events, part, ScriptedPart("b", events))
    del events[:]

    signal.raise_signal(signal.SIGHUP)
    refuses.errback(OSError(28, "No space left on device"))

    reason = "[Errno 28] No space left on device"
    assert events[2:] == ["reload a", f"reloaded a {reason}", f"reloaded b {reason}"]
    assert running.said("error") == [f"a goes on as before: {reason}"]
    assert running.exits == []


def test_what_happens_late_is_followed_by_the_rest(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    refuses: Deferred[None] = Deferred()
    part = ScriptedPart("a", events, reloads=refuses)
    run(events, part, ScriptedPart("b", events))
    signal.raise_signal(signal.SIGHUP)
    refuses.errback(OSError(110, "late"))
    del events[:]

    part.reloads = None
    assert part.late is not None
    part.late()

    assert events == [
        *("read a", "read b", "reload a", "reload b"),
        *("reloaded a", "reloaded b"),
    ]


def test_any_number_of_sighups_during_a_reload_are_one_more(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    first: Deferred[None] = Deferred()
    part = ScriptedPart("a", events, reloads=first)
    run(events, part)
    del events[:]
    for _ in range(3):
        signal.raise_signal(signal.SIGHUP)
    assert events == ["read a", "reload a"]

    part.reloads = None
    first.callback(None)

    assert events == ["read a", "reload a", "reloaded a"] * 2


def test_sighup_during_the_start_reloads_after_it(run: Callable[..., Running]) -> None:
    events: list[str] = []
    starts: Deferred[None] = Deferred()
    run(events, ScriptedPart("a", events, starts=starts))
    signal.raise_signal(signal.SIGHUP)
    assert events == ["start a"]

    starts.callback(None)

    assert events[1:] == ["started a", "read a", "reload a", "reloaded a"]


def test_a_stop_breaks_off_a_reload_without_a_word(run: Callable[..., Running]) -> None:
    events: list[str] = []
    broken: Deferred[None] = Deferred()
    running = run(events, ScriptedPart("a", events, reloads=broken))
    signal.raise_signal(signal.SIGHUP)

    signal.raise_signal(signal.SIGTERM)
    broken.errback(ServiceClosed())
    signal.raise_signal(signal.SIGHUP)

    assert events.count("reload a") == 1
    assert running.said("error") == []
    assert running.exits == []


def test_a_fault_of_ours_in_a_reload_is_logged_whole(
    run: Callable[..., Running],
) -> None:
    events: list[str] = []
    broken: Deferred[None] = Deferred()
    broken.errback(ZeroDivisionError("oops"))
    running = run(events, ScriptedPart("a", events, reloads=broken))

    signal.raise_signal(signal.SIGHUP)

    assert running.said("error") == ["a goes on as before: oops"]
    (told,) = running.said("critical")
    assert told.startswith("the reload failed in an unexpected way")
