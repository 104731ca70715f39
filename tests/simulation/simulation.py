"""
One run: a seed in, a history and what is wrong with it out.

A run has three parts: faults and calls together; then quiet, in which everything that
was begun has to end; then a look at what is left, by an auditor who reads every request
that was admitted and counts what is held.
"""

from __future__ import annotations

import gc
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.logger import (
    ILogObserver,
    LogLevel,
    globalLogBeginner,
    globalLogPublisher,
)
from zope.interface import implementer

from tests.simulation.audit import audit
from tests.simulation.chaos import DEEDS, Chaos
from tests.simulation.checker import check
from tests.simulation.completing import completion
from tests.simulation.history import History
from tests.simulation.native import native
from tests.simulation.others import look_around, look_back, snoop, steer
from tests.simulation.peers import peer
from tests.simulation.scene import PORTS, Profile, Scene
from tests.simulation.sources import media
from tests.simulation.world import Spins, World

#: Seconds in which sessions begin and deeds are done.
BUSY_SECONDS: Final = 20.0
#: Seconds in which every session has to end once it is quiet.
QUIET_SECONDS: Final = 400.0
#: Rounds of collecting what a run left behind.
COLLECTIONS_MAX: Final = 8
_SESSIONS: Final = (
    *(native, native, native, completion, completion, media, media, peer, peer),
    *(snoop, look_back, look_around, steer),
)
#: A file system in memory, where there is one: the store syncs much.
_MEMORY: Final = "/dev/shm"


@attrs.frozen
class Outcome:
    """
    What a run came to.
    """

    seed: int
    history: History
    #: What is wrong, as sentences.
    faults: list[str]


def draw_profile(seed: int) -> Profile:
    """The faults of a seed's run: some kinds of them, so that runs differ."""
    draw = random.Random(f"profile {seed}")

    def some(*levels: float) -> float:
        return draw.choice(levels) if draw.random() < 0.6 else 0.0

    deeds = tuple(deed for deed in DEEDS if draw.random() < 0.35)
    return Profile(
        delay=some(0.02, 0.2),
        fails=some(0.002, 0.02),
        drops=some(0.02, 0.3),
        stalls=some(0.002, 0.02),
        misbehaves=some(0.05, 0.3),
        store_fails=some(0.05, 0.4) if draw.random() < 0.6 else 0.0,
        leaves=some(0.1, 0.5),
        deeds=deeds,
        disconnect=draw.choice(("detach", "cancel")),
        sessions=draw.choice((10, 20, 40)),
        store_slow=some(0.05, 0.3),
    )


def run(seed: int, profile: Profile | None = None) -> Outcome:
    """Run *seed*, and check what happened."""
    _begin_logging()
    parent = _MEMORY if Path(_MEMORY).is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="aotx-sim-", dir=parent) as folder,
        _collected_later(),
    ):
        world = World(seed)
        scene = Scene(world, Path(folder), profile or draw_profile(seed))
        with _log_watched(world):
            try:
                _play(scene)
            except Spins as spins:
                world.record("spins", why=str(spins))
            if not any(process.is_killed for process in world.processes):
                # What failed and was never looked at is logged only now.
                gc.collect()
        for process in world.processes:
            process.kill()
    return Outcome(seed, world.history, check(world.history))


def _play(scene: Scene) -> None:
    world = scene.world
    started = scene.start_runtime()
    if not world.wait_for(started, 60):
        world.record("hangs", what="the first start")
        return
    for port in PORTS:
        scene.start_gateway(port)
    scene.apply_faults()
    chaos = Chaos(scene, world.process("chaos"))
    scene.begin(lambda: chaos.run(BUSY_SECONDS))
    for _ in range(scene.profile.sessions):
        session = world.random.choice(_SESSIONS)
        world.history.count("session", session.__name__)
        after = world.random.random() * BUSY_SECONDS
        scene.begin(partial(session, scene), after=after)
    world.settle(BUSY_SECONDS)
    scene.is_quiet = True
    world.record("quiet")
    scene.apply_faults()
    if not world.run(lambda: not scene.busy, QUIET_SECONDS):
        world.record("hangs", what=f"{scene.busy} sessions")
        return
    audit(scene)


@cache
def _begin_logging() -> None:
    """
    Until somebody does, Twisted keeps the last 200 events, with what they speak of: a
    killed process of one run would go through its `finally` in the midst of another.
    """
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)


@contextmanager
def _collected_later() -> Iterator[None]:
    """
    Nothing is collected meanwhile: what a killed process leaves would go through its
    `finally` at a moment that no seed decides.
    """
    _collect()
    # What is left stays: the package, and after the first run the kernels. Where that
    # had to compile them, looking at it again would take most of each later run.
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _collect()


def _collect() -> None:
    """Collect also what goes only when something else went through its `finally`."""
    for _ in range(COLLECTIONS_MAX):
        if not gc.collect():
            return


@contextmanager
def _log_watched(world: World) -> Iterator[None]:
    """What is logged as a failure is one: nothing here may raise unseen."""

    @implementer(ILogObserver)
    def observe(event: dict[str, Any]) -> None:
        failure = event.get("log_failure")
        if world.is_killing:
            return
        if failure is not None or event.get("log_level") == LogLevel.critical:
            why = "" if failure is None else failure.getTraceback()
            format = str(event.get("log_format", ""))
            world.record("logged", format=format, why=why)

    globalLogPublisher.addObserver(observe)
    try:
        yield
    finally:
        globalLogPublisher.removeObserver(observe)
