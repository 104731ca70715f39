"""
Watches in memory and on real sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watch.bench import Bench
from twisted_aotx.testing import KernelWorld, MemoryWorld, World


@pytest.fixture(params=["memory", "kernel"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = MemoryWorld() if request.param == "memory" else KernelWorld(tmp_path)
    yield made
    made.close()


@pytest.fixture
def bench(world: World) -> Bench:
    """Listening."""
    made = Bench(world)
    made.service.start()
    return made
