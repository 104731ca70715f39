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
    def open(
        cls,
        url: str,
        headers: dict[str, str],
        window: int | None = None,
        patience: float = PATIENCE,
    ) -> EventStream:
        """
        Ask, and read the header of the answer.

        Args:
            window: Bytes of the receive buffer; the system's own choice if None.
            patience: Seconds that the service may be silent.

        Raises:
            OSError: the connection ended before that, or nothing came.
        """
        sock = socket.socket()
        if window is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.settimeout(patience)
        try:
            return cls._asked(sock, url, headers)
        except BaseException:
            sock.close()
            raise

    @classmethod
    def _asked(
        cls, sock: socket.socket, url: str, headers: dict[str, str]
    ) -> EventStream:
        place = urlsplit(url)
        sock.connect((place.hostname, place.port))
        path = f"{place.path}?{place.query}" if place.query else place.path
        lines = [f"GET {path} HTTP/1.0", f"Host: {place.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            data = sock.recv(4096)
            if not data:
                raise ConnectionError(f"closed in the header: {head!r}")
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

    def problem(self) -> Any:
        """The JSON of an answer that is no stream, read to its end."""
        while data := self.sock.recv(4096):
            self.buffer += data
        return json.loads(self.buffer)

    def close(self) -> None:
        self.sock.close()
