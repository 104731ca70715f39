"""
Many requests at once on a real runtime, told apart by their bytes.

Each output at temperature 0 equals the one computed alone, none mixes, slots are
reused, and a cancel never touches a slot's next user [D2, D4].
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.asynchronous import asynchronous
from tests.endtoend.conftest import RUNTIME_READY, Service, set_engine
from tests.endtoend.peers import Peer, Result, all_of, greedy, pause, peer
from tests.processes import COMPILE_PATIENCE, make_state, twistd
from twisted_aotx.wire.numbers import TERMINAL_PHASES, Finish, Phase

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SLOTS = 63
ENTRIES = 128
#: Output tokens of a request; at RATE it runs for four seconds.
LIMIT = 100
RATE = 25


def runtime(folder: Path, **options: int) -> Iterator[Service]:
    state = make_state(folder)
    set_engine(state, **options)
    with twistd(folder, "aotx-runtime", "--state", state) as process:
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        yield Service(process, state)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from runtime(tmp_path_factory.mktemp("fast"))


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from runtime(tmp_path_factory.mktemp("slow"), rate=RATE)


def prompt(index: int) -> str:
    return f"Question {index}: what comes after {index * 7919}?"


async def alone(device: Peer, count: int) -> list[Result]:
    """The results of the first *count* prompts, one request at a time."""
    return [await device.run(greedy(prompt(n), LIMIT)) for n in range(count)]


@asynchronous
async def test_128_submitted_63_at_once_each_as_if_alone(
    fast: Service, slow: Service
) -> None:
    async with peer(fast.socket) as device:
        expected = await alone(device, ENTRIES)
    assert len({result.data for result in expected}) > ENTRIES // 2
    async with peer(slow.socket) as device:
        ids = [await device.submit(greedy(prompt(n), LIMIT)) for n in range(ENTRIES)]

        windows = await all_of(device.read, ids, at_once=32)
        phases = [window.reply.phase for window in windows]
        assert phases.count(Phase.RUNNING) == SLOTS
        # First in, first out: the waiting ones are those that came last [D2].
        assert phases[SLOTS:] == [Phase.QUEUED] * (ENTRIES - SLOTS)

        results = await all_of(device.result, ids, at_once=32)
    assert results == expected
    assert {result.phase for result in results} == {Phase.COMPLETED}


@asynchronous
async def test_every_slot_is_used_again(slow: Service) -> None:
    # 63 requests end together; the ones that waited take their slots and end too.
    async with peer(slow.socket) as device:
        first = [await device.submit(greedy(prompt(n), 5)) for n in range(SLOTS)]
        second = [await device.submit(greedy(prompt(n), 5)) for n in range(SLOTS)]

        results = await all_of(device.result, first + second, at_once=32)
    assert results[:SLOTS] == results[SLOTS:]


@asynchronous
async def test_a_thousand_random_cancels_touch_nobody_else(
    fast: Service, slow: Service
) -> None:
    # cases D 73
    chance = random.Random(20)
    async with peer(fast.socket) as device:
        expected = await alone(device, 16)
    async with peer(slow.socket) as device:

        async def submit_and_cancel(number: int) -> None:
            text = expected[number % 16]
            request_id = await device.submit(greedy(prompt(number % 16), LIMIT))
            for _ in range(chance.randrange(3)):
                await pause(chance.random() * 0.02)
            window = await device.cancel(request_id)
            assert window.reply.cancel_requested
            result = await device.result(request_id)
            assert (result.phase, result.failure_status) == (Phase.CANCELLED, 409)
            assert result.finish == Finish.NONE
            assert text.data.startswith(result.data)

        async def plain(number: int) -> Result:
            await pause(chance.random() * 4)
            return await device.run(greedy(prompt(number % 16), LIMIT))

        async def one(number: int) -> Result | None:
            # One in eleven is a bystander that must come out whole.
            if number % 11 == 10:
                return await plain(number)
            await submit_and_cancel(number)
            return None

        results = await all_of(one, list(range(1100)), at_once=48)
        for number, result in enumerate(results):
            if result is not None:
                assert result == expected[number % 16]
        assert sum(result is None for result in results) == 1000

        assert await device.run(greedy(prompt(3), LIMIT)) == expected[3]


@asynchronous
async def test_a_cancelled_request_frees_its_slot_for_the_next(slow: Service) -> None:
    async with peer(slow.socket) as device:
        running = [await device.submit(greedy(prompt(n), 2000)) for n in range(SLOTS)]
        waiting = await device.submit(greedy("waits", 3))
        await pause(0.2)
        assert (await device.read(waiting)).reply.phase == Phase.QUEUED

        await device.cancel(running[5])

        assert (await device.result(waiting)).phase == Phase.COMPLETED
        others = await all_of(device.read, running, at_once=16)
        phases = [window.reply.phase for window in others]
        assert phases.count(Phase.RUNNING) == SLOTS - 1
        await all_of(device.cancel, running, at_once=16)
        for request_id in running:
            assert (await device.result(request_id)).phase in TERMINAL_PHASES
