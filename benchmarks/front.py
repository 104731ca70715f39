"""
What stands between a gateway and its callers: nginx, and a crowd of slow sockets.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.gateway import RATE, TOKENS, Service, service
from benchmarks.http import Target, fetch
from benchmarks.table import Row, Samples
from tests.endtoend.streams import EventStream
from tests.interop.nginx import nginx
from tests.processes import PATIENCE
from twisted_aotx.config.initial import new_token

#: Sockets that send a byte now and then, and that send nothing after an answer.
SLOW: Final = 2000
IDLE: Final = 1000
#: Of the gateway; what it is given is enough for all of them.
CONNECTIONS: Final = 4096
#: Descriptors that a process needs for that.
DESCRIPTORS: Final = 16_384
_EMISSION: Final = re.compile(rb"^event: emission\nid: (\S+)\n", re.MULTILINE)
#: Requests of each kind that are timed.
SAMPLES: Final = 400
#: Slow sockets that send a byte between two timed requests.
TRICKLE: Final = 10

_BODY = {
    "model": "reference",
    "messages": [{"role": "user", "content": "hello"}],
    "max_tokens": TOKENS,
}


# --- nginx --------------------------------------------------------------------


class Relay:
    """
    Hands on one connection to *upstream*, and notes when each emission passes.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        #: By the event's id.
        self.passed: dict[str, float] = {}

    def run(self) -> None:
        """Until the upstream has said everything."""
        client, _ = self._listening.accept()
        with client, socket.create_connection(self._upstream, PATIENCE) as server:
            server.sendall(client.recv(65536))
            seen = b""
            while data := server.recv(65536):
                now = time.perf_counter()
                seen += data
                for each in _EMISSION.findall(seen):
                    self.passed.setdefault(each.decode(), now)
                # An event may be in two pieces.
                seen = seen[-256:]
                client.sendall(data)
        self._listening.close()


def _delays(running: Service, folder: Path) -> Samples:
    """One request followed by way of nginx: how long each event takes to pass it."""
    relay = Relay(running.address)
    location = f"location / {{ proxy_pass http://127.0.0.1:{relay.port}; }}"
    status, made = fetch(running.target("/aotx/v1/requests", _BODY))
    assert status == 202, made
    with nginx(folder, location) as port, ThreadPoolExecutor(1) as pool:
        relaying = pool.submit(relay.run)
        url = f"http://127.0.0.1:{port}/aotx/v1/requests/{made['id']}/events"
        stream = EventStream.open(url, running.headers)
        seconds = []
        while (event := stream.next()) is not None:
            if event.name == "emission" and event.id is not None:
                seconds.append(time.perf_counter() - relay.passed[event.id])
        relaying.result()
    assert len(seconds) > TOKENS / 2, f"{len(seconds)} events"
    return Samples(seconds)


def _nginx() -> list[Row]:
    with service() as running, TemporaryDirectory() as folder:
        delays = _delays(running, Path(folder))
    aim = Row("the aim", 100, "ms")
    return [
        aim,
        Row("delay of an event, p50", delays.p50 * 1e3, "ms", "", aim),
        Row("delay of an event, p99", delays.p99 * 1e3, "ms", "", aim),
    ]


# --- slow sockets -------------------------------------------------------------


def _starts(port: int, token: str) -> list[bytes]:
    """Headers without an end, bodies without a token, bodies of one other principal."""
    host = f"Host: 127.0.0.1:{port}\r\n"
    post = (
        f"POST /v1/chat/completions HTTP/1.1\r\n{host}"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n"
    )
    return [
        f"GET /v1/models HTTP/1.1\r\n{host}X".encode(),
        f"{post}\r\n{{".encode(),
        f"{post}Authorization: Bearer {token}\r\n\r\n{{".encode(),
    ]


@contextmanager
def _crowd(address: tuple[str, int], token: str) -> Iterator[list[socket.socket]]:
    """The slow sockets, with the idle ones beside them."""
    idle = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\n\r\n".encode()
    starts = itertools.cycle(_starts(address[1], token))
    sent = [next(starts) for _ in range(SLOW)] + [idle] * IDLE
    with contextlib.ExitStack() as stack:
        sockets = []
        for data in sent:
            one = stack.enter_context(socket.create_connection(address, PATIENCE))
            one.sendall(data)
            one.setblocking(False)
            sockets.append(one)
        yield sockets[:SLOW]


def _timed(target: Target, slow: list[socket.socket]) -> Samples:
    """Whole answers on connections of their own, while *slow* trickle."""
    seconds = []
    turns = itertools.cycle(slow)
    for _ in range(SAMPLES):
        began = time.perf_counter()
        status, answer = fetch(target)
        seconds.append(time.perf_counter() - began)
        assert status == 200, answer
        for one in itertools.islice(turns, TRICKLE):
            # The gateway may have ended it, as it should.
            with contextlib.suppress(OSError):
                one.send(b"x")
    return Samples(seconds)


def _is_open(one: socket.socket) -> bool:
    """Whether the gateway has neither answered nor closed it."""
    try:
        one.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _beside_slow_sockets() -> list[Row]:
    (mine, digest), (token, other) = new_token(), new_token()
    principals = [
        {
            "id": f"{number + 1:032x}",
            "token_sha256": [each],
            "models": ["reference"],
            "actions": ["infer"],
        }
        for number, each in enumerate((digest, other))
    ]
    limits = {"connections": CONNECTIONS, "body_seconds": 300, "header_seconds": 300}
    with service(rate=0, limits=limits, principals=principals) as running:
        (running.state / "token").write_text(mine)
        targets = {
            "GET /v1/models": running.target("/v1/models"),
            "completion of 8 tokens": running.target(
                "/v1/chat/completions", _BODY | {"max_tokens": 8}
            ),
        }
        quiet = {name: _timed(target, []) for name, target in targets.items()}
        with _crowd(running.address, token) as slow:
            beside = {name: _timed(target, slow) for name, target in targets.items()}
            left = sum(map(_is_open, slow))
    rows = []
    for name in targets:
        base = Row.timed(f"{name}, quiet", quiet[name])
        rows += [base, Row.timed(f"{name}, beside them", beside[name], base)]
    rows.append(Row("slow sockets that are not answered yet", float(left), ""))
    return rows


def measure() -> dict[str, list[Row]]:
    """Tables by title; without nginx, or descriptors, one less."""
    tables = {}
    if shutil.which("nginx"):
        title = f"Events through nginx as it comes, {RATE} a second"
        tables[title] = _nginx()
    else:
        sys.stderr.write("front: nginx is not installed\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        sys.stderr.write(f"front: {DESCRIPTORS} descriptors are not allowed here\n")
        return tables
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    title = f"Beside {SLOW} slow and {IDLE} idle sockets (aim: 3 × quiet)"
    tables[title] = _beside_slow_sockets()
    return tables
