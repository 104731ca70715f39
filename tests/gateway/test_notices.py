"""
Waiting by progress notices: what is asked when, and what is not.
"""

from __future__ import annotations

import pytest

from tests.clocks import standing_clock
from tests.gateway.watching import CALLER, HANDLE, Watching
from twisted_aotx.devices import Progress
from twisted_aotx.gateway.pace import READS_AT_ONCE, READS_PER_SECOND, Pace
from twisted_aotx.limits import WATCH_CHECK_SECONDS
from twisted_aotx.wire.numbers import Phase


def test_with_notices_nothing_is_asked_while_nothing_happens() -> None:
    """
    http.md §7: by progress notices where the runtime offers them. The watch is new to
    the runtime once, and looked after once a second.
    """
    watching = Watching(watched=True)

    watching.start()
    assert watching.read_at == [0, 0]
    watching.until(WATCH_CHECK_SECONDS - 0.01)
    assert watching.read_at == [0, 0]

    watching.until(3.5)
    assert watching.read_at == pytest.approx([0, 0, 1, 2, 3], abs=0.01)
    assert len(watching.windows) == 1


def test_a_notice_is_followed_by_a_read_at_once() -> None:
    watching = Watching(watched=True)
    watching.start()
    watching.until(0.2)

    for word in (b"one", b"two", b"three"):
        watching.request.say(word)
        watching.tell()
    watching.request.complete()
    watching.tell()

    assert watching.data == b"onetwothree"
    assert len(watching.windows) == 5
    assert watching.windows[-1][0] == pytest.approx(0.2)
    assert len(watching.read_at) == 6


def test_a_lost_notice_hangs_nobody() -> None:
    watching = Watching(watched=True)
    watching.start()
    watching.until(0.2)

    watching.request.complete(b"all")
    watching.until(1.1)

    assert watching.data == b"all"


def test_a_runtime_that_tells_for_nothing_is_not_asked_without_a_pause() -> None:
    """What is told is further each time, and not true."""
    watching = Watching(watched=True)
    watching.start()
    watching.until(0.2)
    before = len(watching.read_at)

    for total in range(1, 100):
        watching.progress.told.append(
            Progress(CALLER.principal, HANDLE.id, total, Phase.RUNNING)
        )
        watching.watches.progress_published()
        watching.until(0.2 + total * 0.002)

    assert len(watching.read_at) - before < 10


def test_the_pace_of_reads_is_that_of_all_requests_together() -> None:
    """So many at once, and then one after the other."""
    clock = standing_clock()
    pace = Pace(clock)
    each = 1 / READS_PER_SECOND

    at_once = [pace.delay() for _ in range(READS_AT_ONCE)]
    assert at_once == pytest.approx([0] * READS_AT_ONCE, abs=1e-9)
    assert pace.delay() == pytest.approx(each)
    assert pace.delay() == pytest.approx(2 * each)

    clock.advance(3 * each)
    assert pace.delay() == pytest.approx(0, abs=1e-9)
    clock.advance(100)
    at_once = [pace.delay() for _ in range(READS_AT_ONCE)]
    assert at_once == pytest.approx([0] * READS_AT_ONCE, abs=1e-9)
    assert pace.delay() == pytest.approx(each)


def test_a_notice_beyond_the_pace_waits_for_its_turn() -> None:
    watching = Watching(watched=True)
    watching.start()
    watching.until(0.2)
    for _ in range(READS_AT_ONCE + 3):
        watching.gateway.pace.delay()

    watching.request.say(b"one")
    watching.tell()
    watching.request.say(b"two")
    assert watching.data == b""
    watching.until(0.21)

    assert watching.data == b"onetwo"
    assert len(watching.windows) == 2


def test_watches_that_end_are_followed_by_intervals() -> None:
    watching = Watching(watched=True)
    watching.start()
    watching.until(0.2)

    watching.watches.stop()
    watching.until(0.3)

    assert len(watching.read_at) > 4
