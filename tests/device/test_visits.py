"""
The cost of a tick follows the work present, never the capacities [D6]: lines of kernels
that run, counted in plain Python, are the same for 16 and for 1,024 of everything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.device.driver import Driver
from tests.device.making import (
    P2,
    grant,
    new_device,
    played_engine,
)
from tests.device.visits import count_lines
from twisted_aotx.limits import Capacities

FEW, MANY = 16, 1024
ACTIONS = ("idle tick", "READ", "SUBMIT", "CANCEL")


def visits(size: int) -> dict[str, list[tuple[str, int, int]]]:
    """Action → (module, line, times) for a device with *size* of everything."""
    capacities = Capacities(
        slots=size,
        requests=size,
        channels=size,
        # 1,022 is the most that the contract allows.
        principals=min(size, 1022),
        prompt_bytes=256,
        output_bytes=256,
    )
    engine = played_engine(capacity=2, sequence_tokens=8192)
    device = new_device(capacities, [engine], "cpu")
    driver = Driver(device, capacities)
    driver.install(grant(requests=8), grant(P2))
    for number in range(1, 5):
        driver.submit(number)
    done, running = driver.opens()
    driver.play(done, [b"some", b"output"])
    driver.open_one(running)
    driver.step()
    found = {}
    actions: tuple[Callable[[], object], ...] = (
        lambda: device.tick(driver.now + 1),
        lambda: driver.read(1),
        lambda: driver.submit(5),
        lambda: driver.cancel(2),
    )
    for name, act in zip(ACTIONS, actions, strict=True):
        with count_lines() as counted:
            act()
        found[name] = [(*line, times) for line, times in counted.counts.items()]
    return found


def _in_plain_python(size: int) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(size)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def counted() -> dict[int, Any]:
    return {size: _in_plain_python(size) for size in (FEW, MANY)}


@pytest.mark.parametrize("action", ACTIONS)
def test_visits_do_not_grow(counted: dict[int, Any], action: str) -> None:
    few, many = (
        Counter(
            {(module, line): times for module, line, times in counted[size][action]}
        )
        for size in (FEW, MANY)
    )
    assert few.total() > 50
    assert many - few == Counter()
    assert few - many == Counter()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(visits(int(sys.argv[1]))))
