"""
Lives of a runtime, one after the other, with work, an operator and a metric.
"""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThread

from tests.endtoend.accounts import MANAGER, Observer, Task, policy
from tests.endtoend.conftest import RUNTIME_READY
from tests.endtoend.peers import all_of, pause
from tests.endtoend.replacing import logged
from tests.endtoend.scrapes import gauges_of_device
from tests.processes import COMPILE_PATIENCE, Process, twistd
from twisted_aotx.client import DeviceClient
from twisted_aotx.errors import ExchangeFailed
from twisted_aotx.wire.numbers import PolicyAction

#: Requests that are under way at once: fewer than what the table keeps besides.
AT_ONCE = 40

Work = Coroutine[Any, Any, None]


@attrs.define
class Activation:
    """
    One life of a runtime: what is asked of it, and what was seen.
    """

    state: Path
    process: Process
    observer: Observer
    chance: random.Random
    completed: int = 0
    is_done: bool = False
    is_killed: bool = False
    #: What the metric said last, and how many ends had been seen before it was asked.
    pending: int = 0
    seen_before: int = 0

    async def play(self, tasks: Sequence[Task]) -> None:
        """All of *tasks*, in bursts with pauses between them."""
        rest = list(tasks)
        while rest and not self.is_killed:
            count = self.chance.choice((1, 2, 3, *(self.chance.randint(10, 150),) * 2))
            burst, rest = rest[:count], rest[count:]
            await all_of(self._one, burst, at_once=AT_ONCE)
            await pause(self.chance.choice((0, 0.001, 0.002, 0.01, 0.03)))
        self.is_done = True

    async def _one(self, task: Task) -> None:
        await self._unless_killed(self.observer.one(task))

    async def _unless_killed(self, work: Work) -> None:
        try:
            await work
        except ExchangeFailed:
            if not self.is_killed:
                raise

    async def control(self) -> None:
        """Change the policy's controls at random while there is work."""
        actions = (
            *(PolicyAction.REVIEW_ON, PolicyAction.REVIEW_ON, PolicyAction.RESUME),
            *(PolicyAction.REVIEW_OFF, PolicyAction.PAUSE, PolicyAction.STOP),
        )
        while not self.is_done:
            await self._unless_killed(self._control(self.chance.choice(actions)))
            await pause(0.05 * self.chance.random())

    async def _control(self, action: PolicyAction) -> None:
        client, epoch = self.observer.client, self.observer.epoch
        await policy(client, epoch, action)
        if action == PolicyAction.REVIEW_ON:
            # Else a review is hardly ever on: two of three controls must allow it.
            await policy(client, epoch, PolicyAction.RESUME)

    async def watch(self) -> None:
        """Ask the metric again and again."""
        while not self.is_done:
            seen = len(self.observer.seen)
            try:
                gauges = await deferToThread(gauges_of_device, self.state)
            except (OSError, HTTPException):
                assert self.is_killed
                return
            self.pending = gauges["usage_pending"]
            self.seen_before = seen
            await pause(0.02)

    async def kill(self, after: int) -> None:
        """SIGKILL when *after* ends were seen, or soon after it."""
        while len(self.observer.seen) < after and not self.is_done:
            await pause(0.002)
        await pause(0.02 * self.chance.random())
        self.is_killed = True
        self.process.signal(signal.SIGKILL)

    async def stop(self) -> None:
        report = await policy(self.observer.client)
        self.completed = report.completed
        self.process.signal(signal.SIGTERM)
        while self.process.popen.poll() is None:
            await pause(0.01)
        assert self.process.code() == 0, self.process
        assert self.process.lines("critical") == self.process.lines("error") == []


@asynccontextmanager
async def activation(state: Path, chance: random.Random) -> AsyncIterator[Activation]:
    with twistd(state.parent, "aotx-runtime", "--state", state) as process:
        await logged(process, RUNTIME_READY, COMPILE_PATIENCE)
        path = str(state / "service.sock")
        client = DeviceClient(reactor, path, connections_max=64, waiters_max=4096)
        epoch = (await client.info(MANAGER)).epoch
        try:
            yield Activation(state, process, Observer(client, epoch), chance)
        finally:
            await client.close()


async def together(*works: Work) -> None:
    """Until all have ended, or one has failed."""
    running = [Deferred.fromCoroutine(work) for work in works]
    await gatherResults(running, consumeErrors=True)
