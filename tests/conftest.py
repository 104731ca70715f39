"""
What holds for every test: order, Hypothesis profiles.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.pems import make_pems

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


@pytest.fixture(scope="session")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a.pem`, `a.key`, `b.pem` and `b.key`."""
    folder = tmp_path_factory.mktemp("pems")
    make_pems(folder, "ab")
    return folder


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


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """
    Let a Hypothesis test be parametrized: pytest-twisted 1.14 wraps the function anew
    for each of its cases, around the wrapper of the case before.
    """
    handle = getattr(pyfuncitem.obj, "hypothesis", None)
    if handle is None:
        return (yield)
    inner = handle.inner_test
    try:
        return (yield)
    finally:
        handle.inner_test = inner
