"""
pytest-twisted's decorators, with types: it ships none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import pytest_twisted
from twisted.internet.defer import Deferred

P = ParamSpec("P")
T = TypeVar("T")


def asynchronous(
    function: Callable[P, Coroutine[Deferred[Any], Any, None]],
) -> Callable[P, Deferred[None]]:
    """
    A test that is a coroutine.
    """
    decorated: Callable[P, Deferred[None]] = pytest_twisted.ensureDeferred(function)
    return decorated


def asynchronous_fixture(
    function: Callable[P, AsyncIterator[T]],
) -> Callable[P, T]:
    """
    A fixture that is an asynchronous generator: what follows its `yield` tears down.
    """
    decorated: Callable[P, T] = pytest_twisted.async_yield_fixture(function)
    return decorated
