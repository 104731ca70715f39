"""
A gateway on a port of its own, before a scripted device on a real seqpacket socket.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from typing import Any, TypeVar, cast

import attrs
import treq
from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from tests.gateway.device_script import DeviceScript
from twisted_aotx.gateway.auth import Authenticator
from twisted_aotx.gateway.checks import Checks
from twisted_aotx.gateway.dispatch import Dispatcher
from twisted_aotx.gateway.measured import MeasuredClient
from twisted_aotx.gateway.metrics import Metrics
from twisted_aotx.gateway.resource import Gateway, Handler
from twisted_aotx.gateway.routing import Route, Router
from twisted_aotx.gateway.settings import (
    GatewaySettings,
    Limits,
    ModelAlias,
    Principal,
)
from twisted_aotx.gateway.site import make_site
from twisted_aotx.seqpacket import SeqPacketPort
from twisted_aotx.testing.peer import ScriptedPeer
from twisted_aotx.wire.numbers import Action

#: Every action but the shared ones.
ALL_ACTIONS = (
    Action.INFER
    | Action.UPLOAD
    | Action.FETCH
    | Action.TELEMETRY
    | Action.POLICY_MANAGE
)
#: Tokens of the two principals; the first has a second one [cases H 122].
TOKEN = "t" * 32
TOKEN_ROTATED = "r" * 64
TOKEN_2 = "u" * 256
P1 = bytes(15) + b"\1"
P2 = bytes(15) + b"\2"
ORIGIN = "https://app.example"


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


PRINCIPALS = (
    Principal(
        id=P1,
        token_sha256=(digest(TOKEN), digest(TOKEN_ROTATED)),
        models=("m", "org/m"),
        actions=ALL_ACTIONS,
    ),
    Principal(
        id=P2,
        token_sha256=(digest(TOKEN_2),),
        models=("m",),
        actions=Action.SHARED_READ,
    ),
)
MODELS = (
    ModelAlias(alias="org/m", role=2, published_at=1700000000),
    ModelAlias(alias="m", role=2, published_at=1),
    ModelAlias(alias="absent", role=4, published_at=2),
)


@attrs.frozen
class Response:
    """
    An answer, whole.
    """

    status: int
    headers: Headers
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> dict[str, Any]:
        """
        The error object; fails for an answer that holds anything else.
        """
        assert self.header("content-type") == "application/json"
        assert set(self.json) == {"error"}
        error = cast(dict[str, Any], self.json["error"])
        assert set(error) == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
        assert error["message"]
        return error

    @property
    def problem(self) -> tuple[int, str, str | None]:
        """
        Status, code and param.
        """
        return self.status, self.error["code"], self.error["param"]

    def header(self, name: str) -> str | None:
        values = self.headers.getRawHeaders(name)
        assert values is None or len(values) == 1, f"{name} stands twice"
        return None if values is None else values[0]


class Raw(Protocol):
    """
    A client that speaks bytes.
    """

    def __init__(self) -> None:
        self.received = b""
        self.closed: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.closed.callback(self.received)

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    async def until(self, seen: bytes, count: int = 1, seconds: float = 5) -> bytes:
        """
        Wait until *seen* was received *count* times.
        """
        for _ in range(int(seconds / 0.01)):
            if self.received.count(seen) >= count:
                return self.received
            await sleep(0.01)
        raise AssertionError(f"{seen!r} not in {self.received!r}")


SomeRaw = TypeVar("SomeRaw", bound=Raw)


def sleep(seconds: float) -> Deferred[None]:
    return deferLater(cast(Any, reactor), seconds)


class Serving:
    """
    One gateway with its device. Made by `serve`; stopped by `stop`.
    """

    def __init__(self, device: DeviceScript, settings: dict[str, Any]) -> None:
        # Not pytest's folder: a socket's path must be short.
        self._folder = tempfile.mkdtemp(prefix="aotx-")
        self.path = os.path.join(self._folder, "service.sock")
        self.device = device
        self.peer = ScriptedPeer(device)
        self._reactor = cast(Any, reactor)
        limits = settings.pop("limits", Limits())
        self.settings = GatewaySettings(
            **{
                "socket": self.path,
                "revision": 3,
                "models": MODELS,
                "principals": PRINCIPALS,
                "port": 0,
                "origins": (ORIGIN,),
                "limits": limits,
            }
            | settings
        )
        metrics = Metrics()
        client = MeasuredClient(
            metrics,
            self._reactor,
            self.path,
            connections_max=limits.wire_connections,
            waiters_max=limits.connections,
        )
        self.gateway = Gateway(self.settings, client, self._reactor, metrics=metrics)
        self.site = make_site(self.gateway)
        self._listening: IListeningPort | None = None
        self._pool = HTTPConnectionPool(self._reactor, persistent=True)
        self._raw: list[Raw] = []
        self._port: SeqPacketPort | None = None

    async def start(self) -> None:
        self._port = self.peer.listen(self._reactor, self.path)
        self._listening = self._reactor.listenTCP(
            0, self.site, backlog=1024, interface="127.0.0.1"
        )

    async def stop(self) -> None:
        for raw in self._raw:
            if raw.transport is not None:
                raw.transport.loseConnection()
        await self._pool.closeCachedConnections()
        if self._listening is not None:
            await maybeDeferred(self._listening.stopListening)
        await self.gateway.client.close()
        for connection in self.site.connections:
            connection.abort()
        for _ in range(200):
            if not self.site.connections:
                break
            await sleep(0.005)
        self.site.close()
        await self.stop_device()
        shutil.rmtree(self._folder)

    async def stop_device(self) -> None:
        """
        From here on nobody listens at the device's socket.
        """
        port, self._port = self._port, None
        if port is not None:
            self.peer.drop_all()
            await port.stopListening()

    @property
    def port(self) -> int:
        assert self._listening is not None, "not started"
        return cast(IPv4Address, self._listening.getHost()).port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(
        self,
        method: str,
        path: str,
        *,
        token: str | None = TOKEN,
        headers: dict[str, str | list[str]] | None = None,
        data: bytes | None = None,
        json: Any = None,
    ) -> IResponse:
        """
        Send a request; the answer's body is still to be read.
        """
        sent = Headers()
        for name, value in (headers or {}).items():
            for one in value if isinstance(value, list) else [value]:
                sent.addRawHeader(name, one)
        if token is not None:
            sent.addRawHeader("Authorization", f"Bearer {token}")
        agent = Agent(self._reactor, pool=self._pool)
        arguments = {"json": json} if json is not None else {"data": data}
        client = treq.client.HTTPClient(agent)
        return cast(
            IResponse,
            await client.request(
                method, self.url + path, headers=sent, unbuffered=True, **arguments
            ),
        )

    async def request(self, method: str, path: str, **arguments: Any) -> Response:
        """
        Send a request (`open` has its arguments) and take the whole answer.
        """
        response = await self.open(method, path, **arguments)
        content = await treq.content(response)
        return Response(response.code, response.headers, content)

    async def get(self, path: str, **arguments: Any) -> Response:
        return await self.request("GET", path, **arguments)

    async def post(self, path: str, json: Any = None, **arguments: Any) -> Response:
        return await self.request("POST", path, json=json, **arguments)

    async def connect(self) -> Raw:
        """
        A client of bytes.
        """
        return await self.connected(Raw())

    async def connected(self, raw: SomeRaw) -> SomeRaw:
        """
        *raw*, connected.
        """
        endpoint = HostnameEndpoint(self._reactor, "127.0.0.1", self.port)
        await connectProtocol(endpoint, raw)
        self._raw.append(raw)
        return raw

    async def raw(self, data: bytes) -> bytes:
        """
        What comes back for *data* until the gateway closes the connection.
        """
        raw = await self.connect()
        raw.send(data)
        return await raw.closed.addTimeout(5, self._reactor)


def parsed(packet: bytes) -> Response:
    """
    One answer of raw bytes.
    """
    head, _, content = packet.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    version, status, _ = first.split(b" ", 2)
    assert version in (b"HTTP/1.1", b"HTTP/1.0")
    headers = Headers()
    for line in lines:
        name, _, value = line.partition(b": ")
        headers.addRawHeader(name, value)
    return Response(int(status), headers, content)


def serve_only(gateway: Serving, handler: Handler) -> None:
    """
    Have *handler* answer GET and POST /x, and nothing else be there.
    """
    router = Router([Route("GET", "/x", handler), Route("POST", "/x", handler)])
    checks = Checks(gateway.gateway, router, Authenticator(gateway.settings.principals))
    gateway.site.resource = Dispatcher(checks)
