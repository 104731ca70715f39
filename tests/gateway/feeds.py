"""
Event streams as a client sees them, and bodies to ask for them with.
"""

from __future__ import annotations

import json
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.iweb import IResponse

from tests.gateway.serving import TOKEN, Serving, sleep

CHAT = "/v1/chat/completions"
REQUESTS = "/aotx/v1/requests"


def body(content: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": content}]} | fields


def packet(
    path: str, json_body: Any = None, *, method: str = "POST", headers: str = ""
) -> bytes:
    """
    A request as bytes, for clients that do what no library would.
    """
    content = b"" if json_body is None else json.dumps(json_body).encode()
    sent = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"{headers}{sent if json_body is not None else ''}\r\n"
    ).encode() + content


@attrs.frozen
class Record:
    """
    One record: its `event:` and `id:` lines if there are any, and its data.
    """

    event: str | None
    id: str | None
    data: Any


def record_of(raw: bytes) -> Record:
    """
    Fails for a record that is framed in any other way than ours.
    """
    lines = raw.decode().split("\n")
    event = lines.pop(0).removeprefix("event: ") if lines[0][:6] == "event:" else None
    name = lines.pop(0).removeprefix("id: ") if lines[0][:3] == "id:" else None
    (line,) = lines
    assert line.startswith("data: ")
    text = line.removeprefix("data: ")
    return Record(event, name, text if text == "[DONE]" else json.loads(text))


class Feed(Protocol):
    """
    An event stream that is being read.
    """

    def __init__(self, response: IResponse) -> None:
        self.response = response
        self.raw = b""
        self.ended: Deferred[bytes] = Deferred()
        response.deliverBody(self)

    def dataReceived(self, data: bytes) -> None:
        self.raw += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.ended.callback(self.raw)

    def leave(self) -> None:
        """
        Go away in the midst of it.
        """
        cast(Any, self.transport).loseConnection()

    @property
    def records(self) -> list[Record]:
        """
        The whole records so far; keep-alive lines are left out.
        """
        whole = self.raw.replace(b": ping\n", b"").split(b"\n\n")[:-1]
        return [record_of(raw) for raw in whole]

    async def until(self, count: int) -> list[Record]:
        """
        Wait for that many records.
        """
        for _ in range(500):
            if len(self.records) >= count:
                return self.records
            await sleep(0.01)
        raise AssertionError(f"{count} records are not in {self.raw!r}")


async def feed(gateway: Serving, path: str, **arguments: Any) -> Feed:
    """
    Begin to read an event stream: POST with `json`, else GET.
    """
    method = "POST" if "json" in arguments else "GET"
    response = await gateway.open(method, path, **arguments)
    assert response.code == 200
    assert response.headers.getRawHeaders("content-type") == ["text/event-stream"]
    return Feed(response)


async def stream(gateway: Serving, path: str = CHAT, **arguments: Any) -> list[Record]:
    """
    All records of an event stream.
    """
    read = await feed(gateway, path, **arguments)
    raw = await read.ended
    assert raw.endswith(b"\n\n")
    return read.records


def text_of(records: list[Record]) -> str:
    """
    The text that the deltas of a standard stream make.
    """
    chunks = [r.data for r in records if isinstance(r.data, dict)]
    deltas = [c["choices"][0]["delta"] for c in chunks if c.get("choices")]
    return "".join(delta.get("content", "") for delta in deltas)


async def eventually(reached: Any, seconds: float = 5) -> None:
    """
    Wait until *reached* returns something true.
    """
    for _ in range(int(seconds / 0.005)):
        if reached():
            return
        await sleep(0.005)
    raise AssertionError("not reached in time")
