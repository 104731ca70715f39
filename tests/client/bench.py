"""
What the client's tests share.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from twisted_aotx.client import Caller, DeviceClient
from twisted_aotx.seqpacket import SeqPacketPort
from twisted_aotx.testing import ScriptedPeer, World, reply_to
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader

ALICE = Caller(bytes(15) + b"\1", revision=3)
BOB = Caller(bytes(15) + b"\2", revision=3)
ID = bytes(range(16))


def read_header(caller: Caller = ALICE, *, mark: int = 0) -> RequestHeader:
    """A READ whose cursor is *mark*."""
    return RequestHeader(
        Operation.READ, caller.principal, caller.revision, 5, ID, cursor=mark
    )


class Call:
    """
    A call under way: its result or its failure once it has one.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.result: Any = None
        self.failure: BaseException | None = None
        self.is_done = False
        self._deferred = Deferred.fromCoroutine(coroutine)
        self._deferred.addCallbacks(self._returned, self._failed)

    def cancel(self) -> None:
        self._deferred.cancel()

    def _returned(self, result: Any) -> None:
        self.is_done, self.result = True, result

    def _failed(self, failure: Failure) -> None:
        self.is_done, self.failure = True, failure.value


class Bench:
    """
    A scripted peer at a path and a client of it; made when first used.

    By default the peer keeps every question until `answer`.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.path = world.path("service.sock")
        self.open: list[tuple[RequestHeader, Deferred[bytes | None]]] = []
        self.peer = ScriptedPeer(self._keep)
        self.port: SeqPacketPort | None = None

    def _keep(self, request: RequestHeader, payload: bytes) -> Deferred[bytes | None]:
        later: Deferred[bytes | None] = Deferred()
        self.open.append((request, later))
        return later

    def listen(self) -> None:
        system = self.world.system
        self.port = self.peer.listen(self.world.reactor, self.path, system=system)

    def client(self, **options: Any) -> DeviceClient:
        """A client of the peer, which listens if it does not yet."""
        if self.port is None:
            self.listen()
        return DeviceClient(
            self.world.reactor, self.path, system=self.world.system, **options
        )

    def script(
        self, script: Callable[[RequestHeader, bytes], bytes | None]
    ) -> DeviceClient:
        """A client of a peer that answers by *script*."""
        self.peer.script = script
        return self.client()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Call:
        """Begin *coroutine* and let what follows at once happen."""
        call = Call(coroutine)
        self.world.settle()
        return call

    def read(
        self, client: DeviceClient, caller: Caller = ALICE, *, mark: int = 0
    ) -> Call:
        return self.call(client.exchange(read_header(caller, mark=mark)))

    def answer(self, index: int = 0) -> None:
        """Answer an open question, the oldest by default."""
        request, later = self.open.pop(index)
        later.callback(reply_to(request, phase=3))
        self.world.settle()
