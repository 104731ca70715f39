"""
`tap.Daemon` alone: order of starts and stops, failures, signals, exit codes.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from twisted_aotx.errors import ConfigError, ConfigErrors
from twisted_aotx.tap import Daemon


@attrs.define(eq=False)
class ScriptedPart:
    """
    Notes what happens to it; starts and stops when its Deferreds fire.
    """

    name: str
    events: list[str]
    starts: Deferred[None] | None = None
    stops: Deferred[None] | None = None
    died: Callable[[str], None] | None = None

    async def start(self, died: Callable[[str], None]) -> None:
        self.events.append(f"start {self.name}")
        self.died = died
        if self.starts is not None:
            await self.starts
        self.events.append(f"started {self.name}")

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
        daemon = Daemon(reactor, parts, 40.0, exit=exits.append)
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


def test_sighup_is_ignored_with_a_line(run: Callable[..., Running]) -> None:
    events: list[str] = []
    running = run(events, ScriptedPart("a", events))

    signal.raise_signal(signal.SIGHUP)

    assert events == ["start a", "started a"]
    assert running.said("info") == ["SIGHUP is ignored: this version reloads nothing"]
