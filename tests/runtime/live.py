"""
A runtime on the real device: with its threads, or stepped by hand.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import EPOCH, HASH_KEY, SEED_KEY, grant, message, payload_of
from tests.runtime.doubles import ListedEngine, ThreadedReactor, new_store
from twisted_aotx.device.host import Device
from twisted_aotx.engines.formats import CHATML
from twisted_aotx.engines.registry import make_engine
from twisted_aotx.interfaces import EngineFacts, IEngine
from twisted_aotx.runtime.bridge import EngineBridge
from twisted_aotx.runtime.service import RuntimeService
from twisted_aotx.wire.numbers import TERMINAL_PHASES, Role
from twisted_aotx.wire.packet import ReplyHeader

#: The role of the host engine; the kernels' own has another.
HOST = Role.LANGUAGE_Q4
HELLO = payload_of(message(1, b"hello"))


def host_facts() -> EngineFacts:
    return EngineFacts(
        role=HOST,
        model_sha256=bytes(range(32)),
        modalities=1,
        capacity=3,
        sequence_tokens=SMALL.sequence_tokens,
        message_format=CHATML,
    )


class Live(Driver):
    """
    A driver whose device ticks by itself, in the runtime's thread.
    """

    def __init__(self, host_engine: IEngine) -> None:
        self.reactor = ThreadedReactor()
        engines = [
            make_engine(
                "reference",
                Role.LANGUAGE,
                {},
                SMALL.slots,
                SMALL.sequence_tokens,
                Path("/"),
            ),
            host_engine,
        ]
        self.live = Device(
            SMALL,
            epoch=EPOCH,
            hash_key=HASH_KEY,
            seed_key=SEED_KEY,
            engines=engines,
        )
        super().__init__(self.live, SMALL)
        self._folder = tempfile.TemporaryDirectory()
        store = new_store(Path(self._folder.name))
        self.service = RuntimeService(self.reactor, self.live, engines, store)
        self.service.on_replies = self._collect
        self._answered: list[int] = []

    def start(self) -> None:
        started: list[Any] = []
        self.service.start().addBoth(started.append)
        # A first run compiles the kernels.
        end = time.monotonic() + 560
        while not started and time.monotonic() < end:
            self.reactor.settle()
            time.sleep(0.01)
        assert started == [None]
        models = 1 << Role.LANGUAGE | 1 << HOST
        assert self.install(grant(models=models, tokens=4096, requests=16)) == 200

    def stop(self) -> None:
        stopped: list[Any] = []
        self.service.stop().addBoth(stopped.append)

        def has_stopped() -> bool:
            # It looks now and then whether usage was written; time goes on here as it
            # does outside, or slower.
            self.reactor.advance(0.001)
            return bool(stopped)

        self.reactor.until(has_stopped)
        assert stopped == [None]
        self._folder.cleanup()

    def raw(
        self, packet: bytes, *, channel: int = 1, length: int | None = None
    ) -> bytes:
        """Publish, wait for the doorbell, take."""
        self.publish(channel, packet, length=length)
        self.reactor.until(lambda: channel in self._answered)
        self._answered.remove(channel)
        return self.take(channel)

    def until_phase(self, number: int, *phases: int) -> ReplyHeader:
        """READ until the request is in one of *phases*."""
        seen: list[ReplyHeader] = []

        def reached() -> bool:
            seen.append(self.read(number)[0])
            return seen[-1].phase in phases

        self.reactor.until(reached)
        return seen[-1]

    def whole(self, number: int) -> tuple[ReplyHeader, bytes]:
        """The terminal reply of a request and all of its output."""
        self.until_phase(number, *TERMINAL_PHASES)
        return self.read(number)

    def _collect(self) -> None:
        self._answered.extend(self.live.collect())


class Stepped(Driver):
    """
    A driver whose device ticks when it is told to; an engine behind its bridge.
    """

    def __init__(self) -> None:
        self.engine = ListedEngine(host_facts())
        self.stepped = Device(
            SMALL,
            epoch=EPOCH,
            hash_key=HASH_KEY,
            seed_key=SEED_KEY,
            engines=[self.engine],
        )
        super().__init__(self.stepped, SMALL)
        assert self.install(grant(models=1 << HOST, tokens=4096, requests=16)) == 200
        self.bridge = EngineBridge(ThreadedReactor(), self.stepped, [self.engine])
        self.bridge.serve()

    def begin(self, number: int) -> None:
        assert self.submit(number, payload=HELLO, role=HOST) == 202

    def is_rung(self) -> bool:
        """Whether somebody woke the device since the last time."""
        try:
            return os.eventfd_read(self.stepped.doorbell) > 0
        except BlockingIOError:
            return False
