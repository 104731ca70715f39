"""
Who plays it: a driver that notes states, frames and digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tests.device.driver import Driver
from tests.device.making import (
    BACKEND,
    LETTERS,
    P1,
    P2,
    P3,
    Played,
    grant,
    new_device,
    played_engine,
    request_id,
)
from twisted_aotx.device.host import Device
from twisted_aotx.engines.reference import ReferenceEngine
from twisted_aotx.interfaces import EngineFacts, IEngine, ReferenceModel
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.info import ControlRow
from twisted_aotx.wire.numbers import Phase

#: May do everything; few pages, no telemetry; telemetry alone.
ROWS = (
    grant(actions=255, models=0b11100, requests=15, media=30, media_bytes=3 << 20),
    grant(P2, models=0b1100, pages=1, requests=2),
    grant(P3, actions=8),
)


#: Played by hand; sampled by the kernels' model; the kernels' fixed output.
HOST, SAMPLED, FIXED = 2, 3, 4
#: Tokens per second of FIXED.
RATE = 1000
#: Both ends of paragraphs, one context with more symbols than a row keeps, and one
#: count above its limit.
CORPUS = (
    b"the cat sat on the mat and the rat ran.\nit ran on; a man can tan.\n\n"
    + b"".join(b"x%c" % letter for letter in range(97, 119))
    + b"\n\na boat, a coat, a goat, not a note, that is what the cat had.\n\n\n"
    + b"z" * 1100
    + b"\n"
)


def _control(name: str, digest: bytes, *doses: int) -> ControlRow:
    return ControlRow(name=name, layers=1, qualification_sha256=digest, doses=doses)


#: What HOST declares: one to select, one without a dose, two of one digest.
CONTROLS = (
    _control("calm", b"c" * 32, -5, 40000),
    _control("bare", b"b" * 32),
    _control("twin-a", b"t" * 32, 1),
    _control("twin-b", b"t" * 32, 1),
)

#: (phase before, event, phase after, status, cancel flag, finish)
Row = tuple[str, str, str, int, int, int]


def _reference(
    role: int, capacity: int, rate: int, fixed: bytes | None
) -> ReferenceEngine:
    facts = EngineFacts(
        role=role,
        model_sha256=hashlib.sha256(CORPUS).digest(),
        modalities=7,
        capacity=capacity,
        sequence_tokens=1 << 20,
        # With this tail `[image` at the end of a user's text makes a marker.
        message_format=attrs.evolve(LETTERS, user_tail=b":u"),
    )
    model = ReferenceModel(corpus=CORPUS, rate=rate, fixed_output=fixed)
    return ReferenceEngine(facts, model)


def make_device(capacities: Capacities, backend: str = BACKEND) -> Device:
    """The device that the scenario is played on."""
    played = played_engine(HOST, capacity=2, sequence_tokens=1 << 20, modalities=7)
    played = Played(attrs.evolve(played.facts, controls=CONTROLS))
    engines: list[Played | IEngine] = [
        played,
        _reference(SAMPLED, 2, 0, None),
        # With HOST's two, one lease more than there are slots.
        _reference(FIXED, 6, RATE, b"\x00fixed \xff output"),
    ]
    return new_device(capacities, engines, backend)


class Scenario(Driver):
    """
    Plays everything on a device made by `make_device`.
    """

    device: Device

    def __init__(self, device: Device, capacities: Capacities) -> None:
        super().__init__(device, capacities)
        self.frames = 0
        self.rows: list[Row] = []
        #: Device memory and replies after each tick.
        self.trace: list[str] = []
        self._replies = hashlib.sha256()
        self._number = 0

    # --- what is observed -----------------------------------------------------------

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        self.frames += 1
        super().publish(channel, packet, length=length)

    def take(self, channel: int) -> bytes:
        packet = super().take(channel)
        self._replies.update(packet)
        return packet

    def step(self, ns: int = 1) -> None:
        super().step(ns)
        both = self.device.digest() + self._replies.hexdigest()
        self.trace.append(hashlib.sha256(both.encode()).hexdigest()[:16])

    def entry(self, number: int, principal: bytes = P1) -> dict[str, Any]:
        """The table entry of a request, without its links."""
        D = self.device.snapshot()
        for n in range(self.capacities.requests):
            ids = D["r_id"][n].tobytes(), D["r_principal"][n].tobytes()
            if ids == (request_id(number), principal) and D["r_phase"][n]:
                columns = (name for name in D.dtype.names if name.startswith("r_"))
                lists = ("r_head", "r_tail", "r_next", "r_prev")
                return {
                    name: D[name][n].tolist() for name in columns if name not in lists
                }
        raise AssertionError(f"request {number} is not in the table")

    def follow(
        self, event: str, numbers: Sequence[int], act: Callable[[], object]
    ) -> None:
        """Note which row of the state table each of *numbers* takes when *act* runs."""
        before = [self.phase_of(number) for number in numbers]
        act()
        for number, phase in zip(numbers, before, strict=True):
            self.note(phase, event, number)

    def phase_of(self, number: int) -> str:
        return Phase(self.entry(number)["r_phase"]).name.lower()

    def note(self, before: str, event: str, number: int) -> None:
        """Note the row that *number* took."""
        entry = self.entry(number)
        result = (entry["r_status"], entry["r_cancel"], entry["r_finish"])
        self.rows.append((before, event, self.phase_of(number), *result))

    # --- steps of a request ---------------------------------------------------------

    def new(self, **options: Any) -> int:
        """Submit a request that is admitted; its number."""
        self._number += 1
        assert self.submit(self._number, **options) == 202
        return self._number

    def preparing(self, **options: Any) -> tuple[int, OpenOrder]:
        number = self.new(**options)
        (order,) = self.opens()
        return number, order

    def running(self, **options: Any) -> tuple[int, OpenOrder]:
        number, order = self.preparing(**options)
        self.follow("`opened`, tokens fit", [number], lambda: self.open_one(order))
        return number, order

    def say(
        self, order: OpenOrder, kind: int, value: int = 0, data: bytes = b""
    ) -> None:
        """One report, handled."""
        self.report(order, kind, value, data)
        self.step()

    def one_each(self) -> tuple[list[int], list[OpenOrder]]:
        """Three requests: running, preparing, and queued for want of capacity."""
        first, a = self.running()
        second, b = self.preparing()
        return [first, second, self.new()], [a, b]
