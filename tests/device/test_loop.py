"""
The device's thread: it ticks when it is rung or something is due, and else it sleeps.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import DONE, EMIT, OPENED, grant
from tests.device.scenario.player import FIXED, RATE, make_device
from tests.device.target import SIMULATOR
from twisted_aotx.device.host import Device
from twisted_aotx.limits import HEARTBEAT_NS
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.numbers import Operation, Phase

ROUND_TRIPS = 20_000
EMISSIONS = 2_000
#: Seconds that anything may take on a loaded machine.
PATIENCE = 30.0
HEARTBEAT_SECONDS = HEARTBEAT_NS / 1e9


def wait_for(doorbell: int, seconds: float = PATIENCE) -> bool:
    """Wait until *doorbell* rings, and take its counter."""
    if not select.select([doorbell], [], [], seconds)[0]:
        return False
    os.eventfd_read(doorbell)
    return True


class Running(Driver):
    """
    Drives a device whose own thread ticks.
    """

    device: Device

    def step(self, ns: int = 1) -> None:
        """Wait until replies were published."""
        assert wait_for(self.device.broker_doorbell), "nobody answered"

    def ticks(self) -> int:
        """The tick counter, by METRICS: two ticks of its own at most."""
        reply, data = self.send(self.header(Operation.METRICS))
        assert reply.status == 200
        return Information.unpack(data).tick

    def wait_for_order(self) -> OpenOrder:
        while not (orders := self.opens()):
            assert wait_for(self.device.engine_doorbell), "no order"
        return orders[0]


@pytest.fixture
def running() -> Iterator[Running]:
    device = make_device(SMALL)
    device.warm_up()
    thread = threading.Thread(target=device.run, daemon=True)
    thread.start()
    driver = Running(device, SMALL)
    rows = grant(actions=9, models=0b11100, tokens=8191, requests=8)
    assert driver.install(rows) == 200
    yield driver
    device.close()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the loop goes on after close()"
    device.free()


def test_answers(running: Running) -> None:
    """A publish wakes the loop, a reply rings the broker (`device.md` §1)."""
    assert running.info().slots == SMALL.slots
    assert not wait_for(running.device.broker_doorbell, 0)


def test_orders_ring_the_engines(running: Running) -> None:
    assert running.submit(1) == 202
    order = running.wait_for_order()
    assert order.rendered == b"PUhellouG()"
    running.play(order, [b"done"])
    running.device.ring()
    deadline = time.monotonic() + PATIENCE
    while running.phase(1) != Phase.COMPLETED:
        assert time.monotonic() < deadline
    assert running.read(1)[1] == b"done"


def test_sleeps_when_idle(running: Running) -> None:
    """
    No work, no ticks but the heartbeat's: four a second (`wire.md` §13).

    Counted, not timed: what a tick costs is the benchmarks' business.
    """
    start, before = time.monotonic(), running.ticks()
    time.sleep(2)
    count = running.ticks() - before
    elapsed = time.monotonic() - start
    assert count - 2 <= 5 * elapsed
    assert count >= 4, "the heart stands still"


def test_a_rate_wakes_the_loop(running: Running) -> None:
    """Tokens that are due later make ticks of their own, without a doorbell."""
    before = running.ticks()
    assert running.submit(1, role=FIXED, limit=14) == 202
    time.sleep(14 / RATE + 2 * HEARTBEAT_SECONDS)
    assert running.ticks() - before >= 8
    reply, data = running.read(1)
    assert (reply.phase, data) == (Phase.COMPLETED, b"\x00fixed \xff outpu")


def test_no_wake_up_is_lost(running: Running) -> None:
    """
    A lost one would be made good by the heartbeat alone, so nothing may take that long;
    a loaded machine is forgiven a few.
    """
    late = 0
    header = running.header(Operation.INFO)
    for _ in range(ROUND_TRIPS):
        start = time.monotonic()
        assert running.send(header)[0].status == 200
        late += time.monotonic() - start >= 0.9 * HEARTBEAT_SECONDS
    assert late <= 5


def test_reports_while_it_ticks(running: Running) -> None:
    """A thread reports as fast as there is room; nothing is lost or out of order."""
    assert running.submit(1, limit=EMISSIONS) == 202
    order = running.wait_for_order()
    device, sent = running.device, bytearray()

    def report(kind: int, value: int, data: bytes = b"") -> None:
        while not device.report(order.slot, order.generation, kind, value, data):
            assert wait_for(device.engine_doorbell), "no room was made"

    def serve() -> None:
        report(OPENED, 5)
        for n in range(EMISSIONS):
            data = b"%d " % (n % 1000)
            sent.extend(data)
            report(EMIT, 1, data)
        report(DONE, 2)
        device.ring()

    engine = threading.Thread(target=serve, daemon=True)
    engine.start()
    deadline = time.monotonic() + PATIENCE
    while running.phase(1) in (Phase.PREPARING, Phase.RUNNING):
        assert time.monotonic() < deadline
    engine.join(PATIENCE)
    reply, data = running.read(1)
    assert (reply.phase, reply.sampled_tokens) == (Phase.COMPLETED, EMISSIONS)
    assert data == bytes(sent)


@pytest.mark.simulator
def test_loop_of_the_cuda_backend() -> None:
    """The loop that launches kernels, in the simulator, answers and ends as well."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.device.simulated_loop"],
        env={**os.environ, **SIMULATOR},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr


def test_close_needs_no_frame() -> None:
    """A loop that nobody ever rang ends at once, and closing twice is no error."""
    device = make_device(SMALL)
    device.warm_up()
    thread = threading.Thread(target=device.run, daemon=True)
    thread.start()
    device.close()
    device.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    device.free()
