"""
Gateways for tests: `gateway` is a plain one, `serve` makes others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.asynchronous import asynchronous_fixture
from tests.gateway.device_script import DeviceScript
from tests.gateway.serving import Serving

Serve = Callable[..., Awaitable[Serving]]


@asynchronous_fixture
async def serve() -> AsyncIterator[Serve]:
    """
    `await serve(**settings)` starts a gateway; all are stopped after the test.
    """
    servings: list[Serving] = []

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
