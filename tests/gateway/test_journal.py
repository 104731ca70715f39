"""
Lines and warnings about requests: what they tell, and what never (`http.md` §1).
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.endpoints import (
    HostnameEndpoint,
    TCP4ServerEndpoint,
    connectProtocol,
)
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.protocols.haproxy import proxyEndpoint
from zope.interface import implementer

from tests.asynchronous import asynchronous
from tests.clocks import standing_clock
from tests.gateway.conftest import Serve
from tests.gateway.feeds import CHAT, body, stream
from tests.gateway.serving import P1, TOKEN, TOKEN_2, Raw, Serving, digest, parsed
from twisted_aotx.gateway.journal import WARNINGS_MAX, WARNINGS_SECONDS, address


@pytest.fixture
def logged() -> Iterator[list[LogEvent]]:
    events: list[LogEvent] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        events.append(event)

    globalLogPublisher.addObserver(observe)
    yield events
    globalLogPublisher.removeObserver(observe)


def warnings(logged: list[LogEvent]) -> list[str]:
    return [formatEvent(event) for event in logged if event["log_level"].name == "warn"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def journaling(serve: Serve, path: Path) -> Serving:
    gateway = await serve()
    gateway.site.journal.open(str(path))
    return gateway


@asynchronous
async def test_every_request_is_a_line(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    gateway = await journaling(serve, path)
    gateway.device.on_submit = lambda request: request.complete(b"hi")
    await gateway.get("/v1/models")
    whole = await gateway.post(CHAT, body())
    await stream(gateway, json=body(stream=True))
    await gateway.get("/v1/models/m", token=None)
    await gateway.get("/nowhere")
    await gateway.raw(b"nonsense\r\n\r\n")

    models, first, second, unknown, nowhere, nonsense = lines(path)

    assert models["peer"].startswith("127.0.0.1:")
    assert models["principal"] == P1.hex()
    assert (models["method"], models["path"], models["status"]) == (
        "GET",
        "/v1/models",
        200,
    )
    assert models["sent_bytes"] > 100
    assert first["request_id"] == whole.header("x-request-id")
    assert first["body_bytes"] > 20
    assert (second["status"], second["code"]) == (200, "")
    assert (unknown["status"], unknown["principal"]) == (401, "none")
    assert (nowhere["path"], nowhere["code"]) == ("other", "route_not_found")
    assert (nonsense["status"], nonsense["path"]) == (400, "other")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@asynchronous
async def test_lines_hold_no_query_token_header_or_body(
    serve: Serve, tmp_path: Path, logged: list[LogEvent]
) -> None:
    """
    B85: nor does the log.
    """
    path = tmp_path / "access.log"
    gateway = await journaling(serve, path)
    secret = "s3cr3t" * 8
    gateway.device.on_submit = lambda request: request.complete(secret.encode())
    await gateway.get(f"/v1/models?{secret}={secret}")
    await gateway.get(f"/{secret}", token=secret)
    await gateway.get("/v1/models", token=secret, headers={"X-Request-ID": secret})
    await gateway.post(CHAT, body(secret))
    await gateway.post(CHAT, body(user=secret, stream=secret))

    seen = path.read_text() + repr(logged)

    assert len(lines(path)) == 5
    assert "s3cr3t" not in seen
    for token in (TOKEN, TOKEN_2):
        assert token not in seen
        assert digest(token).hex() not in seen


@asynchronous
async def test_without_a_path_nothing_is_written(gateway: Serving) -> None:
    gateway.site.journal.open(None)

    assert (await gateway.get("/healthz")).status == 200


@asynchronous
async def test_a_rotated_log_is_begun_anew(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    gateway = await journaling(serve, path)
    await gateway.get("/healthz")
    path.rename(tmp_path / "access.log.1")
    await gateway.get("/healthz")
    gateway.site.journal.open(str(path))
    await gateway.get("/readyz")

    assert len(lines(tmp_path / "access.log.1")) == 2
    assert [line["path"] for line in lines(path)] == ["/readyz"]
    # What cannot be opened changes nothing.
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        gateway.site.journal.open(str(path))
    assert (await gateway.get("/healthz")).status == 200


@asynchronous
async def test_who_has_no_token_is_warned_about_with_its_address(
    gateway: Serving, logged: list[LogEvent]
) -> None:
    """
    B85, B93: address and principal `none`, no token; ten lines a minute at most.
    """
    clock = standing_clock()
    clock.advance(1)
    for number in range(WARNINGS_MAX + 5):
        gateway.gateway.reactor = cast(Any, clock)
        await gateway.get("/v1/models", token=f"{number:032}")

    said = warnings(logged)
    assert len(said) == WARNINGS_MAX
    for line in said:
        assert line.startswith("no valid token from 127.0.0.1:")
        assert line.endswith("principal none")

    clock.advance(WARNINGS_SECONDS)
    await gateway.get("/v1/models", token=None)
    more = warnings(logged)[WARNINGS_MAX:]
    assert more[0] == "5 more requests without a valid token"
    assert len(more) == 2
    assert "0" * 20 not in repr(logged)


@asynchronous
async def test_a_proxy_s_client_is_the_one_that_is_named(
    serve: Serve, logged: list[LogEvent], tmp_path: Path
) -> None:
    """
    B93: behind `haproxy:` the PROXY header tells the address of the client.
    """
    gateway = await journaling(serve, tmp_path / "access.log")
    clock = cast(Any, gateway.gateway.reactor)
    endpoint = proxyEndpoint(TCP4ServerEndpoint(clock, 0, interface="127.0.0.1"))
    port = await endpoint.listen(gateway.site)
    raw = Raw()
    await connectProtocol(
        HostnameEndpoint(clock, "127.0.0.1", port.getHost().port), raw
    )
    raw.send(
        b"PROXY TCP4 198.51.100.7 127.0.0.1 4321 8081\r\n"
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )

    answer = parsed(await raw.closed)
    await port.stopListening()

    assert answer.problem == (401, "invalid_api_key", None)
    assert warnings(logged) == ["no valid token from 198.51.100.7:4321, principal none"]
    (line,) = lines(tmp_path / "access.log")
    assert (line["peer"], line["principal"]) == ("198.51.100.7:4321", "none")


def test_addresses_as_text() -> None:
    assert address(IPv4Address("TCP", "192.0.2.1", 80)) == "192.0.2.1:80"
    assert address(IPv6Address("TCP", "2001:db8::1", 80)) == "[2001:db8::1]:80"
    assert address(UNIXAddress(None)) == address(None) == "unix"
