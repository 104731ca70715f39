"""
What is raised beside a prompt, an output or a source is logged without its words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from twisted.logger import Logger

from tests.access.hunter import Catch, Hunter, logs_into, planted
from tests.runtime.doubles import (
    PATIENCE_SECONDS,
    ListedEngine,
    MemoryDevice,
    ThreadedReactor,
    open_order,
    stop_order,
)
from twisted_aotx.interfaces import Lease
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.bridge import EngineBridge
from twisted_aotx.runtime.doorbell import Doorbell
from twisted_aotx.runtime.media_worker import MediaWorker

PROMPT = planted("prompt")


def raise_it() -> None:
    raise ValueError(f"cannot say {PROMPT.encode()!r}")


#: Ways to raise what quotes the prompt.
WAYS: Final[list[Callable[[], object]]] = [
    raise_it,
    lambda: int(PROMPT),
    lambda: dict[str, int]()[PROMPT],
]


def caught() -> Catch:
    return Catch(Hunter({"prompt": PROMPT}))


@pytest.mark.parametrize("way", WAYS)
def test_engines(way: Callable[[], object]) -> None:
    """One that cannot open a prompt, and one that cannot stop."""
    catch, engine = caught(), ListedEngine()
    device, reactor = MemoryDevice(), ThreadedReactor()
    bridge = EngineBridge(reactor, device, [engine])
    reactor.addReader(Doorbell(device.engine_doorbell, "engine", bridge.doorbell_rung))
    bridge.serve()

    def opened(lease: Lease) -> None:
        if lease.order.slot == 1:
            way()

    def stopped(slot: int, generation: int) -> None:
        way()

    engine.on_open, engine.on_stop = opened, stopped
    with logs_into(catch) as events:
        device.order(open_order(1), open_order(2), stop_order(2))
        reactor.settle()

    assert [event["log_level"].name for event in events] == ["critical"] * 2
    for event in events:
        shown = event["log_failure"].getTraceback()
        assert "test_unsaid.py" in shown
        assert "whose text is not told" in shown
    catch.assert_nothing()


@pytest.mark.parametrize("way", WAYS)
def test_doorbells(way: Callable[[], object]) -> None:
    catch, device = caught(), MemoryDevice()
    reactor = ThreadedReactor()
    rung: Any = way
    reactor.addReader(Doorbell(device.engine_doorbell, "engine", rung))
    with logs_into(catch) as events:
        device.order(open_order(1))
        reactor.settle()

    assert len(events) == 1
    catch.assert_nothing()


class BrokenDecoder:
    """
    Raises what quotes a source.
    """

    def __init__(self, way: Callable[[], object]) -> None:
        self._way = way

    def decodes(self, job: MediaJob, pieces: object) -> bool:
        self._way()
        return False

    def close(self) -> None:
        """Nothing is open."""

    kill = close


@pytest.mark.parametrize("way", WAYS)
def test_image_workers(way: Callable[[], object]) -> None:
    catch, device = caught(), MemoryDevice()
    media = MediaWorker(device, lambda: BrokenDecoder(way))
    job = MediaJob(worker=0, index=0, generation=1, offset=0, size=4, width=8, height=8)
    with logs_into(catch) as events:
        device.decode(job)
        media.doorbell_rung()
        ThreadedReactor().until(lambda: device.decoded)
        media.close()
        for thread in media._threads:
            thread.join(PATIENCE_SECONDS)

    assert len(events) == 1
    catch.assert_nothing()


def test_the_net_is_whole() -> None:
    """Told as they are, every one of them would be found."""
    for way in WAYS:
        catch = caught()
        with logs_into(catch):
            try:
                way()
            except Exception:
                Logger("aotx.test").failure("failed")
        assert catch.found, way
