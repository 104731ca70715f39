"""
A runtime process: what `wiring_runtime.RuntimePart` puts together, from the same parts
and in the same order, with its threads stepped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed

from tests.device.capacities import SMALL
from tests.simulation.device import SteppedDevice, SteppedMediaWorker
from tests.simulation.engine import SimulatedEngine
from tests.simulation.process import Process
from tests.simulation.storing import FaultyStore, SteppedSaver
from tests.simulation.world import World
from twisted_aotx.broker.service import BrokerService, Table
from twisted_aotx.engines.reference import make as make_reference
from twisted_aotx.interfaces import IEngine
from twisted_aotx.runtime.restoring import restore
from twisted_aotx.runtime.service import RuntimeService
from twisted_aotx.statedir import StateDirectory
from twisted_aotx.watch.service import WatchService
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.numbers import Role
from twisted_aotx.wire.watch import watch_path

SOCKET_PATH: Final = "/run/service.sock"
#: What the kernels' model says, whoever asks.
FIXED_TEXT: Final = "What the kernels' own model says: ÄÖÜ and no more."


class SteppedRuntime(RuntimeService):
    """
    The service without threads.
    """

    def __init__(
        self,
        process: Process,
        device: SteppedDevice,
        engines: Sequence[IEngine],
        store: FaultyStore,
    ) -> None:
        super().__init__(process, device, engines, store)
        self._saver.free()
        self._stepped = SteppedSaver(process, device, store)
        self._saver = self._stepped
        self._media = SteppedMediaWorker(process, device)
        self._own = device
        device.on_store_bell = self._stepped.rung

    def _warm_up(self) -> Deferred[None]:
        restore(self._device, self._store)
        return succeed(None)

    def _watched(self, thread: str, name: str, work: Any) -> Deferred[None]:
        if name == "device":
            return self._own.begin()
        return self._stepped.begin()

    def free(self) -> None:
        """What the kernel does with the descriptors of a process that is gone."""
        self._stepped.free()
        self._own.free()


class Runtime:
    """
    One activation.
    """

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.process = world.process("runtime")
        self._folder = folder
        self._directory = StateDirectory(folder)
        self._device: SteppedDevice | None = None
        self._broker: BrokerService | None = None
        self._watches: WatchService | None = None
        self._service: SteppedRuntime | None = None
        self.store: FaultyStore | None = None
        self.engine: SimulatedEngine | None = None
        self.epoch = 0
        self.is_ready = False
        self.is_over = False

    @property
    def device(self) -> SteppedDevice:
        """Of a runtime that was started."""
        assert self._device is not None, "not started"
        return self._device

    def start(self) -> Deferred[None]:
        """Come up; fires when the socket is open."""
        return Deferred.fromCoroutine(self._start())

    async def _start(self) -> None:
        process, capacities = self.process, SMALL
        self._directory.lock()
        process.on_kill.append(self._directory.unlock)
        self.epoch = self._directory.raise_epoch()
        self.world.record("runtime_started", epoch=self.epoch)
        self.engine = SimulatedEngine(process, self.epoch, capacities)
        engines: list[IEngine] = [
            self.engine,
            make_reference(
                Role.LANGUAGE_Q4,
                {"text": FIXED_TEXT, "rate": 200},
                capacities.slots,
                capacities.sequence_tokens,
            ),
        ]
        self.store = FaultyStore(process, self._folder)
        process.on_kill.append(self.store.close)
        device = SteppedDevice(process, capacities, self.epoch, engines)
        self._device = device
        self._service = SteppedRuntime(process, device, engines, self.store)
        process.on_kill.append(self._service.free)
        self._broker = BrokerService(
            process,
            device,
            socket_path=SOCKET_PATH,
            grants_path=str(self._folder / "grants"),
            system=process.system,
        )
        self._service.on_replies = self._rung
        await self._service.start()
        self._watches = WatchService(
            process,
            device,
            epoch=self.epoch,
            socket_path=watch_path(SOCKET_PATH),
            system=process.system,
        )
        self._watches.start()
        await self._broker.start()
        self.is_ready = True
        self.world.record("runtime_ready", epoch=self.epoch)

    def _rung(self) -> None:
        if self._watches is not None:
            self._watches.progress_published()
        if self._broker is not None:
            self._broker.replies_published()

    def reload(self) -> Deferred[Table]:
        """Take the grants file as it is now."""
        assert self._broker is not None, "started"
        return self._broker.reload(lambda: None)

    def kill(self) -> None:
        """SIGKILL."""
        self.is_over = True
        self.is_ready = False
        self.world.record("runtime_killed", epoch=self.epoch)
        self.process.kill()

    def stop(self) -> Deferred[None]:
        """SIGTERM; fires when all is closed."""
        self.is_ready = False
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self.world.record("runtime_stopping", epoch=self.epoch)
        if self._broker is not None:
            await self._broker.stop()
        if self._watches is not None:
            await self._watches.stop()
        if self._service is not None:
            await self._service.stop()
        self._directory.unlock()
        self.is_over = True
        # Whether all usage is in the store, for certain.
        is_saved = False
        if self._device is not None and self.store is not None:
            stats = self._device.stats()
            is_saved = not (stats.usage_pending or stats.held or self.store.fails)
        self.world.record("runtime_stopped", epoch=self.epoch, is_saved=is_saved)


def write_grants(folder: Path, revision: int, rows: Sequence[GrantRow]) -> None:
    """The grants file, as `aotx grants` writes it."""
    path = folder / "grants"
    new = folder / "grants.new"
    new.write_bytes(GrantTable(revision, tuple(rows)).pack())
    new.chmod(0o600)
    os.rename(new, path)
