"""
Many requests at once on the model in the kernels: each has its own output, and a
cancelled one never touches another (`device.md` §9, §17, D2, D4).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.device.capacities import DEFAULT, SMALL
from tests.device.driver import Driver
from tests.device.making import (
    CHATML,
    EPOCH,
    SEED_KEY,
    grant,
    message,
    new_device,
    payload_of,
    request_id,
)
from tests.device.oracle.philox import lease_seed
from tests.device.reference_oracle import Model, generate
from twisted_aotx.engines.reference import make, read_corpus
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import Operation, Phase
from twisted_aotx.wire.packet import join, split_reply

HEAD = CHATML.user_head
TAIL = (
    CHATML.user_tail + CHATML.generation_head + CHATML.think_open + CHATML.think_close
)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(read_corpus())


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The reference engine as it ships, on the capacities that the test asks for."""
    capacities: Capacities = request.param
    engine = make(2, {}, capacities.slots, capacities.sequence_tokens)
    device = new_device(capacities, [engine])
    driver = Driver(device, capacities)
    driver.install(grant(tokens=512, requests=capacities.requests))
    yield driver
    device.close()
    device.free()


def text_of(number: int) -> bytes:
    return b"question %d" % number


def temperature_of(number: int) -> float:
    """Every other one is greedy."""
    return 0.0 if number % 2 else 0.5 + number % 100 / 100


def expected(model: Model, number: int, sequence: int) -> tuple[bytes, int, int]:
    """What request *number* gives when nothing else runs."""
    return generate(
        model,
        HEAD + text_of(number) + TAIL,
        temperature_of(number),
        1.0,
        lease_seed(SEED_KEY, sequence),
        300,
    )


def publish_submit(driver: Driver, channel: int, number: int) -> None:
    header = driver.submit_header(number, limit=300, temperature=temperature_of(number))
    payload = payload_of(message(1, text_of(number)))
    driver.publish(channel, join(header, payload))


@pytest.mark.slow
@pytest.mark.parametrize("driver", [DEFAULT], indirect=True)
def test_63_at_once_of_128(driver: Driver, model: Model) -> None:
    """A table full of requests; twice as many as slots."""
    total = driver.capacities.requests
    channels = range(1, driver.capacities.channels)
    numbers = list(range(1, total + 1))
    waiting = list(numbers)
    admitted: list[int] = []
    while waiting or len(admitted) < total:
        sent = {channel: waiting.pop(0) for channel in channels if waiting}
        for channel, number in sent.items():
            publish_submit(driver, channel, number)
        while sent:
            driver.step()
            for channel in driver.device.collect():
                assert split_reply(driver.take(channel))[0].status == 202
                admitted.append(sent.pop(channel))
    for _ in range(40):
        driver.step()

    for number in numbers:
        output, tokens, finish = expected(model, number, admitted.index(number) + 1)
        reply, data = driver.read(number)
        assert (reply.phase, reply.finish) == (Phase.COMPLETED, finish)
        assert reply.prompt_tokens == len(HEAD + text_of(number) + TAIL)
        assert reply.sampled_tokens == tokens
        assert data == output


@pytest.mark.parametrize("driver", [SMALL], indirect=True)
def test_a_thousand_submits_and_cancels(driver: Driver, model: Model) -> None:
    """
    Whatever is cancelled when: all others end with exactly their own output, what was
    cancelled keeps the beginning of its own, and every slot is free at the end.
    """
    chance = random.Random(20)
    state = {Phase.COMPLETED: 0, Phase.CANCELLED: 0}
    live: list[int] = []
    for number in range(1, 1001):
        publish_submit(driver, 1, number)
        cancelled = chance.choice(live or [number])
        live.append(number)
        header = driver.header(Operation.CANCEL, epoch=EPOCH, id=request_id(cancelled))
        if cancelled != number and chance.random() < 0.5:
            driver.publish(2, join(header))
        driver.step()
        for channel in driver.device.collect():
            assert split_reply(driver.take(channel))[0].status in (200, 202)
        for _ in range(chance.randrange(4)):
            driver.step()
        while len(live) > 5 or (number == 1000 and live):
            ended = check_ended(driver, model, live.pop(0))
            state[ended] += 1
    assert min(state.values()) > 100
    last = range(1001, 1000 + SMALL.slots)
    for channel, number in enumerate(last, start=1):
        publish_submit(driver, channel, number)
    driver.step()
    for channel in driver.device.collect():
        driver.take(channel)
    assert all(driver.phase(number) >= Phase.RUNNING for number in last)


def check_ended(driver: Driver, model: Model, number: int) -> Phase:
    """Wait for the end of a request, and hold its output against the oracle's."""
    for _ in range(60):
        reply, data = driver.read(number)
        if reply.phase >= Phase.COMPLETED:
            break
    output, tokens, finish = expected(model, number, number)
    if reply.phase == Phase.COMPLETED:
        assert (data, reply.sampled_tokens, reply.finish) == (output, tokens, finish)
    else:
        assert (reply.phase, reply.failure_status) == (Phase.CANCELLED, 409)
        assert output.startswith(data)
    return Phase(reply.phase)
