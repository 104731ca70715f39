"""
A runtime as a part of a process: lock, epoch, engines, store, device, broker (layer 5).

Start order (`device.md` §16): lock the state directory, make the engines, raise the
epoch, open the state store, make the device with fresh secrets, start runtime, metrics
endpoint [D10] and broker. The socket opens last; what fails before leaves none.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from twisted_aotx.broker.errors import GrantsRefused
from twisted_aotx.broker.service import BrokerService
from twisted_aotx.config.runtime import ModelSettings, RuntimeSettings
from twisted_aotx.engines.registry import make_engine
from twisted_aotx.errors import ConfigError, UnknownEngine
from twisted_aotx.grants_state import GrantsState
from twisted_aotx.interfaces import IEngine
from twisted_aotx.journal.errors import StoreError
from twisted_aotx.journal.store import Store
from twisted_aotx.listening import Listening
from twisted_aotx.runtime.metrics import RuntimeCollector, RuntimeState
from twisted_aotx.runtime.scrape import ScrapeSite
from twisted_aotx.runtime.service import RuntimeService
from twisted_aotx.runtime.threads import in_thread
from twisted_aotx.statedir import StateDirectory
from twisted_aotx.watch.service import WatchService
from twisted_aotx.wire.watch import watch_path

if TYPE_CHECKING:
    from twisted_aotx.device.host import Device

# In the class it would be named after the class.
_log = Logger("aotx.runtime")

#: Bits of the secrets that key the device's indexes and seeds [D6].
SECRET_BITS: Final = 64


_Made = TypeVar("_Made")


class RuntimePart:
    """
    One runtime. `start` fires when the socket is open; `reload` takes the grants file.
    """

    name = "runtime"
    #: The device's thread and an engine have ten each, usage and store five.
    stop_seconds = 30.0

    def __init__(self, reactor: Any, settings: RuntimeSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._directory = StateDirectory(settings.state)
        self._engines: list[IEngine] = []
        #: The runtime's, once there is one.
        self._store: Store | None = None
        self._runtime: RuntimeService | None = None
        self._broker: BrokerService | None = None
        self._watches: WatchService | None = None
        #: What it tells of itself, for any registry.
        self.collector = RuntimeCollector(self._state)
        self._scrapes = ScrapeSite(reactor, self.collector)
        places = () if settings.metrics is None else (settings.metrics,)
        self._listening = Listening(reactor, places)
        self._reloads = 0
        self._judged: bytes | None = None

    async def start(self, died: Callable[[str], None]) -> None:
        """
        Come up.

        Args:
            died: Told when the device's thread ends although nobody stopped it.

        Raises:
            AOTXError, OSError: the reason, in its text.
        """
        for notice in self._settings.notices:
            _log.warn("runtime.json: {notice}", notice=notice)
        self._directory.lock()
        # Makers read and hash model files, which takes seconds for each gigabyte.
        self._engines = await self._in_thread("aotx engines", self._made_engines)
        epoch = self._directory.raise_epoch()
        _log.info(
            "epoch {epoch}, backend {backend}, engines: {engines}",
            epoch=epoch,
            backend=self._settings.backend,
            engines=", ".join(model.engine for model in self._settings.models),
        )
        _log.info("preparing the device; a first start compiles kernels for minutes")
        self._store = await self._in_thread("aotx store start", self._opened_store)
        device = await self._in_thread("aotx device start", lambda: self._device(epoch))
        runtime = RuntimeService(self._reactor, device, self._engines, self._store)
        self._runtime = runtime
        broker = BrokerService(
            self._reactor,
            device,
            socket_path=str(self._settings.socket),
            grants_path=str(self._settings.grants),
        )
        self._broker = broker
        runtime.on_replies = self._replies_published
        runtime.on_death = lambda failure: died(failure.getErrorMessage())
        await runtime.start()
        await self._listening.open(self._scrapes)
        for address in self._listening.addresses():
            _log.info("metrics on {address}", address=address)
        self._offer_watches(device, epoch)
        await broker.start()
        self._tell(())
        _log.info("ready: {socket}", socket=self._settings.socket)

    def _offer_watches(self, device: Device, epoch: int) -> None:
        """A service without them is slower, and no worse."""
        watches = WatchService(
            self._reactor,
            device,
            epoch=epoch,
            socket_path=watch_path(str(self._settings.socket)),
        )
        try:
            watches.start()
        except CannotListenError as refused:
            _log.warn("no watches are offered: {why}", why=refused.socketError)
        else:
            self._watches = watches

    def _replies_published(self) -> None:
        """The broker's doorbell. Progress first: it is known before its READ is."""
        if self._watches is not None:
            self._watches.progress_published()
        if self._broker is not None:
            self._broker.replies_published()

    def read_again(self) -> None:
        """
        The grants file is read at its turn on channel 0; the rest needs a restart.
        """
        self._judged = None

    async def reload(self, late: Callable[[], object]) -> None:
        """
        Have the device take the grants file as it is now (`device.md` §16).

        Raises:
            BrokerError: the old table stays in force; the reason, in its text.
        """
        assert self._broker is not None, "reload before start"
        try:
            table = await self._broker.reload(late)
        except GrantsRefused as refused:
            self._judged = refused.digest
            raise
        self._judged = table.digest

    def reloaded(self, reasons: Sequence[str]) -> None:
        """Tell who waits for it how it ended."""
        self._reloads += 1
        self._tell(reasons)

    def _tell(self, reasons: Sequence[str]) -> None:
        table = self._broker.table if self._broker is not None else None
        if table is None:
            return
        state = GrantsState(
            pid=os.getpid(),
            grants=self._settings.grants,
            reloads=self._reloads,
            revision=table.revision,
            digest=table.digest,
            judged=self._judged,
            reasons=tuple(reasons),
        )
        try:
            state.write(self._settings.state)
        except OSError as error:
            _log.error("grants.state is out of date: {why}", why=error.strerror)

    async def stop(self) -> None:
        """
        Close the socket, the device and the engines, and let the lock go.
        """
        if self._broker is not None:
            GrantsState.remove(self._settings.state)
            await self._broker.stop()
        if self._watches is not None:
            await self._watches.stop()
        await self._listening.close()
        self._scrapes.close()
        if self._runtime is not None:
            await self._runtime.stop()
        else:
            if self._store is not None:
                self._store.close()
            for engine in self._engines:
                await maybeDeferred(engine.close)
        self._directory.unlock()

    def _state(self) -> RuntimeState | None:
        return None if self._runtime is None else self._runtime.state()

    def _made_engines(self) -> list[IEngine]:
        """One for each model, in order; the first that cannot be made ends it."""
        return [self._engine(model) for model in self._settings.models]

    def _engine(self, model: ModelSettings) -> IEngine:
        """
        Raises:
            ConfigError, EngineError: no such engine, or an option is wrong.
        """
        capacities = self._settings.capacities
        try:
            return make_engine(
                model.engine,
                model.role,
                model.options,
                capacities.slots,
                capacities.sequence_tokens,
                model.folder,
            )
        except ConfigError as error:
            raise _engine_fault(model, error.path, error.reason) from None
        except UnknownEngine as error:
            raise _engine_fault(model, "engine", str(error)) from None

    def _opened_store(self) -> Store:
        """
        Raises:
            StoreError: the file cannot be used; its name is in the text.
        """
        store = Store(
            self._settings.state,
            store_bytes=self._settings.store_bytes,
            now=lambda: int(time.time()),
        )
        facts = [engine.facts for engine in self._engines]
        try:
            store.name_models({each.role: each.model_sha256 for each in facts})
        except StoreError as error:
            # They are names for people; the runtime holds until it can write.
            _log.warn("models are not named in the store: {why}", why=str(error))
        return store

    def _device(self, epoch: int) -> Device:
        """Import the kernels, their cache in its place, and allocate the tables."""
        # numba takes a second to import, and finds its cache only at that moment.
        from twisted_aotx.device.cache import prepare_cache

        prepare_cache()
        from twisted_aotx.device.host import Device

        return Device(
            self._settings.capacities,
            epoch=epoch,
            hash_key=secrets.randbits(SECRET_BITS),
            seed_key=secrets.randbits(SECRET_BITS),
            engines=self._engines,
            backend=self._settings.backend,
        )

    def _in_thread(self, name: str, work: Callable[[], _Made]) -> Deferred[_Made]:
        """Hashing, importing and reading take seconds."""
        return in_thread(self._reactor, name, work)


def _engine_fault(model: ModelSettings, key: str, reason: str) -> ConfigError:
    return ConfigError(f"runtime.json: models.{model.name}.{key}", reason)
