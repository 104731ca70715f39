"""
The `llama` engine in the runtime: leases to a child process, its output back to them.

Theory of operation. At any time the engine is in one of these states:

    STARTING  the first child loads; `start` has not fired
    SERVING   the child takes leases
    DOWN      the child was lost, or its successor loads; the role is inactive
    CLOSED    closed, or the first child could not load

A child that ends while SERVING takes its leases with it: the host is told, and the
device ends them (`device.md` §10, engine lost). The next child is started when the last
one is gone, after a pause that doubles with each failure; it must load the very file
that was declared at start, else it is not let in. All of it on the reactor's thread.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.engines.llama.declared_file import DeclaredFile
from twisted_aotx.engines.llama.environment import child_environment
from twisted_aotx.engines.llama.messages import (
    Done,
    Emit,
    Load,
    Message,
    Open,
    Opened,
    Ready,
    Refused,
    Stop,
)
from twisted_aotx.engines.llama.process import ChildProcess, Patience
from twisted_aotx.errors import EngineError
from twisted_aotx.interfaces import EngineFacts, EngineHost, IEngine, Lease

#: The child's program.
CHILD_MODULE: Final = "twisted_aotx.engines.llama.child"
#: Seconds before the next child is started: at first, and at most.
RESTART_SECONDS: Final = 0.5
RESTART_SECONDS_MAX: Final = 30.0
#: Seconds of service after which a failure counts as the first again.
STEADY_SECONDS: Final = 60.0


class State(IntEnum):
    """
    Of an engine.
    """

    STARTING = 0
    SERVING = 1
    DOWN = 2
    CLOSED = 3


@implementer(IEngine)
class LlamaEngine:
    """
    A model in a child process.

    Args:
        reactor: IReactorProcess, IReactorTime, IReactorThreads.
        facts: What the engine declares.
        file: The model file.
        load: What every child is told first.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        facts: EngineFacts,
        file: DeclaredFile,
        load: Load,
        patience: Patience | None = None,
    ) -> None:
        self.facts = facts
        self._reactor = reactor
        self._file = file
        self._load = load
        self._patience = patience or Patience()
        self._state = State.STARTING
        self._host: EngineHost | None = None
        self._starting: Deferred[None] | None = None
        self._closing: Deferred[None] | None = None
        self._child: ChildProcess | None = None
        self._leases: dict[int, Lease] = {}
        self._restart: IDelayedCall | None = None
        self._pause = RESTART_SECONDS
        self._ready_at = 0.0

    # --- IEngine ----------------------------------------------------------------

    def start(self, host: EngineHost) -> Deferred[None]:
        """See `IEngine.start`: fires when the model is loaded."""
        self._host = host
        starting: Deferred[None] = Deferred(lambda _: self._stop_child())
        self._starting = starting
        self._spawn()
        return starting

    def open(self, lease: Lease) -> None:
        """See `IEngine.open`. A lease that comes while DOWN is ended by the device."""
        if self._state != State.SERVING or self._child is None:
            return
        order = lease.order
        self._leases[order.slot] = lease
        self._child.send(
            Open(
                slot=order.slot,
                generation=order.generation,
                limit=order.limit,
                temperature=order.temperature,
                top_p=order.top_p,
                seed=order.seed,
                span_count=len(order.spans),
                prompt=Open.join(order.spans, order.rendered),
            )
        )
        self._child.watch()

    def stop(self, slot: int, generation: int) -> None:
        """See `IEngine.stop`."""
        if self._lease(slot, generation) is not None:
            del self._leases[slot]
            if self._child is not None:
                self._child.send(Stop(slot, generation))

    def close(self) -> Deferred[None] | None:
        """See `IEngine.close`: fires when the child is gone."""
        if self._starting is not None:
            self._starting.cancel()
        self._stop_child()
        if self._child is None:
            return None
        self._closing = Deferred()
        return self._closing

    # --- Owner --------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """See `process.Owner`."""
        return bool(self._leases)

    def child_ready(self, child: ChildProcess, ready: Ready) -> None:
        """See `process.Owner`."""
        if self._file.has_changed():
            child.fail("its file changed while it was loaded")
            return
        is_first, self._state = self._state == State.STARTING, State.SERVING
        self._ready_at = self._reactor.seconds()
        self._log.info(
            "loaded {path} in {seconds:.1f} s: {capacity} sequences of {tokens} tokens",
            path=str(self._file.path),
            seconds=ready.load_ms / 1000,
            capacity=self.facts.capacity,
            tokens=ready.context,
        )
        if is_first:
            self._start_ended(None)
        elif self._host is not None:
            self._host.back()

    def child_said(self, child: ChildProcess, message: Message) -> None:
        """See `process.Owner`: what is said of leases that are over is dropped."""
        match message:
            case Opened(slot, generation, prompt_tokens):
                if lease := self._lease(slot, generation):
                    lease.opened(prompt_tokens)
            case Emit(slot, generation, tokens, data):
                if lease := self._lease(slot, generation):
                    lease.emit(data, tokens)
            case Refused(slot, generation, status):
                if lease := self._lease(slot, generation):
                    del self._leases[slot]
                    lease.refused(status)
            case Done(slot, generation, finish):
                if lease := self._lease(slot, generation):
                    del self._leases[slot]
                    lease.done(finish)
            case _:
                child.fail(f"it spoke nonsense: {type(message).__name__}")

    def child_lost(self, child: ChildProcess, reason: str) -> None:
        """See `process.Owner`."""
        self._leases.clear()
        reason = f"{self._file.path}: {reason}"
        if self._state == State.STARTING:
            self._state = State.CLOSED
            self._start_ended(Failure(EngineError(reason)))
            return
        if self._state == State.SERVING:
            if self._reactor.seconds() - self._ready_at >= STEADY_SECONDS:
                self._pause = RESTART_SECONDS
            if self._host is not None:
                self._host.lost(reason)
        else:
            self._log.error("still lost: {reason}", reason=reason)
        self._state = State.DOWN

    def child_ended(self, child: ChildProcess) -> None:
        """See `process.Owner`."""
        self._child = None
        if self._closing is not None:
            self._closing.callback(None)
        elif self._state == State.DOWN:
            self._restart_later()

    # --- children -------------------------------------------------------------------

    def _spawn(self) -> None:
        child = ChildProcess(self._reactor, self, self._load, self._patience)
        self._child = child
        program = [sys.executable, "-P", "-m", CHILD_MODULE]
        try:
            self._reactor.spawnProcess(
                child, sys.executable, program, env=child_environment()
            )
        except OSError as error:
            self.child_lost(child, f"no process can be started: {error.strerror}")
            self.child_ended(child)

    def _restart_later(self) -> None:
        self._log.info("the next try is in {seconds:g} s", seconds=self._pause)
        self._restart = self._reactor.callLater(self._pause, self._begin_restart)
        self._pause = min(self._pause * 2, RESTART_SECONDS_MAX)

    def _begin_restart(self) -> None:
        """See that the file is the same, then start; hashing takes a while."""
        self._restart = None
        if not self._file.has_changed():
            self._spawn()
            return
        pool = self._reactor.getThreadPool()
        verified = deferToThreadPool(self._reactor, pool, self._file.verify)
        verified.addBoth(self._file_verified)

    def _file_verified(self, result: object) -> None:
        if self._state != State.DOWN:
            return
        if isinstance(result, Failure):
            self._log.error("still lost: {why}", why=result.getErrorMessage())
            self._restart_later()
        else:
            self._spawn()

    def _stop_child(self) -> None:
        self._state = State.CLOSED
        self._leases.clear()
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        if self._child is not None:
            self._child.close()

    def _start_ended(self, result: Failure | None) -> None:
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.callback(result)

    def _lease(self, slot: int, generation: int) -> Lease | None:
        lease = self._leases.get(slot)
        if lease is None or lease.order.generation != generation:
            return None
        return lease
