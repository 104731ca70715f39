"""
How a test of this folder gets its device: the oracle, or the compiled device with the
oracle beside it (`pair.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    HASH_KEY,
    P1,
    P2,
    SEED_KEY,
    grant,
    new_device,
    played_engine,
)
from tests.device.model import Oracle
from tests.device.pair import Pair
from tests.device.stepped import HasFacts, SteppedDevice
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.packet import ReplyHeader


class Start(Protocol):
    """The fixture `start`: a driver around a fresh device without any grant."""

    def __call__(
        self,
        capacities: Capacities = SMALL,
        *,
        engines: Sequence[HasFacts] | None = None,
    ) -> Driver: ...


def start_device(
    kind: str, capacities: Capacities, engines: Sequence[HasFacts] | None
) -> Driver:
    """*kind* is `oracle` or `compiled`; by default role 2 may use every slot."""
    if engines is None:
        engines = [
            played_engine(
                capacity=capacities.slots - 1,
                sequence_tokens=capacities.sequence_tokens,
            )
        ]
    oracle = Oracle(
        capacities, epoch=EPOCH, hash_key=HASH_KEY, seed_key=SEED_KEY, engines=engines
    )
    device: SteppedDevice = oracle
    if kind == "compiled":
        device = Pair(new_device(capacities, engines), oracle)
    return Driver(device, capacities)


def started(start: Start, *capacities: int) -> Driver:
    """Roles 2, 3, … with these engine capacities; P1 and P2 may use them all."""
    tokens = SMALL.sequence_tokens
    engines = [
        played_engine(role, capacity=capacity, sequence_tokens=tokens)
        for role, capacity in enumerate(capacities, start=2)
    ]
    driver = start(engines=engines)
    rows = (
        grant(principal, models=0b11100, requests=SMALL.requests, tokens=tokens - 1)
        for principal in (P1, P2)
    )
    assert driver.install(*rows) == 200
    return driver


def result(reply: ReplyHeader) -> tuple[int, int, int, int]:
    """Phase, failure status, cancel flag, finish."""
    return (
        reply.phase,
        reply.failure_status,
        reply.cancel_requested,
        reply.finish,
    )
