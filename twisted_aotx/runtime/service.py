"""
`RuntimeService`: starts engines and device, owns the device's thread, stops both.

Theory of operation. `start` lets every engine get ready while a thread compiles the
kernels and gives the device what the store keeps; then the device's thread runs
`IDevice.run`, the store's thread `Saver.run`, and the doorbells are in the reactor.
`stop` has the usage written that waits [D11], takes the doorbells out, closes the
device, waits for its thread, lets the store's thread save what is left, and closes the
engines, each wait with a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, FirstError, gatherResults, maybeDeferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from twisted_aotx.devices import IDevice
from twisted_aotx.errors import EngineError
from twisted_aotx.interfaces import IEngine
from twisted_aotx.journal.store import Store
from twisted_aotx.runtime.bridge import EngineBridge
from twisted_aotx.runtime.doorbell import Doorbell
from twisted_aotx.runtime.media_worker import MediaWorker
from twisted_aotx.runtime.metrics import RuntimeState
from twisted_aotx.runtime.restoring import restore
from twisted_aotx.runtime.saving import Saver
from twisted_aotx.runtime.threads import in_thread, stand_back
from twisted_aotx.wire.numbers import PolicyState

#: Seconds between two lines that say that kernels are still being compiled.
PROGRESS_SECONDS: Final = 5
#: Seconds that the device's thread may take to return after `close`.
THREAD_SECONDS: Final = 10
#: Seconds that usage records which wait may take to be written at the end, and between
#: two looks at them.
FLUSH_SECONDS: Final = 5
FLUSH_LOOK_SECONDS: Final = 0.02
#: How far the store's thread stands back; replies wait for it, but not many.
SAVING_NICENESS: Final = 5
#: Seconds that the store's thread may take to save what is left.
STORE_SECONDS: Final = 5
#: Seconds that one engine may take to close.
ENGINE_CLOSE_SECONDS: Final = 10


def _nothing() -> None:
    """The default of `on_replies`."""


class RuntimeService(Service):
    """
    The device, its thread and its engines.

    Args:
        reactor: IReactorTime, IReactorFDSet and IReactorFromThreads.
        device: made, not yet warm; see `IDevice`.
        engines: the ones that the device was made with, one per role.
        store: open; it is the service's from now on.
    """

    name = "runtime"
    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        device: IDevice,
        engines: Sequence[IEngine],
        store: Store,
    ) -> None:
        self._reactor = reactor
        self._device = device
        self._store = store
        self._saver = Saver(device, store)
        self._engines = tuple(engines)
        self._bridge = EngineBridge(reactor, device, self._engines)
        self._media = MediaWorker(device)
        self._readers: list[Doorbell] = []
        #: What `start` waits for; `stop` gives up on it.
        self._getting_ready: Deferred[Any] | None = None
        #: Fire when the device's and the store's thread have ended; None before they
        #: were started.
        self._thread_gone: Deferred[None] | None = None
        self._saver_gone: Deferred[None] | None = None
        #: The warm-up's thread may read the store.
        self._is_restoring = False
        self._stopping: Deferred[None] | None = None
        #: Called on the reactor's thread when the device has published replies.
        self.on_replies: Callable[[], None] = _nothing
        #: Called when a thread of ours has died, after one event in the log.
        self.on_death: Callable[[Failure], None] = self._stop_reactor

    def start(self) -> Deferred[None]:
        """
        Start engines and device; fires when the device ticks. Call it once.

        Fails with what the warm-up or an engine's `start` failed with, or with
        `CancelledError` when `stop` came first; all that was started is then closed.
        """
        return Deferred.fromCoroutine(self._start())

    def stop(self) -> Deferred[None]:
        """Stop everything, also during `start`; fires when all is closed."""
        if self._stopping is None:
            self._stopping = Deferred()
            Deferred.fromCoroutine(self._stop()).chainDeferred(self._stopping)
        return self._stopping

    def stopService(self) -> Deferred[None]:
        """See `IService`: the same as `stop`."""
        self.running = False
        return self.stop()

    def state(self) -> RuntimeState | None:
        """How it is now; None unless the device runs. Reactor thread."""
        gone = self._thread_gone
        if gone is None or gone.called or self._stopping is not None:
            return None
        return RuntimeState(
            device=self._device.stats(),
            saving=self._saver.state,
            losses=dict(self._bridge.losses),
            returns=dict(self._bridge.returns),
        )

    # --- starting ---------------------------------------------------------------

    async def _start(self) -> None:
        waits = [self._warm_up()]
        for engine in self._engines:
            waits.append(maybeDeferred(engine.start, self._bridge.host(engine)))
        self._getting_ready = gatherResults(waits, consumeErrors=True)
        try:
            await self._getting_ready
        except FirstError as error:
            self._getting_ready = None
            if self._stopping is None:
                await self.stop()
            error.subFailure.raiseException()
        self._getting_ready = None
        self._run_device()
        self._log.info("the device runs; engines: {count}", count=len(self._engines))

    def _warm_up(self) -> Deferred[None]:
        """Compile in a thread; say so while it takes long."""
        began = self._reactor.seconds()

        def progress() -> None:
            self._log.info(
                "compiling kernels, {seconds:.0f} s so far; a second start is faster",
                seconds=self._reactor.seconds() - began,
            )

        def finish(result: Any) -> Any:
            lines.stop()
            if not isinstance(result, Failure):
                self._log.info(
                    "kernels are ready after {seconds:.1f} s",
                    seconds=self._reactor.seconds() - began,
                )
            return result

        lines = LoopingCall(progress)
        lines.clock = self._reactor
        lines.start(PROGRESS_SECONDS, now=False)
        self._is_restoring = True
        ready = in_thread(self._reactor, "aotx-warm-up", self._get_device_ready)
        return ready.addBoth(finish)

    def _get_device_ready(self) -> None:
        try:
            self._device.warm_up()
            if self._stopping is None:
                restore(self._device, self._store)
        finally:
            self._is_restoring = False

    def _run_device(self) -> None:
        self._readers = [
            Doorbell(self._device.broker_doorbell, "broker", lambda: self.on_replies()),
            Doorbell(self._device.engine_doorbell, "engine", self._engine_rung),
        ]
        for reader in self._readers:
            self._reactor.addReader(reader)
        self._bridge.serve()
        self._thread_gone = self._watched("aotx-device", "device", self._device.run)
        self._saver_gone = self._watched("aotx-store", "store", self._save)

    def _save(self) -> None:
        """The store's thread: a large source is much to write."""
        stand_back(SAVING_NICENESS)
        self._saver.run()

    def _engine_rung(self) -> None:
        """The device published orders or media jobs, or made room in a ring."""
        self._media.doorbell_rung()
        self._bridge.doorbell_rung()

    def _watched(
        self, thread: str, name: str, work: Callable[[], None]
    ) -> Deferred[None]:
        """Run *work* in a thread that may end only while we stop; fires then."""
        gone: Deferred[None] = Deferred()

        def ended(result: Any) -> None:
            if not isinstance(result, Failure) and self._stopping is None:
                result = Failure(EngineError("its loop returned by itself"))
            if isinstance(result, Failure):
                self._log.failure(
                    "the {name}'s thread has died: {reason}",
                    result,
                    name=name,
                    reason=result.getErrorMessage(),
                )
                if self._stopping is None:
                    self.on_death(result)
            gone.callback(None)

        in_thread(self._reactor, thread, work).addBoth(ended)
        return gone

    def _stop_reactor(self, reason: Failure) -> None:
        """The default of `on_death`."""
        self._reactor.stop()

    # --- stopping ---------------------------------------------------------------

    async def _stop(self) -> None:
        if self._getting_ready is not None:
            self._getting_ready.cancel()
        if self._thread_gone is not None:
            await self._flush()
        for reader in self._readers:
            self._reactor.removeReader(reader)
        self._bridge.close()
        self._media.close()
        has_gone = True
        if self._thread_gone is not None:
            # Not while a warm-up compiles: every entry of the device waits for it.
            self._device.close()
            has_gone = await self._closes(
                self._thread_gone, THREAD_SECONDS, "the device's thread"
            )
        has_gone = await self._close_store() and has_gone
        if has_gone:
            self._device.free()
        for engine in self._engines:
            await self._closes(
                maybeDeferred(engine.close),
                ENGINE_CLOSE_SECONDS,
                f"the engine of role {engine.facts.role}",
            )

    async def _flush(self) -> None:
        """Have the usage records written that wait for review [D11]."""
        self._device.flush()
        end = self._reactor.seconds() + FLUSH_SECONDS
        while self._reactor.seconds() < end:
            stats = self._device.stats()
            is_lost = stats.held or stats.policy_state == PolicyState.ERROR
            if is_lost or not stats.usage_pending:
                return
            await deferLater(self._reactor, FLUSH_LOOK_SECONDS)
        self._log.error("usage records were not written within the time they have")

    async def _close_store(self) -> bool:
        """What the device has published is saved first; whether the thread is gone."""
        if self._saver_gone is not None:
            self._saver.stop()
            if not await self._closes(
                self._saver_gone, STORE_SECONDS, "the state store"
            ):
                return False
        elif not self._is_restoring:
            self._store.close()
        self._saver.free()
        return True

    async def _closes(self, wait: Deferred[Any], seconds: float, what: str) -> bool:
        """Wait for *wait*, at most *seconds*; whether it fired. Errors are logged."""
        try:
            await wait.addTimeout(seconds, self._reactor)
        except DeferredTimeout:
            self._log.error(
                "{what} did not close within {seconds} s", what=what, seconds=seconds
            )
            return False
        except Exception:
            self._log.failure("{what} did not close well", what=what)
        return True
