"""
64 clients of a real runtime while its grants are replaced at random (`device.md` §2).
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults

from tests.asynchronous import asynchronous
from tests.endtoend.conftest import RUNTIME_READY, Service, set_engine
from tests.endtoend.peers import PATIENCE, greedy, pause
from tests.processes import COMPILE_PATIENCE, make_state, twistd
from twisted_aotx.client import Caller, DeviceClient
from twisted_aotx.config.files import replace_file
from twisted_aotx.errors import ConnectFailed, DeviceRefused
from twisted_aotx.grants_state import GrantsState
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.numbers import TERMINAL_PHASES, Action, Phase, Role

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CLIENTS = 64
PRINCIPALS = 20
REPLACEMENTS = 20
#: Output tokens of the last requests, and tokens per second: none ends before all of
#: them are in.
LIMIT = 100
RATE = 20
SLOTS = Capacities().slots - 1


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    state = make_state(tmp_path)
    set_engine(state, rate=RATE)
    with twistd(tmp_path, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        yield Service(process, state)
        assert process.lines("critical") == process.lines("error") == []
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process


def principal(number: int) -> bytes:
    return number.to_bytes(16, "big")


def row(
    number: int, *, requests: int = 4, models: int = 1 << Role.LANGUAGE
) -> GrantRow:
    return GrantRow(
        principal=principal(number),
        revision=1,
        actions=Action.INFER,
        models=models,
        pages=0,
        tokens=LIMIT,
        requests=requests,
        media=0,
        media_bytes=0,
    )


def random_rows(chance: random.Random) -> list[GrantRow]:
    """A model or a principal dropped and restored, quotas raised and lowered."""
    return [
        row(
            number,
            requests=chance.randint(1, 6),
            models=1 << chance.choice((2, 2, 2, 2, 3)),
        )
        for number in range(1, PRINCIPALS + 1)
        if chance.random() < 0.85
    ]


@attrs.define
class Grants:
    """
    The operator: replaces tables, and knows which was acknowledged last.
    """

    service: Service
    acknowledged: int = 1

    async def replace(self, rows: list[GrantRow]) -> None:
        revision = self.acknowledged + 1
        table = GrantTable(
            revision, tuple(attrs.evolve(row, revision=revision) for row in rows)
        )
        replace_file(self.service.state / "grants", table.pack())
        os.kill(self.service.process.popen.pid, signal.SIGHUP)
        for _ in range(int(PATIENCE / 0.01)):
            said = GrantsState.read(self.service.state)
            assert said is not None
            if said.revision == revision:
                self.acknowledged = revision
                return
            assert said.reasons == ()
            await pause(0.01)
        raise AssertionError(f"revision {revision} is not in force in time")


@attrs.define
class Load:
    """
    Clients that submit, read to the end or cancel, until they are told to stop.
    """

    client: DeviceClient
    grants: Grants
    epoch: int
    seen: Counter[object] = attrs.field(factory=Counter)
    #: (revision, newest acknowledged when it was asked for) of every admission.
    admitted: list[tuple[int, int]] = attrs.field(factory=list)
    stopped: bool = False

    async def run(self, index: int) -> None:
        chance = random.Random(index)
        number = 1 + index % PRINCIPALS
        revision = 1
        while not self.stopped:
            if chance.random() < 0.5:
                revision = self.grants.acknowledged
            caller = Caller(principal(number), revision)
            try:
                await self._one(caller, chance)
            except DeviceRefused as refused:
                self.seen[refused.status] += 1
                await pause(0.05 * chance.random())
            except ConnectFailed:
                self.seen["dropped"] += 1
                await pause(0.01)

    async def _one(self, caller: Caller, chance: random.Random) -> None:
        request_id = os.urandom(16)
        newest = self.grants.acknowledged
        submission = greedy(f"number {chance.random()}", chance.randint(1, LIMIT // 4))
        await self.client.submit(caller, self.epoch, request_id, submission)
        self.admitted.append((caller.revision, newest))
        self.seen[202] += 1
        cancels = chance.random() < 0.3
        while True:
            window = await self.client.read(caller, self.epoch, request_id, 0)
            if window.reply.phase in TERMINAL_PHASES:
                self.seen[Phase(window.reply.phase)] += 1
                return
            if cancels and chance.random() < 0.2:
                await self.client.cancel(caller, self.epoch, request_id)
            await pause(0.02)


async def statuses_of(
    client: DeviceClient, caller: Caller, epoch: int, count: int
) -> list[tuple[int, bytes]]:
    """Submit *count* at once; each status with the id."""
    found = []
    for _ in range(count):
        request_id = os.urandom(16)
        try:
            await client.submit(caller, epoch, request_id, greedy("x", LIMIT))
            found.append((202, request_id))
        except DeviceRefused as refused:
            found.append((refused.status, request_id))
    return found


@asynchronous
async def test_nothing_leaks_and_nothing_is_admitted_late(service: Service) -> None:
    chance = random.Random(7)
    grants = Grants(service)
    first = Caller(principal(1), 1)
    client = DeviceClient(reactor, service.socket, waiters_max=4096)
    epoch = (await client.info(first)).epoch
    load = Load(client, grants, epoch)
    running = [Deferred.fromCoroutine(load.run(index)) for index in range(CLIENTS)]
    try:
        for _ in range(REPLACEMENTS):
            await pause(0.5 * chance.random())
            await grants.replace(random_rows(chance))
    finally:
        load.stopped = True
        await gatherResults(running, consumeErrors=True)

    assert all(revision >= newest for revision, newest in load.admitted)
    assert len(load.admitted) > CLIENTS
    assert {202, 403, 404, 429, "dropped"} <= set(load.seen), load.seen

    # What holds in the end is the last table: with one principal that may have as many
    # active requests as there are entries, every entry and every slot is to be had.
    entries = Capacities().requests
    await grants.replace([row(1, requests=entries)])
    caller = Caller(principal(1), grants.acknowledged)
    client_of_end = DeviceClient(reactor, service.socket)
    made = await statuses_of(client_of_end, caller, epoch, entries + 1)
    assert [status for status, _ in made] == [202] * entries + [429]
    phases = Counter[int]()
    for _, request_id in made[:-1]:
        window = await client_of_end.read(caller, epoch, request_id, 0)
        phases[window.reply.phase] += 1
    assert phases[Phase.RUNNING] + phases[Phase.COMPLETED] >= SLOTS

    quotas = {number: 1 + number % 5 for number in range(1, PRINCIPALS + 1)}
    await grants.replace([row(number, requests=n) for number, n in quotas.items()])
    await client_of_end.close()
    client_of_end = DeviceClient(reactor, service.socket)
    for number, quota in quotas.items():
        caller = Caller(principal(number), grants.acknowledged)
        made = await statuses_of(client_of_end, caller, epoch, quota + 1)
        assert [status for status, _ in made] == [202] * quota + [429]
    await client_of_end.close()
    await client.close()
