"""
A gateway in memory before a broker and a device, stepped: HTTP bytes in, HTTP bytes
out, one thread, one clock.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self, cast

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import EPOCH, new_device, played_engine
from tests.gateway.serving import ORIGIN, Response, parsed
from twisted_aotx.broker.service import BrokerService
from twisted_aotx.config.grants import grant_table
from twisted_aotx.gateway.connection import Connection
from twisted_aotx.gateway.measured import MeasuredClient
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.settings import GatewaySettings, ModelAlias, Principal
from twisted_aotx.gateway.site import make_site
from twisted_aotx.orders import OpenOrder
from twisted_aotx.testing import MemoryWorld
from twisted_aotx.watch.service import WatchService
from twisted_aotx.wire.watch import watch_path

REVISION: Final = 3
MODELS: Final = (
    ModelAlias(alias="m", role=2, published_at=1),
    ModelAlias(alias="other", role=2, published_at=2),
)
#: Steps of a millisecond within which every answer of these tests is whole.
STEPS_MAX: Final = 2000
_NS: Final = 1_000_000
_DONE: Final = Failure(ConnectionDone())


def token_of(number: int) -> str:
    return f"token-of-{number:03}-".ljust(40, "x")


def account(
    number: int, actions: int = 255, models: tuple[str, ...] = ("m",), **quotas: int
) -> Principal:
    """Principal *number*, whose token is `token_of(number)`."""
    usual = {"tokens": 64, "requests": 16, "media": 16, "media_bytes": 1 << 18}
    return Principal(
        id=number.to_bytes(16, "big"),
        token_sha256=(hashlib.sha256(token_of(number).encode()).digest(),),
        models=models,
        actions=actions,
        **(usual | quotas),
    )


class Wire(StringTransport):
    """
    The client's end of a connection.
    """

    def loseWriteConnection(self) -> None:
        self.disconnecting = True


class HTTPClient:
    """
    One connection of a client that speaks bytes.
    """

    def __init__(self, site: Any) -> None:
        peer = IPv4Address("TCP", "127.0.0.1", 9)
        self.wire: Any = cast(Any, Wire)(peerAddress=peer, lenient=True)
        self._protocol: Connection = site.buildProtocol(None)
        self._protocol.makeConnection(self.wire)
        self.is_gone = False

    def send(self, data: bytes) -> None:
        self._protocol.dataReceived(data)

    @property
    def received(self) -> bytes:
        data: bytes = self.wire.value()
        return data

    @property
    def is_over(self) -> bool:
        """Whether the gateway has ended the connection."""
        return bool(self.wire.disconnecting)

    def leave(self) -> None:
        """The connection is gone. Idempotent."""
        if not self.is_gone:
            self.is_gone = True
            self._protocol.connectionLost(_DONE)


def request_bytes(
    method: str,
    path: str,
    *,
    token: str | None = None,
    headers: Sequence[tuple[str, str]] = (),
    data: bytes | None = None,
    body: Any = None,
) -> bytes:
    """One request, the connection's last."""
    fields = [("Host", "x"), ("Connection", "close"), *headers]
    if token is not None:
        fields.append(("Authorization", f"Bearer {token}"))
    if body is not None:
        data = json.dumps(body).encode()
        fields.append(("Content-Type", "application/json"))
    if data is not None:
        fields.append(("Content-Length", str(len(data))))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in fields)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (data or b"")


@attrs.frozen
class Told:
    """
    An answer with what it took.
    """

    #: All bytes, the date left out.
    packet: bytes = attrs.field(repr=False)
    #: Frames that the device answered meanwhile.
    exchanges: int
    #: Milliseconds of the clock.
    steps: int

    @property
    def response(self) -> Response:
        return parsed(self.packet)

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def problem(self) -> tuple[int, str, str | None]:
        return self.response.problem

    def without(self, handle: str) -> Self:
        """The same of whatever handle was asked for."""
        return attrs.evolve(
            self, packet=self.packet.replace(handle.encode(), b"HANDLE")
        )


class Served:
    """
    All of it. The engine's sequences are played: by `step` if `plays`, else by hand.
    """

    def __init__(
        self,
        folder: Path,
        *principals: Principal,
        watched: bool = True,
        **settings: Any,
    ) -> None:
        self.world = MemoryWorld()
        engine = played_engine(
            capacity=4, sequence_tokens=SMALL.sequence_tokens, modalities=7
        )
        self.device = new_device(SMALL, [engine])
        #: Plays the engine; what it steps is `step`'s.
        self.engine = Driver(self.device, SMALL)
        #: What `step` does for the engine, the media worker and the state store.
        self.plays: Sequence[bytes] | None = (b"out", b"put")
        self.decodes = True
        self.saves: bool | None = True
        self.leases: list[OpenOrder] = []
        reactor, system = self.world.reactor, self.world.system
        path = os.fsdecode(self.world.path("service.sock"))
        usual: dict[str, Any] = {"models": MODELS, "origins": (ORIGIN,)}
        self.settings = GatewaySettings(
            socket=path, revision=REVISION, principals=principals, **(usual | settings)
        )
        grants = folder / "grants"
        grants.write_bytes(grant_table(self.settings).pack())
        grants.chmod(0o600)
        self.broker = BrokerService(
            reactor,
            self.device,
            socket_path=path,
            grants_path=str(grants),
            system=system,
        )
        self.watches = WatchService(
            reactor,
            self.device,
            epoch=EPOCH,
            socket_path=watch_path(path),
            system=system,
        )
        self.metrics = Metrics()
        self.client = MeasuredClient(
            self.metrics,
            reactor,
            path,
            connections_max=SMALL.channels - 1,
            watch_path=watch_path(path) if watched else None,
            system=system,
        )
        self.gateway = Gateway(
            self.settings, self.client, reactor, metrics=self.metrics
        )
        self.site = make_site(self.gateway)
        self._clients: list[HTTPClient] = []
        if watched:
            self.watches.start()
        started = self.broker.start()
        self.step()
        assert started.called

    # --- time ---------------------------------------------------------------------

    def step(self, count: int = 1) -> None:
        """A millisecond, and all that falls due."""
        for _ in range(count):
            self.world.reactor.advance(0.001)
            self.engine.now += _NS
            self.device.tick(self.engine.now)
            self._serve_device()
            self.watches.progress_published()
            self.broker.replies_published()
            self.world.settle()

    def _serve_device(self) -> None:
        for order in self.engine.opens():
            self.leases.append(order)
            if self.plays is not None:
                self.engine.play(order, self.plays)
        if self.decodes:
            for job in self.device.media_jobs():
                self.device.finish_media(job.worker, True)
        if self.saves is not None:
            for _ in self.device.records():
                self.device.finish_record(self.saves)

    # --- callers ------------------------------------------------------------------

    def connect(self) -> HTTPClient:
        client = HTTPClient(self.site)
        self._clients.append(client)
        return client

    def ask(
        self, method: str, path: str, token: str | None = None, **more: Any
    ) -> Told:
        """One request on a connection of its own, to the end of its answer."""
        return self.send(request_bytes(method, path, token=token, **more))

    def send(self, data: bytes) -> Told:
        """What `ask` does with bytes."""
        client = self.connect()
        frames, steps = self.device.stats().frames, 0
        client.send(data)
        while not client.is_over:
            assert steps < STEPS_MAX, client.received
            self.step()
            steps += 1
        client.leave()
        lines = client.received.split(b"\r\n")
        packet = b"\r\n".join(x for x in lines if not x.startswith(b"Date: "))
        return Told(packet, self.device.stats().frames - frames, steps)

    def close(self) -> None:
        """Nothing is held any more once every client is gone."""
        for client in self._clients:
            client.leave()
        self.step()
        assert set(self.gateway.budgets.held().values()) == {0}
        self.site.close()
        self.device.close()
        self.device.free()
