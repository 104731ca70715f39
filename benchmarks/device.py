"""
Ticks of the compiled device, stepped by hand: only the tick is timed.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.table import Row, Samples
from tests.device.capacities import DEFAULT, WIDE
from tests.device.driver import Driver
from tests.device.making import (
    EMIT,
    EPOCH,
    OPENED,
    grant,
    message,
    new_device,
    payload_of,
    played_engine,
    request_id,
)
from twisted_aotx.device.host import Device
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import join, split_reply

#: Bytes of text in a small and in the largest submission.
SMALL_TEXT, LARGE_TEXT = 200, 65_300
FEW_RETAINED, MANY_RETAINED = 128, 16_384
_TEXT = b"The quick brown fox jumps over the lazy dog, again and again. "


class Stepped(Driver):
    """
    A driver that checks nothing after a tick but times it.
    """

    device: Device

    def step(self, ns: int = 1) -> None:
        """As the driver's, unchecked."""
        self.timed()

    def timed(self) -> float:
        """One tick; its seconds."""
        self.now += 1
        start = time.perf_counter()
        self.device.tick(self.now)
        return time.perf_counter() - start

    def samples(self, count: int, before: Callable[[], object] = int) -> Samples:
        """*count* ticks, each after *before*."""
        seconds = []
        gc.disable()
        for _ in range(count):
            before()
            seconds.append(self.timed())
        gc.enable()
        return Samples(seconds)


def start(capacities: Capacities, backend: str) -> Stepped:
    """A device with one principal and an engine that is played by hand."""
    slots, tokens = capacities.slots, capacities.sequence_tokens
    engine = played_engine(capacity=slots - 1, sequence_tokens=tokens)
    device = new_device(capacities, [engine], backend)
    device.warm_up()
    stepped = Stepped(device, capacities)
    rows = grant(requests=capacities.requests, tokens=tokens - 1)
    assert stepped.install(rows) == 200
    return stepped


class Submissions:
    """
    Bursts of submissions, which are cancelled again outside the timed ticks.
    """

    def __init__(self, stepped: Stepped, text_bytes: int) -> None:
        self.stepped = stepped
        repeated = _TEXT * (text_bytes // len(_TEXT) + 1)
        self.payload = payload_of(message(1, repeated[:text_bytes]))
        self.numbers: Iterator[int] = iter(range(1_000_000 * text_bytes, 10**12))

    def burst(self, count: int) -> list[int]:
        """Publish *count* submissions on as many channels."""
        numbers = [next(self.numbers) for _ in range(count)]
        for channel, number in enumerate(numbers, 1):
            header = self.stepped.submit_header(number)
            self.stepped.publish(channel, join(header, self.payload))
        return numbers

    def settle(self, expected: int) -> None:
        """Take the replies."""
        for channel in self.stepped.device.collect():
            reply, _ = split_reply(self.stepped.take(channel))
            assert reply.status == expected, reply.status

    def cancel(self, numbers: Sequence[int]) -> None:
        """Cancel them, and let the ticks pass that free their slots."""
        for channel, number in enumerate(numbers, 1):
            header = self.stepped.header(
                Operation.CANCEL, epoch=EPOCH, id=request_id(number)
            )
            self.stepped.publish(channel, header.pack())
        self.stepped.step()
        self.settle(200)
        self.stepped.device.orders()
        self.stepped.step()

    def measure(self, count: int, repeats: int) -> Samples:
        """The tick that admits *count* submissions, leases and renders them."""
        seconds = []
        for _ in range(repeats):
            numbers = self.burst(count)
            seconds.append(self.stepped.timed())
            self.settle(202)
            self.stepped.device.orders()
            self.cancel(numbers)
        return Samples(seconds)


def ticks(backend: str = "cpu") -> list[Row]:
    """Idle, submissions, running slots, on default capacities."""
    stepped = start(DEFAULT, backend)
    stepped.samples(200)
    idle = Row.timed("idle tick", stepped.samples(2000))
    rows = [idle]
    for text_bytes in (SMALL_TEXT, LARGE_TEXT):
        submissions = Submissions(stepped, text_bytes)
        what = f"of {text_bytes:,} bytes"
        one = Row.timed(f"1 submission {what}", submissions.measure(1, 200), idle)
        many = submissions.measure(64, 30)
        rows += [one, Row.timed(f"64 submissions {what}", many, one)]
    return [*rows, *_running(stepped, idle)]


def _running(stepped: Stepped, idle: Row) -> list[Row]:
    """Every slot runs: first nothing comes, then each emits six bytes."""
    numbers = range(1, DEFAULT.slots)
    for number in numbers:
        assert stepped.submit(number, limit=8000) == 202
    orders = stepped.opens()
    for order in orders:
        stepped.report(order, OPENED, 5)
    stepped.step()
    quiet = stepped.samples(1000)

    def emit() -> None:
        for order in orders:
            stepped.report(order, EMIT, 1, b"a word")

    what = f"{len(numbers)} running slots"
    return [
        Row.timed(what, quiet, idle),
        Row.timed(f"{what}, each emits 6 bytes", stepped.samples(500, emit), idle),
    ]


def _retain(stepped: Stepped, numbers: Sequence[int]) -> None:
    """Fill the table with cancelled requests."""
    submissions = Submissions(stepped, SMALL_TEXT)
    submissions.numbers = iter(numbers)
    width = stepped.capacities.slots - 1
    for first in range(0, len(numbers), width):
        part = submissions.burst(len(numbers[first : first + width]))
        stepped.step()
        submissions.settle(202)
        submissions.cancel(part)


def reads(backend: str = "cpu") -> list[Row]:
    """READ of a random request with few and with many retained [D6]."""
    stepped = start(WIDE, backend)
    draw = random.Random(1)
    rows: list[Row] = []
    for retained in (FEW_RETAINED, MANY_RETAINED):
        first = FEW_RETAINED if rows else 0
        _retain(stepped, range(first + 1, retained + 1))

        def take() -> None:
            for channel in stepped.device.collect():
                stepped.take(channel)

        def publish(count: int = retained) -> None:
            take()
            id_ = request_id(draw.randrange(count) + 1)
            header = stepped.header(Operation.READ, epoch=EPOCH, id=id_)
            stepped.publish(1, header.pack())

        samples = stepped.samples(3000, publish)
        take()
        base = rows[0] if rows else None
        rows.append(Row.timed(f"READ, {retained:,} retained", samples, base))
    return rows


def measure() -> dict[str, list[Row]]:
    """Tables by title."""
    return {
        "Ticks, default capacities": ticks(),
        "READ, room for 16,384 requests of 1,024 bytes": reads(),
    }
