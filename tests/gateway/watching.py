"""
A consumer of a request's windows, in a world of its own.
"""

from __future__ import annotations

import os

from twisted.internet.defer import Deferred

from tests.gateway.device_script import EPOCH, DeviceScript, Running
from tests.watch.bench import ScriptedProgress
from twisted_aotx.client import Caller, DeviceClient, Window
from twisted_aotx.devices import Progress
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.settings import GatewaySettings
from twisted_aotx.gateway.waiting import windows
from twisted_aotx.testing.peer import ScriptedPeer
from twisted_aotx.testing.worlds import MemoryWorld
from twisted_aotx.watch.service import WatchService
from twisted_aotx.wire.handles import RequestHandle
from twisted_aotx.wire.packet import RequestHeader
from twisted_aotx.wire.requests import Message, Submission, TextPart

CALLER = Caller(principal=b"p" * 16, revision=3)
HANDLE = RequestHandle(EPOCH, b"r" * 16)
SUBMISSION = Submission(
    role=2,
    limit=9,
    temperature=1.0,
    top_p=1.0,
    messages=(Message(1, (TextPart(b"hi"),)),),
)


class Watching:
    """
    A consumer of `windows` in a world of its own.
    """

    def __init__(self, *, watched: bool = False) -> None:
        self.world = MemoryWorld()
        self.device = DeviceScript()
        self.request = Running(SUBMISSION)
        self.device.requests[CALLER.principal, HANDLE.id] = self.request
        #: When each READ arrived.
        self.read_at: list[float] = []
        #: What was given out, and when.
        self.windows: list[tuple[float, Window]] = []
        self.held: Deferred[None] | None = None
        path = self.world.path("device")
        peer = ScriptedPeer(self._script)
        peer.listen(self.world.reactor, path, system=self.world.system)
        reactor = self.world.reactor
        self._began = reactor.seconds()
        #: What the runtime tells, if it offers watches.
        self.progress = ScriptedProgress()
        watches = os.fsdecode(self.world.path("watch.sock"))
        self.watches = WatchService(
            reactor,
            self.progress,
            epoch=EPOCH,
            socket_path=watches,
            system=self.world.system,
        )
        if watched:
            self.watches.start()
        client = DeviceClient(
            reactor, path, watch_path=watches, system=self.world.system
        )
        settings = GatewaySettings(socket="unused", revision=3, models=())
        self.gateway = Gateway(settings, client, reactor)

    def _script(
        self, request: RequestHeader, payload: bytes
    ) -> bytes | Deferred[bytes | None] | None:
        self.read_at.append(self.seconds)
        return self.device(request, payload)

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return self.world.reactor.seconds() - self._began

    def start(self, cursor: int = 0) -> Deferred[None]:
        done = Deferred.fromCoroutine(self._consume(cursor))
        self.world.settle()
        return done

    async def _consume(self, cursor: int) -> None:
        async for window in windows(self.gateway, CALLER, HANDLE, cursor):
            self.windows.append((self.seconds, window))
            if self.held is not None:
                await self.held

    def until(self, seconds: float) -> None:
        """
        Move the clock there, a millisecond at a time.
        """
        while self.seconds < seconds - 1e-9:
            self.world.reactor.advance(0.001)

    def tell(self) -> None:
        """
        The device tells where the request stands, and rings.
        """
        now = len(self.request.output), self.request.phase
        self.progress.told.append(Progress(CALLER.principal, HANDLE.id, *now))
        self.watches.progress_published()
        self.world.settle()

    @property
    def data(self) -> bytes:
        return b"".join(window.data for _, window in self.windows)
