"""
A gateway in memory, stepped: HTTP bytes in, HTTP bytes out, one thread, one clock.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, cast

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from tests.gateway.serving import ORIGIN, Response, parsed
from twisted_aotx.gateway.connection import Connection
from twisted_aotx.gateway.measured import MeasuredClient
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.settings import GatewaySettings, ModelAlias, Principal
from twisted_aotx.gateway.site import make_site
from twisted_aotx.testing import MemoryWorld
from twisted_aotx.wire.watch import watch_path

REVISION: Final = 3
MODELS: Final = (
    ModelAlias(alias="m", role=2, published_at=1),
    ModelAlias(alias="other", role=2, published_at=2),
)
#: Steps within which every answer of these tests is whole.
STEPS_MAX: Final = 2000
_DONE: Final = Failure(ConnectionDone())


def token_of(number: int) -> str:
    """The token of principal *number*."""
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

    #: Called before anything is written.
    on_write: Callable[[], object] = staticmethod(lambda: None)

    def write(self, data: bytes) -> None:
        self.on_write()
        cast(Any, super()).write(data)

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

    def end_sending(self) -> None:
        """The client's side is closed."""
        self._protocol.readConnectionLost()

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


class Front:
    """
    A gateway whose device is whatever listens at `path`. `pass_time` is its subclass's.
    """

    def __init__(
        self,
        principals: Sequence[Principal],
        *,
        connections_max: int = 15,
        watched: bool = False,
        **settings: Any,
    ) -> None:
        self.world = MemoryWorld()
        self.path = os.fsdecode(self.world.path("service.sock"))
        usual: dict[str, Any] = {"models": MODELS, "origins": (ORIGIN,)}
        self.settings = GatewaySettings(
            socket=self.path,
            revision=REVISION,
            principals=tuple(principals),
            **(usual | settings),
        )
        self.metrics = Metrics()
        self.client = MeasuredClient(
            self.metrics,
            self.world.reactor,
            self.path,
            connections_max=connections_max,
            watch_path=watch_path(self.path) if watched else None,
            system=self.world.system,
        )
        self.gateway = Gateway(
            self.settings, self.client, self.world.reactor, metrics=self.metrics
        )
        self.site = make_site(self.gateway)
        #: Called before each write to a client.
        self.on_write: Callable[[], object] = lambda: None
        #: Called after each step.
        self.on_step: Callable[[], object] = lambda: None
        self._clients: list[HTTPClient] = []

    def pass_time(self) -> None:
        """One step of the clock, and all that falls due."""
        raise NotImplementedError

    def frames(self) -> int:
        """Frames that the device has answered so far."""
        raise NotImplementedError

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.pass_time()
            self.world.settle()
            self.on_step()

    def connect(self) -> HTTPClient:
        """A new connection."""
        client = HTTPClient(self.site)
        client.wire.on_write = lambda: self.on_write()
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
        client.send(data)
        return self.told(client)

    def told(self, client: HTTPClient) -> Told:
        """What *client* is told until its connection ends."""
        frames, steps = self.frames(), 0
        while not client.is_over:
            assert steps < STEPS_MAX, client.received
            self.step()
            steps += 1
        client.leave()
        lines = client.received.split(b"\r\n")
        packet = b"\r\n".join(x for x in lines if not x.startswith(b"Date: "))
        return Told(packet, self.frames() - frames, steps)

    def close(self) -> None:
        """Nothing is held any more once every client is gone."""
        for client in self._clients:
            client.leave()
        self.step()
        assert set(self.gateway.budgets.held().values()) == {0}
        self.site.close()
