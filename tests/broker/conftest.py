"""
A broker over mailboxes that the test answers, in memory and on real sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.bench import Bench
from twisted_aotx.testing import KernelWorld, MemoryWorld, World


@pytest.fixture(params=["memory", "kernel"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = MemoryWorld() if request.param == "memory" else KernelWorld(tmp_path)
    yield made
    made.close()


@pytest.fixture
def memory() -> MemoryWorld:
    return MemoryWorld()


@pytest.fixture
def bench(world: World, tmp_path: Path) -> Bench:
    return Bench(world, tmp_path)


@pytest.fixture
def serving(bench: Bench) -> Bench:
    bench.start()
    return bench


@pytest.fixture
def timed(memory: MemoryWorld, tmp_path: Path) -> Bench:
    """A serving broker whose time the test sets."""
    bench = Bench(memory, tmp_path)
    bench.start()
    return bench
