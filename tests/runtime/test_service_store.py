"""
The runtime's state store and media worker, from its start to its stop (D11, D12).
"""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from twisted.logger import LogLevel

from tests.journal.records import Pool, batch, control, row
from tests.media_made import make_jpeg
from tests.runtime.doubles import (
    new_store,
)
from tests.runtime.running import Lines, Runtime
from twisted_aotx.errors import ConfigError
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.service import (
    FLUSH_LOOK_SECONDS,
    FLUSH_SECONDS,
    STORE_SECONDS,
)
from twisted_aotx.wire.numbers import MediaStatus, PolicyState

# --- the state store ------------------------------------------------------------------


def test_what_the_store_keeps_is_there_before_the_device_runs() -> None:
    runtime = Runtime()
    runtime.store.save(control(3, paused=True), Pool().read)
    policy = runtime.store.policy()
    seen: list[list[Any]] = []
    run = runtime.device.run

    def running() -> None:
        seen.append(list(runtime.device.restored))
        run()

    runtime.device.run = running  # type: ignore[method-assign]
    runtime.run()

    assert seen == [[policy]]
    runtime.stop()


def test_a_store_that_cannot_be_restored_ends_the_start() -> None:
    runtime = Runtime()
    pool = Pool()
    runtime.store.save(pool.source(b"abc"), pool.read)
    runtime.device.restore_status = int(MediaStatus.PRESSURE)
    runtime.start()
    runtime.reactor.until(lambda: runtime.started)

    assert runtime.started[0].check(ConfigError)
    assert "run" not in runtime.device.log
    assert runtime.device.is_freed


def test_records_reach_the_store_and_their_results_the_device(runtime: Runtime) -> None:
    runtime.run()
    runtime.device.record(control(3))
    runtime.reactor.until(lambda: runtime.device.results)

    assert runtime.device.results == [True]
    state = runtime.service.state()
    assert state is not None
    assert (state.saving.saved, state.saving.failed) == (1, 0)


def test_a_stop_has_usage_written_and_saves_what_the_device_has_published() -> None:
    """D11: an orderly stop writes out what waits, before the device is closed."""
    runtime = Runtime()
    device = runtime.device
    device.usage_pending = 3

    def commit() -> None:
        device.record(batch(1, row()))

    device.on_flush = commit
    close = device.close

    def closing() -> None:
        # Published by the last tick: nobody will read its result.
        device.record(control(5))
        close()

    device.close = closing  # type: ignore[method-assign]
    runtime.run()
    runtime.service.stop().addBoth(runtime.stopped.append)
    runtime.reactor.until(lambda: device.results == [True])
    assert "close" not in device.log
    device.usage_pending = 0
    runtime.reactor.advance(FLUSH_LOOK_SECONDS)
    runtime.reactor.until(lambda: runtime.stopped)

    assert device.log.index("flush") < device.log.index("close")
    with new_store(runtime.store.path.parent) as again:
        policy = again.policy()
    assert policy is not None
    assert (policy.control, policy.ledger) == (control(5), (row(),))


def test_usage_that_is_never_written_holds_the_stop_for_a_while_only(
    runtime: Runtime, lines: Lines
) -> None:
    runtime.run()
    runtime.device.usage_pending = 3
    runtime.service.stop().addBoth(runtime.stopped.append)
    runtime.reactor.pump([FLUSH_LOOK_SECONDS] * int(FLUSH_SECONDS / FLUSH_LOOK_SECONDS))
    runtime.reactor.advance(FLUSH_LOOK_SECONDS)
    runtime.reactor.until(lambda: runtime.stopped)

    errors = [text for level, text in lines() if level == "error"]
    assert errors == ["usage records were not written within the time they have"]


@pytest.mark.parametrize("trouble", ["held", "error"])
def test_usage_that_cannot_be_written_is_not_waited_for(
    runtime: Runtime, trouble: str
) -> None:
    runtime.run()
    runtime.device.usage_pending = 3
    if trouble == "held":
        runtime.device.held = True
    else:
        runtime.device.policy_state = int(PolicyState.ERROR)
    runtime.stop()

    assert runtime.device.log[-3:] == ["close", "run ended", "free"]


def test_a_store_that_hangs_is_given_up(runtime: Runtime, lines: Lines) -> None:
    """After STORE_SECONDS the stop goes on; the doorbells stay open under it."""
    may_save = threading.Event()
    runtime.run()

    def slowly(*_: object) -> bytes:
        may_save.wait(20)
        return b"abc"

    runtime.device.record_bytes = slowly  # type: ignore[assignment]
    runtime.device.record(Pool().source(b"abc"))
    runtime.service.stop().addBoth(runtime.stopped.append)
    runtime.reactor.until(lambda: "run ended" in runtime.device.log)
    runtime.reactor.settle()
    runtime.reactor.advance(STORE_SECONDS)
    runtime.reactor.until(lambda: runtime.stopped)

    assert not runtime.device.is_freed
    errors = [text for level, text in lines() if level == "error"]
    assert errors == ["the state store did not close within 5 s"]
    may_save.set()
    runtime.reactor.until(lambda: runtime.device.results)
    runtime.device.free()


def test_a_store_thread_that_dies_stops_the_reactor(lines: Lines) -> None:
    runtime = Runtime()
    runtime.run()

    def fail() -> None:
        raise ValueError("boom")

    runtime.device.records = fail  # type: ignore[method-assign, assignment]
    os.eventfd_write(runtime.device.store_doorbell, 1)
    runtime.reactor.until(lambda: runtime.reactor.stops)

    deaths = [text for level, text in lines() if level == LogLevel.critical.name]
    assert deaths == ["the store's thread has died: boom"]
    runtime.stop()


# --- the media worker -----------------------------------------------------------------


def test_an_image_is_decoded_and_the_device_hears_of_it(runtime: Runtime) -> None:
    image = make_jpeg(24, 16)
    runtime.device.pool = image
    runtime.run()
    runtime.device.decode(
        MediaJob(
            worker=0,
            index=1,
            generation=1,
            offset=0,
            size=len(image),
            width=24,
            height=16,
        )
    )
    runtime.reactor.until(lambda: runtime.device.decoded)

    assert runtime.device.decoded == [(0, True)]


def test_no_image_thread_outlives_the_service() -> None:
    runtime = Runtime()
    runtime.device.pool = b"x"
    runtime.run()
    job = MediaJob(
        worker=0, index=1, generation=1, offset=0, size=1, width=24, height=16
    )
    runtime.device.decode(job)
    runtime.reactor.until(lambda: runtime.device.decoded)
    names = [thread.name for thread in threading.enumerate()]
    assert "aotx-image-0" in names

    runtime.stop()

    runtime.reactor.until(
        lambda: "aotx-image-0" not in {each.name for each in threading.enumerate()}
    )
