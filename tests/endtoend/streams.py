"""
A server-sent event stream read off a plain socket, so that it can be left at any byte.
"""

from __future__ import annotations

import base64
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import attrs

from tests.processes import PATIENCE


@attrs.frozen
class Event:
    """
    One event: its name, its id if it has one, its data.
    """

    name: str
    id: str | None
    data: dict[str, Any]

    @property
    def output(self) -> bytes:
        """The bytes of an emission."""
        return base64.b64decode(self.data["bytes"])


@attrs.define
class EventStream:
    """
    GET *path*; `next` blocks for an event, and returns None when the stream is over.
    """

    sock: socket.socket
    status: int
    buffer: bytes
    over: bool = False

    @classmethod
    def open(cls, url: str, headers: dict[str, str]) -> EventStream:
        place = urlsplit(url)
        sock = socket.create_connection((place.hostname, place.port), PATIENCE)
        lines = [f"GET {place.path} HTTP/1.0", f"Host: {place.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            data = sock.recv(4096)
            assert data, f"closed in the header: {head!r}"
            head += data
        head, _, rest = head.partition(b"\r\n\r\n")
        return cls(sock, int(head.split()[1]), rest)

    def next(self) -> Event | None:
        while b"\n\n" not in self.buffer:
            try:
                data = self.sock.recv(4096)
            except ConnectionResetError:
                data = b""
            if not data:
                self.over = True
                return None
            self.buffer += data
        record, _, self.buffer = self.buffer.partition(b"\n\n")
        fields = dict(
            line.split(": ", 1)
            for line in record.decode().splitlines()
            if not line.startswith(":")
        )
        data_text = fields.get("data", "{}")
        return Event(fields.get("event", ""), fields.get("id"), json.loads(data_text))

    def rest(self) -> list[Event]:
        """Every event up to the end."""
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        return events

    def close(self) -> None:
        self.sock.close()
