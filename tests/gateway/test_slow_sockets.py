"""
Many sockets that are slow on purpose, beside callers that are not.

A few here; `AOTX_SLOW_SOCKETS=2000` with 4096 connections and a descriptor limit of
16,384 is the size that the limits are made for.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import time
from pathlib import Path

import attrs

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import DeviceScript
from tests.gateway.feeds import CHAT, body, eventually, stream, text_of
from tests.gateway.serving import PRINCIPALS, TOKEN_2, Serving, sleep
from twisted_aotx.gateway.settings import Limits
from twisted_aotx.wire.numbers import Action

COUNT = int(os.environ.get("AOTX_SLOW_SOCKETS", "50"))
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
    b"Content-Type: application/json\r\nContent-Length: 50\r\n"
)
#: Headers without an end, bodies without a token, bodies of one other principal.
SLOW = (
    b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX",
    POST + b"\r\n{",
    POST + b"Authorization: Bearer " + TOKEN_2.encode() + b"\r\n\r\n{",
)
#: How long ordinary callers may take, in seconds.
PATIENCE = 5.0


def taken() -> tuple[int, int]:
    """
    Descriptors and bytes of memory that this process has.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE")


async def opened(gateway: Serving, sent: list[bytes]) -> list[socket.socket]:
    sockets = []
    for number, data in enumerate(sent):
        one = socket.create_connection(("127.0.0.1", gateway.port), PATIENCE)
        one.setblocking(False)
        one.send(data)
        sockets.append(one)
        if number % 20 == 19:
            await sleep(0.005)
    return sockets


async def trickle(sockets: list[socket.socket]) -> None:
    for number, one in enumerate(sockets):
        # It may be closed by the gateway, as it should be.
        with contextlib.suppress(OSError):
            one.send(b"x")
        if number % 100 == 99:
            await sleep(0)


async def ordinary(gateway: Serving) -> float:
    """
    A health check, a list, a completion and a stream; seconds of the slowest.
    """
    slowest = 0.0
    for path, sent in (("/healthz", None), ("/v1/models", None), (CHAT, body())):
        began = time.monotonic()
        method = "GET" if sent is None else "POST"
        assert (await gateway.request(method, path, json=sent)).status == 200
        slowest = max(slowest, time.monotonic() - began)
    assert text_of(await stream(gateway, json=body(stream=True))) == "hi"
    return slowest


@asynchronous
async def test_slow_sockets_stand_in_nobody_s_way(serve: Serve) -> None:
    """
    D14, D16, D29: everybody else is answered; after the deadlines the slow are gone,
    and so is what they took.
    """
    device = DeviceScript()
    device.on_submit = lambda request: request.complete(b"hi")
    seconds = 2 if COUNT < 500 else 20
    limits = Limits(
        connections=2 * COUNT + 96,
        work=COUNT // 5,
        header_seconds=seconds,
        body_seconds=seconds,
    )
    # Its bodies are read as far as they come, more at once than there are work slots.
    other = attrs.evolve(PRINCIPALS[1], actions=Action.INFER)
    gateway = await serve(
        device,
        limits=limits,
        idle_seconds=600,
        principals=(PRINCIPALS[0], other),
    )
    await ordinary(gateway)
    gc.collect()
    files, memory = taken()
    slow = await opened(gateway, [SLOW[n % 3] for n in range(COUNT)])
    idle = await opened(gateway, [HEALTH] * (COUNT // 2))
    worst = 0.0
    until = time.monotonic() + seconds * 1.2
    while time.monotonic() < until:
        await trickle(slow)
        worst = max(worst, await ordinary(gateway))
        await sleep(0.05)
    assert worst < PATIENCE

    # Waiting for a reader is over after 5 s, reading after body_seconds.
    kept = len(idle) + 1
    await eventually(lambda: len(gateway.site.connections) <= kept, 10 + 2 * seconds)
    assert set(gateway.gateway.budgets.held().values()) == {0}
    for one in idle:
        assert one.recv(4096).endswith(b'{"status":"ok"}')
    for one in slow + idle:
        one.close()
    await eventually(lambda: len(gateway.site.connections) <= 1)
    await ordinary(gateway)
    gc.collect()
    files_after, memory_after = taken()
    assert files_after <= files + 2
    assert memory_after - memory < 32 << 20
