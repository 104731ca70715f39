"""
A service to start, a device and its engine, and what is logged meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.runtime.bridges import Bridged, joined
from tests.runtime.doubles import ListedEngine
from tests.runtime.running import Lines, Runtime


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    made = Runtime()
    yield made
    made.device.may_warm_up.set()
    made.stop()


@pytest.fixture
def world() -> Iterator[Bridged]:
    """A device and one engine, joined."""
    made = joined(ListedEngine())
    yield made
    made.device.free()


@pytest.fixture
def lines() -> Iterator[Lines]:
    """(level, text) of what is logged."""
    with capturedLogs() as events:
        yield lambda: [
            (event["log_level"].name, formatEvent(event)) for event in events
        ]
