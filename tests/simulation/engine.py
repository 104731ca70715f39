"""
An engine that does whatever an engine may do, by the draw: opens late or never, emits
much or little in odd parts, ends well or badly, breaks the rules, dies and comes back.

What it reports is noted in the history: the truth that every output is held against.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from tests.simulation.frames import nonce_in
from tests.simulation.process import Process
from twisted_aotx.engines.formats import CHATML
from twisted_aotx.interfaces import EngineFacts, EngineHost, IEngine, Lease
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.numbers import Modality, Role

MODEL_SHA256: Final = hashlib.sha256(b"the simulated model").digest()
#: What outputs are made of: text in which cuts hurt, and what is no text at all.
_TEXTS: Final = (
    b"plain words, ",
    "größer als Æsop; ".encode(),
    "漢字とかな ".encode(),
    "🦉🪿🫎 ".encode(),
)


@implementer(IEngine)
class SimulatedEngine:
    """
    The engine of the default language role.

    Attributes:
        misbehaves: how likely a lease does not go well, 0..1.
        live: leases that were neither ended here nor stopped.
    """

    def __init__(self, process: Process, epoch: int, capacities: Capacities) -> None:
        self._process = process
        self._world = process.world
        self._epoch = epoch
        self.misbehaves = 0.0
        self.facts = EngineFacts(
            role=Role.LANGUAGE,
            model_sha256=MODEL_SHA256,
            modalities=Modality.TEXT | Modality.IMAGE | Modality.AUDIO,
            capacity=self._world.random.randint(1, capacities.slots - 1),
            sequence_tokens=capacities.sequence_tokens,
            message_format=CHATML,
        )
        self.live: dict[tuple[int, int], _Sequence] = {}
        self._host: EngineHost | None = None

    # --- IEngine ----------------------------------------------------------------------

    def start(self, host: EngineHost) -> None:
        self._host = host

    def open(self, lease: Lease) -> None:
        order = lease.order
        sequence = _Sequence(self, self._process, self._epoch, lease)
        self.live[order.slot, order.generation] = sequence
        sequence.begin()

    def stop(self, slot: int, generation: int) -> None:
        sequence = self.live.pop((slot, generation), None)
        self._world.record(
            "stopped", epoch=self._epoch, slot=slot, generation=generation
        )
        # Word may come late to whatever computes.
        if sequence is not None and not self._world.chance(0.3):
            sequence.forget()

    def close(self) -> None:
        for sequence in self.live.values():
            sequence.forget()

    # --- its life ---------------------------------------------------------------------

    def crash(self, seconds: float) -> None:
        """Lose everything, and be back after *seconds*."""
        assert self._host is not None, "started"
        for sequence in self.live.values():
            sequence.forget()
        self.live.clear()
        self._world.record("engine_lost", epoch=self._epoch)
        self._world.history.count("fault", "engine crash")
        self._host.lost("simulated")
        self._process.callLater(seconds, self._back)

    def _back(self) -> None:
        assert self._host is not None, "started"
        self._world.record("engine_back", epoch=self._epoch)
        self._host.back()

    def ended(self, order: OpenOrder) -> None:
        """A sequence has ended here."""
        self.live.pop((order.slot, order.generation), None)


class _Sequence:
    """
    What one lease gets.
    """

    def __init__(
        self, engine: SimulatedEngine, process: Process, epoch: int, lease: Lease
    ) -> None:
        self._engine = engine
        self._process = process
        self._world = process.world
        self._epoch = epoch
        self._lease = lease
        self._draw = process.world.random
        self._left = lease.order.limit
        self._parts = self._draw.choice((0, 1, 3, 8, 20))
        self._pace = self._draw.choice((0.0, 0.0005, 0.01, 0.2))
        self._next: IDelayedCall | None = None

    def _note(self, kind: str, **fields: Any) -> None:
        order = self._lease.order
        self._world.record(
            kind,
            epoch=self._epoch,
            slot=order.slot,
            generation=order.generation,
            nonce=nonce_in(order.rendered),
            **fields,
        )

    def begin(self) -> None:
        self._note(
            "leased",
            limit=self._lease.order.limit,
            sources=[source.sha256 for source in self._lease.order.sources],
        )
        self._later(self._draw.choice((0.0, 0.001, 0.05, 0.4)), self._open)

    def forget(self) -> None:
        """Compute no more."""
        if self._next is not None and self._next.active():
            self._next.cancel()

    def _later(self, seconds: float, step: Any) -> None:
        self._next = self._process.callLater(seconds * self._draw.random(), step)

    def _goes_wrong(self) -> bool:
        return self._world.chance(self._engine.misbehaves)

    def _open(self) -> None:
        if self._goes_wrong():
            how = self._draw.choice(("silent", "refused", "large", "emit first"))
            self._world.history.count("fault", f"engine {how}")
            if how == "silent":
                return
            if how == "refused":
                status = self._draw.choice((400, 413, 503, 599, 7))
                self._note("ended", how="refused", value=status)
                self._engine.ended(self._lease.order)
                self._lease.refused(status)
                return
            if how == "emit first":
                self._lease.emit(b"too early", 1)
                return
            tokens = self._lease.order.limit + 9000
        else:
            tokens = self._draw.randint(1, 300)
        self._note("opened", tokens=tokens)
        self._lease.opened(tokens)
        self._later(self._pace, self._go_on)

    def _go_on(self) -> None:
        if self._goes_wrong() and self._parts % 3 == 0:
            self._fault()
        elif self._parts and self._left:
            self._parts -= 1
            self._emit()
            self._later(self._pace, self._go_on)
        else:
            finish = 1 if self._left else 2
            self._note("ended", how="done", value=finish)
            self._engine.ended(self._lease.order)
            self._lease.done(finish)

    def _emit(self) -> None:
        tokens = self._draw.randint(1, min(3, self._left))
        size = self._draw.choice((0, 1, 2, 7, 60, 700))
        if self._draw.random() < 0.02:
            size = 5000
        data = made_text(self._draw, size)
        self._left -= tokens
        self._note("emitted", data=data, tokens=tokens)
        self._lease.emit(data, tokens)

    def _fault(self) -> None:
        how = self._draw.choice(("failed", "silent", "too much", "opened twice"))
        self._world.history.count("fault", f"engine {how}")
        if how == "failed":
            status = self._draw.choice((400, 500, 503, 42))
            self._note("ended", how="failed", value=status)
            self._engine.ended(self._lease.order)
            self._lease.failed(status)
        elif how == "too much":
            self._lease.emit(b"?", self._lease.order.limit + 1)
        elif how == "opened twice":
            self._lease.opened(1)


def made_text(draw: random.Random, size: int) -> bytes:
    """*size* bytes, cut wherever they end."""
    if size and draw.random() < 0.1:
        return draw.randbytes(size)
    text = b""
    while len(text) < size:
        text += draw.choice(_TEXTS)
    return text[:size]
