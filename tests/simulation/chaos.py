"""
What befalls processes, clock, engine and grants.
"""

from __future__ import annotations

from typing import Final

from tests.simulation.people import settings
from tests.simulation.process import Process
from tests.simulation.scene import PORTS, Scene

#: Seconds between two deeds, at most.
_PAUSE_SECONDS: Final = 5.0
#: Seconds that an orderly stop of a runtime may take, and a start.
_PATIENCE_SECONDS: Final = 60.0


class Chaos:
    """
    The deeds of a run, one after the other.
    """

    def __init__(self, scene: Scene, process: Process) -> None:
        self._scene = scene
        self._world = scene.world
        self._process = process

    async def run(self, seconds: float) -> None:
        """Do what the profile allows, for *seconds*."""
        end = self._world.now + seconds
        deeds = self._scene.profile.deeds
        while deeds:
            await self._process.sleep(self._world.random.random() * _PAUSE_SECONDS)
            if self._world.now >= end:
                return
            name = self._world.random.choice(deeds)
            self._world.record("deed", name=name)
            self._world.history.count("deed", name)
            await getattr(self, name)()

    # --- deeds ------------------------------------------------------------------------

    async def kill_gateway(self) -> None:
        """SIGKILL of a gateway, and a new one."""
        port = self._world.random.choice(PORTS)
        self._scene.gateways[port].kill()
        await self._nap()
        self._scene.start_gateway(port)

    async def stop_gateway(self) -> None:
        """SIGTERM of a gateway, and a new one at once when it is gone."""
        port = self._world.random.choice(PORTS)
        gateway = self._scene.gateways[port]
        if not gateway.is_over:
            await gateway.stop()
        self._scene.start_gateway(port)

    async def kill_runtime(self) -> None:
        """SIGKILL of the runtime, and a new activation."""
        runtime = self._scene.runtime
        assert runtime is not None, "started"
        runtime.kill()
        await self._nap()
        await self._scene.start_runtime()
        self._scene.apply_faults()

    async def stop_runtime(self) -> None:
        """SIGTERM of the runtime, and a new activation."""
        runtime = self._scene.runtime
        assert runtime is not None, "started"
        await runtime.stop()
        await self._nap()
        await self._scene.start_runtime()
        self._scene.apply_faults()

    async def freeze_runtime(self) -> None:
        """SIGSTOP for a while."""
        assert self._scene.runtime is not None, "started"
        self._scene.runtime.process.stop_for(self._world.random.random() * 6)

    async def freeze_gateway(self) -> None:
        """SIGSTOP for a while."""
        port = self._world.random.choice(PORTS)
        self._scene.gateways[port].process.stop_for(self._world.random.random() * 6)

    async def jump(self) -> None:
        """The machine was suspended: the clock is later all at once."""
        self._world.now += self._world.random.choice((0.3, 4.0, 16.0, 35.0))

    async def crash_engine(self) -> None:
        """The engine is lost, and back later."""
        runtime = self._scene.runtime
        assert runtime is not None, "started"
        if runtime.is_ready and runtime.engine is not None:
            runtime.engine.crash(self._world.random.random() * 3)

    async def replace_grants(self) -> None:
        """The next revision: file, SIGHUP to the runtime, SIGHUP to the gateways."""
        scene = self._scene
        scene.revision += 1
        scene.write_grants()
        runtime = scene.runtime
        assert runtime is not None, "started"
        if runtime.is_ready:
            self._world.record("reloading", revision=scene.revision)
            await runtime.reload()
        for gateway in scene.running_gateways():
            await self._nap()
            if not gateway.is_over:
                gateway.site.reconfigure(
                    settings(scene.revision, scene.profile.disconnect)
                )

    async def _nap(self) -> None:
        await self._process.sleep(self._world.random.random())


#: Every deed by name.
DEEDS: Final = tuple(
    name for name in vars(Chaos) if not name.startswith("_") and name != "run"
)
