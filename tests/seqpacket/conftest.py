"""
The worlds that the suite runs in: what passes in both proves the fake.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.seqpacket.stage import Stage
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
def stage(world: World) -> Stage:
    return Stage(world)
