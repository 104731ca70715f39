"""
A small HTTP client that keeps many connections busy from one thread.

Written by hand because a client library costs more per request than the gateway does,
and both share the machine.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tests.processes import PATIENCE

_END = b"\r\n\r\n"


@attrs.frozen
class Target:
    """
    One HTTP request, ready to send, and where to.
    """

    address: tuple[str, int]
    data: bytes

    @classmethod
    def make(
        cls,
        address: tuple[str, int],
        path: str,
        headers: Mapping[str, str],
        body: Any = None,
    ) -> Target:
        """GET *path*, or POST it with the JSON *body*."""
        method, content = "GET", b""
        lines = [f"Host: {address[0]}:{address[1]}"]
        if body is not None:
            method, content = "POST", json.dumps(body).encode()
            lines += ["Content-Type: application/json"]
            lines += [f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        return cls(address, head.encode() + content)

    def connect(self) -> socket.socket:
        """A connection, with the request sent."""
        connection = socket.create_connection(self.address, PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(self.data)
        return connection


def whole_answer(received: bytes) -> tuple[int, bytes] | None:
    """Status and body, once everything of an answer with a length is there."""
    head, found, body = received.partition(_END)
    if not found:
        return None
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            if len(body) < int(value):
                return None
            return int(head.split()[1]), body
    raise AssertionError(f"an answer without a length: {head!r}")


def fetch(target: Target) -> tuple[int, Any]:
    """One answer, its body read as JSON."""
    with target.connect() as connection:
        received = b""
        while (answer := whole_answer(received)) is None:
            data = connection.recv(65536)
            assert data, "closed before the answer was whole"
            received += data
    return answer[0], json.loads(answer[1])


def keep_busy(
    connections: Mapping[socket.socket, Callable[[bytes], bool]], seconds: float
) -> None:
    """
    Give what arrives on each connection to its function, until that returns True; for
    at most *seconds*.
    """
    deadline = time.perf_counter() + seconds
    with selectors.DefaultSelector() as selector:
        for connection, receive in connections.items():
            selector.register(connection, selectors.EVENT_READ, receive)
        while selector.get_map() and time.perf_counter() < deadline:
            for key, _ in selector.select(0.1):
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if key.data(ready.recv(65536)):
                    selector.unregister(ready)


def answers_per_second(target: Target, connections: int, seconds: float) -> float:
    """How many answers with 200 come when each connection asks again at once."""
    count = 0
    opened = [target.connect() for _ in range(connections)]

    def receiver(connection: socket.socket) -> Callable[[bytes], bool]:
        received = bytearray()

        def receive(data: bytes) -> bool:
            nonlocal count
            assert data, "the gateway closed a connection"
            received.extend(data)
            answer = whole_answer(bytes(received))
            if answer is not None:
                assert answer[0] == 200, answer
                received.clear()
                count += 1
                connection.sendall(target.data)
            return False

        return receive

    start = time.perf_counter()
    keep_busy({each: receiver(each) for each in opened}, seconds)
    elapsed = time.perf_counter() - start
    for each in opened:
        each.close()
    return count / elapsed
