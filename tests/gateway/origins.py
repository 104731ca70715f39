"""
What imports talk to: https servers that say what they are told, and names.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from twisted.internet import reactor, ssl
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from tests.gateway.device_script import WITH_MEDIA, DeviceScript
from tests.gateway.serving import TOKEN, Response, Serving
from twisted_aotx.gateway.settings import PrivateOrigin, URLRules

if TYPE_CHECKING:
    from tests.gateway.conftest import Serve

PATH = "/aotx/v1/media/import"
HOST = "source.example"
BODY = b"\xff\xd8 source \xff\xd9"
LOCAL = [["127.0.0.1"]]
TRANSFER = (502, "source_transfer", None)
Listen = Callable[..., "Origin"]


class _Served(Protocol):
    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._received = b""

    def connectionMade(self) -> None:
        self._origin.open += 1

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" in self._received:
            self._origin.requests.append(self._received)
            self._received = b""
            transport = cast(Any, self.transport)
            transport.write(self._origin.answer)
            if self._origin.closes:
                transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._origin.open -= 1


class Origin(Factory):
    """
    An https server of 127.0.0.1, or of another address of this machine.
    """

    noisy = False

    def __init__(self, answer: bytes = b"", *, closes: bool = True) -> None:
        self.answer = answer
        self.closes = closes
        #: What came, each up to the end of its header.
        self.requests: list[bytes] = []
        #: Connections that were made, and those that are open.
        self.connected = 0
        self.open = 0
        self._port: IListeningPort | None = None

    def listen(
        self, pems: Path, letter: str, interface: str = "127.0.0.1", port: int = 0
    ) -> None:
        options = ssl.DefaultOpenSSLContextFactory(
            str(pems / f"{letter}.key"), str(pems / f"{letter}.pem")
        )
        self._port = cast(Any, reactor).listenSSL(
            port, self, options, interface=interface
        )

    def buildProtocol(self, addr: object) -> _Served:
        self.connected += 1
        return _Served(self)

    @property
    def port(self) -> int:
        assert self._port is not None
        return cast(IPv4Address, self._port.getHost()).port

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}/a.jpg"

    def rules(self, pems: Path, *letters: str, **fields: Any) -> URLRules:
        """
        What lets imports reach it, by name, at any address of this machine but ::1.
        """
        trusted = pems / f"trusted-{''.join(letters)}.pem"
        trusted.write_bytes(
            b"".join((pems / f"{letter}.pem").read_bytes() for letter in letters)
        )
        private = PrivateOrigin(
            origin=f"https://{HOST}:{self.port}", networks=("127.0.0.1/32",)
        )
        return URLRules(
            **{"private": (private,), "ca_file": str(trusted)} | fields,
        )

    async def stop(self) -> None:
        """
        Idempotent.
        """
        port, self._port = self._port, None
        if port is not None:
            await cast(Any, port.stopListening())


def http(
    body: bytes = BODY,
    *,
    status: str = "200 OK",
    content_type: str | None = "image/jpeg",
    length: int | None = -1,
    fields: str = "",
) -> bytes:
    """
    An answer with its right length, another, or none.
    """
    lines = [f"HTTP/1.1 {status}"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length < 0 else length}")
    return "\r\n".join([*lines, fields + "\r\n"]).encode() + body


class Names:
    """
    A resolver: each look-up of a name gets the next of its answers, then the last.
    """

    def __init__(self, source: Sequence[Sequence[str]]) -> None:
        self.answers = {HOST: source}
        #: Names that were looked up.
        self.asked: list[str] = []
        #: Set unless look-ups hang.
        self.answering = threading.Event()
        self.answering.set()

    def look_up(self, host: str) -> Sequence[str]:
        turn = self.asked.count(host)
        self.asked.append(host)
        assert self.answering.wait(30)
        if host not in self.answers:
            raise OSError("no such name")
        answers = self.answers[host]
        return answers[min(turn, len(answers) - 1)]


async def gateway_for(
    serve: Serve,
    origin: Origin,
    pems: Path,
    *,
    names: Names | None = None,
    rules: dict[str, Any] | None = None,
    letters: str = "a",
    **settings: Any,
) -> Serving:
    urls = origin.rules(pems, *letters, **(rules or {}))
    device = DeviceScript(WITH_MEDIA, media=True)
    gateway = await serve(device, urls=urls, **settings)
    gateway.gateway.fetcher.names.look_up = (names or Names(LOCAL)).look_up
    return gateway


async def fetch(gateway: Serving, url: object, token: str = TOKEN) -> Response:
    return await gateway.post(PATH, {"url": url}, token=token)
