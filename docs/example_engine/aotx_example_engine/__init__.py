"""
An engine that answers with the user's last message, backwards.

Not a model, but a whole engine: options, facts, several leases at once, tokens at a
rate, the limit, the end token, stopping and closing. `docs/engines.md` of twisted-aotx
explains each step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import attrs
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from zope.interface import implementer

from twisted_aotx.engines.formats import CHATML
from twisted_aotx.errors import ConfigError
from twisted_aotx.interfaces import EngineFacts, EngineHost, IEngine, Lease
from twisted_aotx.wire.messages import TextPart, unpack_messages
from twisted_aotx.wire.numbers import Finish, MessageRole, Modality

#: Tokens per second, the most that `rate` may say.
RATE_MAX = 1000


def make(
    role: int, options: Mapping[str, Any], slots: int, sequence_tokens: int
) -> BackwardsEngine:
    """
    Make the engine; the one option is `rate`, 1..1000 tokens per second (50).
    """
    for option in options:
        if option != "rate":
            raise ConfigError(option, "the backwards engine knows only rate")
    rate = options.get("rate", 50)
    if type(rate) is not int or not 1 <= rate <= RATE_MAX:
        raise ConfigError("rate", f"must be an integer from 1 to {RATE_MAX}")
    facts = EngineFacts(
        role=role,
        model_sha256=hashlib.sha256(b"aotx-example-engine 1.0").digest(),
        modalities=Modality.TEXT,
        capacity=slots - 1,
        sequence_tokens=sequence_tokens,
        message_format=CHATML,
    )
    return BackwardsEngine(facts, rate, reactor)  # type: ignore[arg-type]


@implementer(IEngine)
@attrs.define(eq=False)
class BackwardsEngine:
    """
    Serves each lease with a `Sequence` of its own.
    """

    facts: EngineFacts
    rate: int
    clock: IReactorTime
    _sequences: dict[int, Sequence] = attrs.field(factory=dict, init=False)

    def start(self, host: EngineHost) -> None:
        """There is no model to load."""

    def open(self, lease: Lease) -> None:
        """Begin the answer; its bytes come by and by."""
        answer = last_words(lease.order.payload)[::-1].encode()
        lease.opened(len(lease.order.rendered))
        sequence = Sequence(lease, answer)
        self._sequences[lease.order.slot] = sequence
        sequence.run(self.clock, 1 / self.rate)

    def stop(self, slot: int, generation: int) -> None:
        """The lease has ended, and it was not us who ended it."""
        self._sequences.pop(slot).halt()

    def close(self) -> None:
        """No verb is called after this one."""
        for sequence in self._sequences.values():
            sequence.halt()


@attrs.define(eq=False)
class Sequence:
    """
    One answer on its way out, a byte a token.
    """

    lease: Lease
    answer: bytes
    sent: int = 0
    _loop: LoopingCall | None = None

    def run(self, clock: IReactorTime, interval: float) -> None:
        """Send a token each *interval* seconds."""
        self._loop = LoopingCall(self._next)
        self._loop.clock = clock
        self._loop.start(interval)

    def halt(self) -> None:
        """Send nothing more. Also after the end."""
        if self._loop is not None and self._loop.running:
            self._loop.stop()

    def _next(self) -> None:
        token = self.answer[self.sent : self.sent + 1]
        # The end token is sampled like any other and has no bytes.
        self.lease.emit(token, 1)
        self.sent += 1
        if not token:
            self.lease.done(Finish.STOP)
            self.halt()
        elif self.sent == self.lease.order.limit:
            self.lease.done(Finish.LENGTH)
            self.halt()


def last_words(payload: bytes) -> str:
    """The text of the last user message, or nothing."""
    for message in reversed(unpack_messages(payload)):
        if message.role == MessageRole.USER:
            texts = [part.text for part in message.parts if isinstance(part, TextPart)]
            return b"".join(texts).decode()
    return ""
