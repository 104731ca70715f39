"""
An HTTP/1.1 client that is in no hurry, or leaves at any await.

Strict: what it does not understand is a `Malformed` answer, which no gateway may give.
"""

from __future__ import annotations

import errno
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from tests.simulation.process import Process
from tests.simulation.streams import StreamSocket

#: Seconds after which a client that got nothing says that it hangs.
HANG_SECONDS: Final = 300.0
_HEAD_BYTES_MAX: Final = 8192


class Gone(Exception):
    """
    The connection is over before its answer was.
    """


class Cut(Gone):
    """
    This client has left.
    """


class Malformed(Exception):
    """
    The answer is none.
    """


class Hangs(Exception):
    """
    Nothing came for longer than anything may take.
    """


@implementer(IReadWriteDescriptor)
class Readiness:
    """
    One wait of *process* for a file to become readable or writable.
    """

    def __init__(self, process: Process, file: Any, *, write: bool = False) -> None:
        self._process = process
        self._file = file
        self.fired: Deferred[bool] = Deferred(lambda _: self._leave())
        self._timer = process.callLater(HANG_SECONDS, self._fire, False)
        (process.addWriter if write else process.addReader)(self)

    def fileno(self) -> int:
        return int(self._file.fileno())

    def doRead(self) -> None:
        self._fire(True)

    def doWrite(self) -> None:
        self._fire(True)

    def connectionLost(self, reason: Failure) -> None:
        self._fire(True)

    def logPrefix(self) -> str:
        return "client"

    def _leave(self) -> None:
        self._process.removeReader(self)
        self._process.removeWriter(self)
        if self._timer.active():
            self._timer.cancel()

    def _fire(self, is_ready: bool) -> None:
        self._leave()
        if not self.fired.called:
            self.fired.callback(is_ready)


async def ready(process: Process, file: Any, *, write: bool = False) -> None:
    """
    Wait until *file* can be read or written.

    Raises:
        Hangs: that takes too long.
    """
    if file.fileno() < 0:
        raise Gone
    if not await Readiness(process, file, write=write).fired:
        raise Hangs


@attrs.frozen
class Answer:
    """
    An answer, whole; `stream` answers have no content here.
    """

    status: int
    headers: dict[str, str]
    content: bytes = b""

    @property
    def json(self) -> Any:
        """The content, which has to be JSON."""
        try:
            return json.loads(self.content)
        except ValueError:
            raise Malformed(f"no JSON: {self.content[:80]!r}") from None

    @property
    def code(self) -> str:
        """The error's code; empty for success."""
        if self.status < 400:
            return ""
        if self.headers.get("content-type") != "application/json":
            raise Malformed(f"an error of type {self.headers.get('content-type')}")
        return str(self.json["error"]["code"])


class HTTPConnection:
    """
    One connection of a client.

    Args:
        patience: awaits after which the client leaves; None is never.
    """

    def __init__(
        self, process: Process, stream: StreamSocket, patience: int | None
    ) -> None:
        self._process = process
        self._stream = process.system.adopt(stream)
        self._patience = patience
        self._buffer = b""
        self._ended = False
        self.is_kept = True

    def close(self) -> None:
        """Leave, with a reset if something was not read."""
        self._stream.close()

    async def _await(self, *, write: bool = False) -> None:
        if self._patience is not None:
            if self._patience <= 0:
                self._process.world.history.count("fault", "client left")
                self.close()
                raise Cut
            self._patience -= 1
        await ready(self._process, self._stream, write=write)

    async def send(self, data: bytes) -> None:
        """All of *data*."""
        while data:
            await self._await(write=True)
            try:
                data = data[self._stream.send(data) :]
            except OSError as problem:
                if problem.errno != errno.EAGAIN:
                    # The answer may be there already.
                    return

    async def _more(self) -> bool:
        """Read on; whether there was anything."""
        if self._ended:
            return False
        while True:
            await self._await()
            try:
                data = self._stream.recv(65536)
            except OSError as problem:
                if problem.errno == errno.EAGAIN:
                    continue
                self.close()
                raise Gone from None
            self._buffer += data
            self._ended = not data
            return bool(data)

    async def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > _HEAD_BYTES_MAX:
                raise Malformed("a line without an end")
            if not await self._more():
                raise Gone
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not await self._more():
                raise Gone
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    async def head(self) -> Answer:
        """The status and the headers, 100 skipped."""
        while True:
            first = await self._line()
            parts = first.split(b" ", 2)
            if len(parts) < 3 or parts[0] != b"HTTP/1.1" or not parts[1].isdigit():
                raise Malformed(f"status line {first[:80]!r}")
            headers: dict[str, str] = {}
            while line := await self._line():
                name, colon, value = line.partition(b":")
                key = name.decode("ascii").lower()
                if not colon or key in headers:
                    raise Malformed(f"header {line[:80]!r}")
                headers[key] = value.strip().decode("latin-1")
            status = int(parts[1])
            if status != 100:
                self.is_kept = headers.get("connection", "").lower() != "close"
                return Answer(status, headers)

    async def parts(self, head: Answer) -> AsyncIterator[bytes]:
        """The content as it comes."""
        if head.status == 204:
            return
        if "transfer-encoding" in head.headers:
            while size := int((await self._line()).split(b";")[0], 16):
                yield await self._exactly(size)
                if await self._exactly(2) != b"\r\n":
                    raise Malformed("a chunk without an end")
            if await self._exactly(2) != b"\r\n":
                raise Malformed("no end of the chunks")
        elif "content-length" in head.headers:
            yield await self._exactly(int(head.headers["content-length"]))
        else:
            raise Malformed("neither length nor chunks")

    async def answer(self) -> Answer:
        """The next answer, whole."""
        head = await self.head()
        content = b"".join([part async for part in self.parts(head)])
        return attrs.evolve(head, content=content)

    async def records(self, head: Answer) -> AsyncIterator[dict[str, str]]:
        """The records of an event stream, comments skipped; data joined."""
        waiting = b""
        async for part in self.parts(head):
            waiting += part
            *records, waiting = waiting.split(b"\n\n")
            for each in records:
                fields = _record(each)
                if fields:
                    yield fields
        if waiting and _record(waiting):
            raise Malformed("a record without an end")


def _record(text: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.decode().split("\n"):
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            if name in fields:
                raise Malformed(f"{name} twice in a record")
            fields[name] = value
    return fields


def packet(
    method: str,
    path: str,
    token: str,
    content: bytes = b"",
    *,
    kind: str = "application/json",
    headers: dict[str, str] | None = None,
    chunked: bool = False,
) -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: simulated"]
    lines.append(f"Authorization: Bearer {token}")
    if method == "POST":
        lines.append(f"Content-Type: {kind}")
        if chunked:
            lines.append("Transfer-Encoding: chunked")
            content = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
        else:
            lines.append(f"Content-Length: {len(content)}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + content
