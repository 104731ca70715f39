"""
Every case of this folder runs twice: on the oracle alone, and on the compiled device
with the oracle beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.device.capacities import SMALL
from tests.device.cases.starting import Start, start_device
from tests.device.driver import Driver
from tests.device.stepped import HasFacts
from twisted_aotx.limits import Capacities


@pytest.fixture(params=["oracle", "compiled"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    kind: str = request.param
    started: list[Driver] = []

    def make(
        capacities: Capacities = SMALL, *, engines: Sequence[HasFacts] | None = None
    ) -> Driver:
        started.append(start_device(kind, capacities, engines))
        return started[-1]

    yield make
    for driver in started:
        driver.device.close()
        driver.device.free()
