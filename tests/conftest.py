"""
What holds for every test: order, Hypothesis profiles.
"""

from __future__ import annotations

import os
import unittest

import pytest
from hypothesis import HealthCheck, settings

# Times vary with the load of the machine, so no example has a deadline.
_SLOW = [HealthCheck.too_slow]
settings.register_profile(
    "dev", max_examples=25, deadline=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "ci", max_examples=200, deadline=None, suppress_health_check=_SLOW, derandomize=True
)
settings.register_profile(
    "soak", max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("AOTX_HYPOTHESIS", "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Run classes of trial first: once pytest-twisted has started the reactor, a TestCase
    that returns a Deferred cannot run it again.
    """
    items.sort(
        key=lambda item: (
            not isinstance(item, pytest.Function)
            or item.cls is None
            or not issubclass(item.cls, unittest.TestCase)
        )
    )
