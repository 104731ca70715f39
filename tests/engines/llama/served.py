"""
Engines with a real child process, on the real reactor, and what is known of the child.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from twisted.internet import reactor
from twisted.internet.task import deferLater

from tests.engines.llama.tiny import Tiny
from twisted_aotx.device.numbers import Event
from twisted_aotx.engines.llama.engine import LlamaEngine
from twisted_aotx.engines.llama.maker import make
from twisted_aotx.engines.llama.process import Patience
from twisted_aotx.testing.engines import RecordedHost, RecordedLease, sample_order

_reactor: Any = reactor
#: Seconds after which what a test waits for has failed to happen.
PATIENCE = 60.0
#: Slots and tokens of the device that these engines are made for.
SLOTS = 9
SEQUENCE_TOKENS = 1024


async def until(reached: Callable[[], Any], what: str = "it") -> None:
    """Wait for *reached* to be true."""
    deadline = _reactor.seconds() + PATIENCE
    while not reached():
        assert _reactor.seconds() < deadline, f"{what} did not happen"
        await deferLater(_reactor, 0.005)


async def pause(seconds: float) -> None:
    await deferLater(_reactor, seconds)


@attrs.define
class Served:
    """
    A started engine, its host, and orders for it.
    """

    engine: LlamaEngine
    host: RecordedHost = attrs.field(factory=RecordedHost)

    async def start(self) -> None:
        await self.engine.start(self.host)

    async def close(self) -> None:
        closing = self.engine.close()
        if closing is not None:
            await closing

    def open(self, text: bytes = b"hello", **changes: Any) -> RecordedLease:
        order = sample_order(self.engine.facts.message_format, text, **changes)
        lease = RecordedLease(order)
        self.engine.open(lease)
        return lease

    async def answer(self, text: bytes = b"hello", **changes: Any) -> RecordedLease:
        """One lease, to its end."""
        lease = self.open(text, **changes)
        await until(lambda: is_over(lease), "the end of a lease")
        return lease

    @property
    def pid(self) -> int:
        """Of the child."""
        child = self.engine._child
        assert child is not None
        assert child.transport is not None
        pid: int = child.transport.pid
        return pid

    def kill(self, number: int) -> None:
        os.kill(self.pid, number)


def is_over(lease: RecordedLease) -> bool:
    last = lease.reports[-1][0] if lease.reports else None
    return last in (Event.REFUSED, Event.DONE, Event.FAILED)


def made(path: Path, patience: Patience | None = None, **options: Any) -> Served:
    """The engine as its maker makes it, for the default language role."""
    chosen = {"path": str(path), "threads": 1, **options}
    engine = make(2, chosen, SLOTS, SEQUENCE_TOKENS)
    if patience is not None:
        engine._patience = patience
    return Served(engine)


def is_running(pid: int) -> bool:
    """Whether there is such a process that is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


#: Slow enough to be caught in the middle: a step takes a millisecond or so.
SLOW = Tiny(embedding=256, feed_forward=1024, layers=4)
