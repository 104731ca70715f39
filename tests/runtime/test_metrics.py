"""
What a runtime tells of itself, and the endpoint that tells it (D10).
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.internet.threads import deferToThread

from tests.asynchronous import asynchronous, asynchronous_fixture
from tests.runtime.doubles import (
    ListedEngine,
    MemoryDevice,
    ThreadedReactor,
    facts,
    new_store,
)
from twisted_aotx.devices import DeviceStats
from twisted_aotx.runtime.metrics import RuntimeCollector, RuntimeState
from twisted_aotx.runtime.saving import SavingState
from twisted_aotx.runtime.scrape import CONNECTIONS_MAX, SECONDS_MAX, ScrapeSite
from twisted_aotx.runtime.service import RuntimeService

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def runtime_state() -> RuntimeState:
    """A runtime whose second engine was lost twice and came back once."""
    stats = DeviceStats(
        ticks=7,
        frames=5,
        leases=3,
        queued=2,
        dropped_events=1,
        held=True,
        roles_active=0b0100,
        busy_ns=2_500_000_000,
        media_objects=6,
        media_bytes_free=65536,
        media_receipts=8,
        usage_pending=9,
    )
    saving = SavingState(saved=11, failed=4, store_bytes=40960, last_seconds=0.25)
    return RuntimeState(
        device=stats, saving=saving, losses={2: 0, 3: 2}, returns={2: 0, 3: 1}
    )


def told(collector: RuntimeCollector) -> dict[tuple[str, str], float]:
    """(name, role or nothing) → value; there is no other label."""
    registry = CollectorRegistry()
    registry.register(collector)
    found = {}
    for family in registry.collect():
        for sample in family.samples:
            assert set(sample.labels) <= {"role"}
            found[sample.name, sample.labels.get("role", "")] = sample.value
    return found


def test_everything_that_the_device_tells_is_told() -> None:
    state = runtime_state()

    assert told(RuntimeCollector(lambda: state)) == {
        ("aotx_device_ticks_total", ""): 7,
        ("aotx_device_tick_seconds_total", ""): 2.5,
        ("aotx_device_frames_total", ""): 5,
        ("aotx_device_dropped_events_total", ""): 1,
        ("aotx_device_leases", ""): 3,
        ("aotx_device_queue_length", ""): 2,
        ("aotx_device_held", ""): 1,
        ("aotx_device_media_objects", ""): 6,
        ("aotx_device_media_bytes_free", ""): 65536,
        ("aotx_device_media_receipts", ""): 8,
        ("aotx_device_usage_pending", ""): 9,
        ("aotx_store_records_saved_total", ""): 11,
        ("aotx_store_records_failed_total", ""): 4,
        ("aotx_store_bytes", ""): 40960,
        ("aotx_store_last_save_seconds", ""): 0.25,
        ("aotx_engine_active", "language"): 1,
        ("aotx_engine_active", "language-q4"): 0,
        ("aotx_engine_losses_total", "language"): 0,
        ("aotx_engine_losses_total", "language-q4"): 2,
        ("aotx_engine_returns_total", "language"): 0,
        ("aotx_engine_returns_total", "language-q4"): 1,
    }


def test_a_runtime_that_does_not_run_tells_nothing() -> None:
    assert told(RuntimeCollector(lambda: None)) == {}


def test_a_service_counts_its_engines_losses_while_it_runs(tmp_path: Path) -> None:
    threads, device = ThreadedReactor(), MemoryDevice()
    engines = ListedEngine(facts(2)), ListedEngine(facts(3))
    service = RuntimeService(threads, device, engines, new_store(tmp_path))
    assert service.state() is None
    done: list[Any] = []
    service.start().addBoth(done.append)
    threads.until(lambda: done)
    host = engines[1].host
    assert host is not None
    host.lost("x")
    host.lost("again")
    host.back()
    threads.until(lambda: (3, True) in device.roles)

    state = service.state()
    assert state is not None
    assert (state.losses, state.returns) == ({2: 0, 3: 1}, {2: 0, 3: 1})
    assert state.device == device.stats()

    done.clear()
    service.stop().addBoth(done.append)
    assert service.state() is None
    threads.until(lambda: done)


# --- the endpoint -------------------------------------------------------------


@attrs.define
class Endpoint:
    site: ScrapeSite
    port: int

    def ask(self, sent: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), 5) as client:
            client.sendall(sent)
            received = b""
            while part := client.recv(65536):
                received += part
            return received


@asynchronous_fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    state = runtime_state()
    clock: Any = reactor
    site = ScrapeSite(clock, RuntimeCollector(lambda: state))
    port = clock.listenTCP(0, site, interface="127.0.0.1")
    yield Endpoint(site, port.getHost().port)
    await maybeDeferred(port.stopListening)
    site.close()
    while site.connections:
        wait: Deferred[None] = Deferred()
        clock.callLater(0.01, wait.callback, None)
        await wait


@asynchronous
async def test_a_scrape_is_answered_once_in_the_text_format(endpoint: Endpoint) -> None:
    answer = await deferToThread(endpoint.ask, GET * 2)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close" in head
    assert b"text/plain; version=0.0.4" in head
    names = {each.name for each in text_string_to_metric_families(body.decode())}
    assert {"aotx_device_ticks", "aotx_engine_active", "process_open_fds"} <= names


@asynchronous
@pytest.mark.parametrize(
    ("sent", "first", "rest"),
    [
        (GET.replace(b"/metrics", b"/"), b"404 Not Found", b"only /metrics"),
        (GET.replace(b"GET", b"PUT"), b"405 Method Not Allowed", b"only GET and"),
        (GET.replace(b"GET", b"HEAD"), b"200 OK", b""),
        (GET[:-2] + b"Content-Length: 1\r\n\r\nx", b"413 Content Too Large", b""),
        (GET[:-2] + b"Content-Length: 99999999\r\n\r\n", b"413 Content", b""),
        (GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"413 ", b""),
        (b"nonsense\r\n\r\n", b"400 Bad Request", b""),
    ],
)
async def test_everything_else_is_refused_in_plain_text(
    endpoint: Endpoint, sent: bytes, first: bytes, rest: bytes
) -> None:
    answer = await deferToThread(endpoint.ask, sent)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + first)
    assert answer.count(b"HTTP/1.1") == 1
    assert body.startswith(rest)
    assert (body == b"") == (rest == b"")
    assert b"<" not in answer


class Wire(StringTransport):
    """A transport that says whether it was aborted."""

    aborted = False

    def abortConnection(self) -> None:
        """Noted."""
        self.aborted = True


def test_a_connection_has_its_time_and_no_more_than_some_are_taken() -> None:
    clock = Clock()
    site = ScrapeSite(clock, RuntimeCollector(lambda: None))
    wires = []
    channels = []
    for _ in range(CONNECTIONS_MAX):
        channel: Protocol = site.buildProtocol(None)
        wires.append(Wire())  # type: ignore[no-untyped-call]
        channel.makeConnection(wires[-1])
        channels.append(channel)
    assert site.buildProtocol(None) is None

    for _ in range(9):
        channels[0].dataReceived(b"G")
        clock.advance(SECONDS_MAX / 10)
    assert not wires[0].aborted
    clock.advance(SECONDS_MAX / 10)
    assert all(wire.aborted for wire in wires)

    channels[0].connectionLost()
    assert site.buildProtocol(None) is not None
    for channel in channels[1:]:
        channel.connectionLost()
    assert site.connections == set()
    assert clock.getDelayedCalls() == []
