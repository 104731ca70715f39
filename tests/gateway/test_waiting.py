"""
Waiting for news, time and clients, on a clock that stands still between steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from tests.clocks import standing_clock
from tests.gateway.device_script import EPOCH, Running
from tests.gateway.watching import Watching
from twisted_aotx.errors import DeviceRefused, InvalidReply
from twisted_aotx.gateway.waiting import ClientLeft, TimeUp, within
from twisted_aotx.testing.peer import reply_to
from twisted_aotx.wire.numbers import Operation, Phase


def test_reads_at_once_then_backs_off_to_50_ms() -> None:
    """http.md §7: READ every 5 ms after activity, backing off to 50 ms."""
    watching = Watching()

    watching.start()
    watching.until(0.26)

    gaps = [b - a for a, b in zip(watching.read_at, watching.read_at[1:], strict=False)]
    expected = [0.005, 0.01, 0.02, 0.04, 0.05, 0.05, 0.05]
    assert watching.read_at[0] == 0
    assert gaps[:7] == pytest.approx(expected, abs=0.0011)
    assert len(watching.windows) == 1


def test_news_bring_the_short_pause_back() -> None:
    watching = Watching()
    watching.start()
    watching.until(0.2)

    watching.request.say(b"news")
    watching.until(0.26)
    told_at = watching.windows[1][0]
    following = [at for at in watching.read_at if at > told_at]

    assert watching.windows[1][1].data == b"news"
    assert following[0] - told_at == pytest.approx(0.005, abs=0.0011)


def test_a_consumer_that_is_busy_has_nothing_read_ahead() -> None:
    watching = Watching()
    watching.held = Deferred()
    watching.start()
    watching.request.say(b"x" * 200_000)

    watching.until(5)
    assert len(watching.read_at) == 1

    held, watching.held = watching.held, None
    held.callback(None)
    watching.until(5.01)
    assert watching.data == b"x" * 200_000


def test_a_backlog_is_read_without_pauses_and_the_end_comes_last() -> None:
    """cases D 65: the terminal phase is seen with bytes unread; reading goes on."""
    watching = Watching()
    watching.request.complete(b"y" * 150_000)

    done = watching.start(cursor=10)

    assert done.called
    assert watching.seconds == 0
    assert [len(window.data) for _, window in watching.windows] == [
        65408,
        65408,
        150_000 - 10 - 2 * 65408,
    ]


@pytest.mark.parametrize("total", [0, 1, 65408, 65409])
@pytest.mark.parametrize("cursor_back", [0, 1])
def test_an_ended_request_gives_its_rest_once(total: int, cursor_back: int) -> None:
    watching = Watching()
    watching.request.complete(b"z" * total)
    cursor = max(total - cursor_back, 0)

    done = watching.start(cursor)

    assert done.called
    assert watching.data == b"z" * (total - cursor)
    assert watching.windows[-1][1].reply.phase == Phase.COMPLETED
    assert len(watching.windows) == 1


def _set(name: str, value: int) -> Callable[[Running], None]:
    return lambda request: setattr(request, name, value)


@pytest.mark.parametrize(
    "change",
    [
        _set("phase", Phase.PREPARING),
        _set("cancel", 1),
        _set("status", 409),
        lambda request: request.say(b"a"),
    ],
)
def test_each_change_is_news(change: Callable[[Running], None]) -> None:
    watching = Watching()
    watching.start()

    change(watching.request)
    watching.until(0.1)

    assert len(watching.windows) == 2


def test_a_refused_read_ends_the_watch() -> None:
    watching = Watching()
    done = watching.start(cursor=1)
    caught: list[Any] = []
    done.addErrback(lambda failure: caught.append(failure.value))

    assert isinstance(caught[0], DeviceRefused)
    assert caught[0].status == 409


def test_a_device_that_keeps_bytes_back_is_no_device() -> None:
    """A window must make progress: else one request would read for ever."""
    watching = Watching()
    watching.device.before = lambda request: reply_to(
        request, 200, epoch=EPOCH, phase=3, total_bytes=9
    )
    caught: list[Any] = []
    watching.start().addErrback(lambda failure: caught.append(failure.value))

    assert isinstance(caught[0], InvalidReply)
    assert watching.device.count(Operation.READ) == 1


class Work:
    """Work that takes *seconds* of a clock, and what became of it."""

    def __init__(self, seconds: float) -> None:
        self.clock = standing_clock()
        self.left: Deferred[None] = Deferred()
        self.seconds = seconds
        self.ended: list[str] = []

    async def work(self) -> str:
        try:
            await deferLater(self.clock, self.seconds)
        except CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        return "result"

    def within(self, seconds: float) -> Deferred[Any]:
        waiting = within(self.work(), clock=self.clock, seconds=seconds, left=self.left)
        # An exception becomes the result, so that it can be looked at.
        return Deferred.fromCoroutine(waiting).addErrback(lambda failure: failure.value)


def result_of(done: Deferred[Any]) -> Any:
    seen: list[Any] = []
    done.addCallback(seen.append)
    return seen[0]


def test_work_within_its_time() -> None:
    work = Work(1)
    done = work.within(2)
    work.clock.advance(1)

    assert result_of(done) == "result"
    assert work.clock.getDelayedCalls() == []


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0])
def test_work_that_takes_longer_is_stopped(seconds: float) -> None:
    work = Work(1.5)
    done = work.within(seconds)
    work.clock.advance(seconds)

    assert isinstance(result_of(done), TimeUp)
    assert work.ended == ["cancelled"]
    assert work.clock.getDelayedCalls() == []


def test_a_client_that_leaves_stops_the_work() -> None:
    work = Work(1)
    done = work.within(2)
    work.left.callback(None)
    work.clock.advance(0)

    assert isinstance(result_of(done), ClientLeft)
    assert work.ended == ["cancelled"]
    assert work.clock.getDelayedCalls() == []


def test_the_client_left_before() -> None:
    work = Work(1)
    work.left.callback(None)
    done = work.within(2)
    work.clock.advance(0)

    assert isinstance(result_of(done), ClientLeft)


def test_a_client_that_leaves_after_the_work_is_nothing() -> None:
    work = Work(1)
    done = work.within(2)
    work.clock.advance(1)
    work.left.callback(None)
    work.clock.advance(5)

    assert result_of(done) == "result"


def test_the_end_and_the_client_at_once() -> None:
    """
    Whichever is first in the turn, there is one outcome and nothing is left over.
    """
    finished_first = Work(1)
    done = finished_first.within(2)
    finished_first.clock.callLater(1, finished_first.left.callback, None)
    finished_first.clock.advance(1)
    left_first = Work(1)
    left_first.clock.callLater(1, left_first.left.callback, None)
    done_too = left_first.within(2)
    left_first.clock.advance(1)
    left_first.clock.advance(0)

    assert result_of(done) == "result"
    assert result_of(done_too) == "result"
    assert finished_first.clock.getDelayedCalls() == []
    assert left_first.clock.getDelayedCalls() == []


def test_time_and_the_client_at_once() -> None:
    work = Work(3)
    work.clock.callLater(2, work.left.callback, None)
    done = work.within(2)
    work.clock.advance(2)
    work.clock.advance(0)

    assert isinstance(result_of(done), ClientLeft)
    assert work.ended == ["cancelled"]


def test_work_may_make_the_client_leave_itself() -> None:
    """A write can find the connection gone, in the midst of the work."""
    clock = standing_clock()
    left: Deferred[None] = Deferred()

    async def work() -> None:
        left.callback(None)
        await deferLater(clock, 9)

    done = Deferred.fromCoroutine(
        within(work(), clock=clock, seconds=99, left=left)
    ).addErrback(lambda failure: failure.value)
    clock.advance(0)

    assert isinstance(result_of(done), ClientLeft)


def test_who_cancels_from_outside_gets_that() -> None:
    work = Work(1)
    done = work.within(2)
    done.cancel()

    assert isinstance(result_of(done), CancelledError)
    assert work.ended == ["cancelled"]
    assert work.clock.getDelayedCalls() == []


def test_the_work_s_own_error_comes_through() -> None:
    clock = standing_clock()

    async def work() -> None:
        await deferLater(clock, 1)
        raise LookupError

    done = Deferred.fromCoroutine(within(work(), clock=clock, seconds=2)).addErrback(
        lambda failure: failure.value
    )
    clock.advance(1)

    assert isinstance(result_of(done), LookupError)
