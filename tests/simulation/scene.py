"""
What a run is made of at a moment: the runtime that serves now, the gateways, who calls,
and what callers know of each other's requests.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred

from tests.simulation.gateway import SimulatedGateway
from tests.simulation.people import PEOPLE, Person, settings
from tests.simulation.process import Process
from tests.simulation.runtime import Runtime, write_grants
from tests.simulation.world import World

PORTS: Final = (8081, 8082)


@attrs.frozen
class Known:
    """
    A request that was admitted, as its owner knows it.
    """

    owner: Person
    epoch: int
    id: bytes

    @property
    def handle(self) -> str:
        return f"req-{self.epoch:016x}-{self.id.hex()}"


@attrs.frozen(kw_only=True)
class Profile:
    """
    Which faults a run has, and how often; drawn, so that runs differ in kind.
    """

    delay: float = 0.0
    fails: float = 0.0
    drops: float = 0.0
    stalls: float = 0.0
    misbehaves: float = 0.0
    store_fails: float = 0.0
    store_slow: float = 0.0
    #: How likely a client leaves at an await.
    leaves: float = 0.0
    #: What `chaos` may do.
    deeds: tuple[str, ...] = ()
    disconnect: str = "detach"
    sessions: int = 10


class Scene:
    """
    Everything of one run.
    """

    def __init__(self, world: World, folder: Path, profile: Profile) -> None:
        self.world = world
        self.folder = folder
        self.profile = profile
        self.revision = 1
        #: Clients are one process that no fault hits: they leave by themselves.
        self.process = world.process("clients")
        self.runtime: Runtime | None = None
        self.gateways: dict[int, SimulatedGateway] = {}
        self.known: list[Known] = []
        #: Sources that somebody was told are ready: owner and handle.
        self.sources: list[tuple[Person, str, bytes, str]] = []
        self.is_quiet = False
        self._nonces = 0
        self._tasks = 0
        self.write_grants()

    # --- processes --------------------------------------------------------------------

    def write_grants(self) -> None:
        """The grants file of the present revision."""
        rows = [person.as_grant(self.revision) for person in PEOPLE]
        write_grants(self.folder, self.revision, rows)

    def start_runtime(self) -> Deferred[None]:
        """A new activation."""
        runtime = Runtime(self.world, self.folder)
        self.runtime = runtime
        started = runtime.start()
        self.apply_faults()
        return started

    def start_gateway(self, port: int) -> None:
        """A new gateway at *port*."""
        if port in self.gateways and not self.gateways[port].is_over:
            return
        made = SimulatedGateway(
            self.world, port, settings(self.revision, self.profile.disconnect)
        )
        self.gateways[port] = made
        self.apply_faults()

    def running_gateways(self) -> list[SimulatedGateway]:
        """Those that are not over."""
        return [each for each in self.gateways.values() if not each.is_over]

    def apply_faults(self) -> None:
        """Have the profile's faults in whatever runs now; none once it is quiet."""
        profile = Profile() if self.is_quiet else self.profile
        self.world.delay = profile.delay
        for gateway in self.running_gateways():
            gateway.process.system.fails = profile.fails
        runtime = self.runtime
        if runtime is None or runtime.is_over:
            return
        runtime.process.system.fails = profile.fails
        if runtime.engine is not None:
            runtime.engine.misbehaves = profile.misbehaves
        if runtime.store is not None:
            runtime.store.fails = profile.store_fails
            runtime.store.slow = profile.store_slow
            if self.is_quiet:
                runtime.store.mend()
        if runtime.is_ready:
            runtime.device.drops = profile.drops
            runtime.device.stalls = profile.stalls

    # --- clients ----------------------------------------------------------------------

    def fresh_nonce(self) -> str:
        """The name of one more request."""
        self._nonces += 1
        return f"{self._nonces:08x}"

    def accepted(self, known: Known, nonce: str, began: int) -> None:
        """*known* was admitted, as its owner was told by an answer."""
        self.world.record(
            "accepted",
            nonce=nonce,
            began=began,
            principal=known.owner.id,
            epoch=known.epoch,
            id=known.id,
        )
        self.known.append(known)

    def person(self) -> Person:
        """Somebody."""
        return self.world.random.choice(PEOPLE)

    def patience(self, path: str) -> int | None:
        """After how many awaits a client leaves; who follows a stream does so most."""
        likelihood = self.profile.leaves * (3 if "/events" in path else 1)
        if not self.is_quiet and self.world.chance(likelihood):
            return self.world.random.choice((0, 1, 2, 3, 5, 8, 13, 20, 40))
        return None

    @property
    def busy(self) -> int:
        """Tasks that have not ended."""
        return self._tasks

    def begin(
        self,
        session: Callable[[], Coroutine[Any, Any, None]],
        process: Process | None = None,
        after: float = 0.0,
    ) -> None:
        """Run *session* as a task of its own, *after* seconds."""
        self._tasks += 1

        def ended(_: object) -> None:
            self._tasks -= 1

        def failed(failure: Any) -> None:
            error = failure.value
            self.world.record(
                "session_failed", error=f"{type(error).__name__}: {error}"
            )

        def start() -> None:
            task = Deferred.fromCoroutine(session())
            task.addErrback(failed)
            task.addCallback(ended)

        (process or self.process).callLater(after, start)
