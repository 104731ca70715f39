"""
Gateways for tests: `gateway` is a plain one, `serve` makes others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.asynchronous import asynchronous_fixture
from tests.gateway.device_script import DeviceScript
from tests.gateway.feeds import eventually
from tests.gateway.origins import HOST, Listen, Origin
from tests.gateway.serving import Serving
from tests.pems import make_pems

Serve = Callable[..., Awaitable[Serving]]


@pytest.fixture(autouse=True)
def servings() -> Iterator[list[Serving]]:
    """
    The gateways of a test. None of them keeps anything once its clients are gone: every
    budget is back at zero, on whatever path its calls ended (`http.md` §3).
    """
    made: list[Serving] = []
    yield made
    for serving in made:
        assert set(serving.gateway.budgets.held().values()) == {0}
        assert len(serving.site.connections) == 0


@asynchronous_fixture
async def serve(servings: list[Serving]) -> AsyncIterator[Serve]:
    """
    `await serve(**settings)` starts a gateway; all are stopped after the test.
    """

    async def start(device: DeviceScript | None = None, **settings: Any) -> Serving:
        serving = Serving(device or DeviceScript(), settings)
        servings.append(serving)
        await serving.start()
        return serving

    yield start
    for serving in servings:
        await serving.stop()


@asynchronous_fixture
async def gateway(serve: Serve) -> AsyncIterator[Serving]:
    """
    A gateway with two principals and the usual limits.
    """
    yield await serve()


@pytest.fixture(scope="session")
def named_pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a` and `b` are certificates of the source's name, `i` of its address."""
    folder = tmp_path_factory.mktemp("named-pems")
    make_pems(folder, "ab", HOST)
    make_pems(folder, "i")
    return folder


@asynchronous_fixture
async def listen(named_pems: Path) -> AsyncIterator[Listen]:
    """
    Starts servers; all are stopped after the test, and no connection is left.
    """
    origins: list[Origin] = []

    def start(
        answer: bytes = b"", *, letter: str = "a", closes: bool = True, **where: Any
    ) -> Origin:
        origin = Origin(answer, closes=closes)
        origin.listen(named_pems, letter, **where)
        origins.append(origin)
        return origin

    yield start
    await eventually(lambda: not any(origin.open for origin in origins))
    for origin in origins:
        await origin.stop()
