"""
A gateway and a runtime in processes of their own, asked over HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import attrs
import psutil  # type: ignore[import-untyped]  # it ships no types

from benchmarks.http import Target, answers_per_second, fetch, keep_busy
from benchmarks.table import Row, Samples
from tests.processes import (
    COMPILE_PATIENCE,
    PATIENCE,
    Process,
    address,
    edit,
    make_state,
    twistd,
)
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table

CONNECTIONS = (1, 16, 64)
#: Seconds that each figure of answers per second is taken over.
SECONDS = 4.0
STREAMS, TOKENS, RATE = 63, 200, 50
#: More bytes than tokens are asked for, so that every stream has TOKENS of them.
OUTPUT = "All streams bring the same words, and bring them in the same time. " * 4

_READY = "[aotx.{}#info] ready"


@attrs.frozen
class Service:
    """
    Both processes, and how to ask the gateway.
    """

    state: Path
    runtime: Process
    gateway: Process

    @property
    def address(self) -> tuple[str, int]:
        """Where the gateway listens."""
        place = urlsplit(address(self.state / "gateway.json"))
        assert place.hostname
        assert place.port
        return place.hostname, place.port

    @property
    def headers(self) -> dict[str, str]:
        """What makes a request one of the first principal."""
        token = (self.state / "token").read_text().strip()
        return {"Authorization": f"Bearer {token}"}

    def target(self, path: str, body: Any = None) -> Target:
        """A request of the first principal."""
        return Target.make(self.address, path, self.headers, body)


@contextmanager
def service(
    rate: int = RATE, modalities: Sequence[str] = (), **gateway: Any
) -> Iterator[Service]:
    """
    A running service whose engine emits OUTPUT at *rate* tokens per second (0: at
    once) and takes *modalities* beside text, with keys of *gateway* in its
    gateway.json.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        state = make_state(folder, **gateway)
        table = grant_table(load_gateway(state / "gateway.json").settings)
        replace_file(state / "grants", table.pack())
        engine: dict[str, Any] = {"engine": "reference", "rate": rate, "text": OUTPUT}
        engine["modalities"] = list(modalities)
        edit(state / "runtime.json", models={"language": engine})
        with twistd(folder, "aotx-runtime", "--state", state) as runtime:
            runtime.wait_for(_READY.format("runtime"), COMPILE_PATIENCE)
            with twistd(folder, "aotx-gateway", "--state", state) as started:
                started.wait_for(_READY.format("gateway"))
                yield Service(state, runtime, started)


def _cpu(process: Process) -> float:
    times = psutil.Process(process.popen.pid).cpu_times()
    return float(times.user + times.system)


def _rss(process: Process) -> float:
    return float(psutil.Process(process.popen.pid).memory_info().rss) / 1e6


def _per_second(running: Service, what: str, target: Target) -> Iterator[Row]:
    """Answers per second at each number of connections, and the CPU of one."""
    base = None
    for connections in CONNECTIONS:
        before = _cpu(running.gateway), _cpu(running.runtime)
        rate = answers_per_second(target, connections, SECONDS)
        used = _cpu(running.gateway) - before[0], _cpu(running.runtime) - before[1]
        each = [seconds / (rate * SECONDS) * 1e6 for seconds in used]
        note = f"CPU of one: gateway {each[0]:.0f} µs, runtime {each[1]:.0f} µs"
        plural = "s" if connections > 1 else ""
        row = Row(f"{what}, {connections} connection{plural}", rate, "/s", note, base)
        base = base or row
        yield row


def _completed(running: Service) -> Target:
    """READ of a request that has run."""
    body = {
        "model": "reference",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 32,
    }
    status, created = fetch(running.target("/aotx/v1/requests", body))
    assert status == 202, created
    target = running.target(f"/aotx/v1/requests/{created['id']}")
    deadline = time.monotonic() + PATIENCE
    while fetch(target)[1]["state"] != "completed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return target


def _streams(running: Service) -> list[Row]:
    """Completions as streams, all at once: what arrives when."""
    body = {
        "model": "reference",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": TOKENS,
        "stream": True,
    }
    target = running.target("/v1/chat/completions", body)
    arrivals: list[list[float]] = []
    ended = 0

    def receiver() -> Callable[[bytes], bool]:
        times: list[float] = []
        arrivals.append(times)
        tail = b""

        def receive(data: bytes) -> bool:
            nonlocal tail, ended
            now = time.perf_counter()
            both = tail + data
            times.extend([now] * (both.count(b"data: {") - tail.count(b"data: {")))
            tail = both[-64:]
            if b"data: [DONE]" in both or not data:
                ended += 1
                return True
            return False

        return receive

    before = _cpu(running.gateway), _cpu(running.runtime)
    start = time.perf_counter()
    connections = {target.connect(): receiver() for _ in range(STREAMS)}
    keep_busy(connections, 10 * TOKENS / RATE)
    wall = time.perf_counter() - start
    used = _cpu(running.gateway) - before[0], _cpu(running.runtime) - before[1]
    for connection in connections:
        connection.close()
    assert ended == STREAMS, f"{ended} of {STREAMS} streams ended"
    # The first event of a stream has no text and comes before the first token.
    gaps = Samples(
        [after - first for times in arrivals for first, after in pairwise(times[1:])]
    )
    due = Row("time that the tokens take at their rate", TOKENS / RATE, "s")
    gap = Row("one token's time", 1e3 / RATE, "ms")
    cpu = f"CPU: gateway {used[0] / wall:.0%}, runtime {used[1] / wall:.0%} of a core"
    return [
        due,
        Row("wall, all streams", wall, "s", cpu, due),
        Row("events, all streams", float(sum(map(len, arrivals))), ""),
        gap,
        Row("gap between events, p50", gaps.p50 * 1e3, "ms", "", gap),
        Row("gap between events, p99", gaps.p99 * 1e3, "ms", "", gap),
    ]


def measure() -> dict[str, list[Row]]:
    """Tables by title."""
    with service() as running:
        gateway = Row("gateway at the start", _rss(running.gateway), "MB")
        runtime = Row("runtime at the start", _rss(running.runtime), "MB")
        target = running.target("/aotx/v1/capabilities")
        answers = list(_per_second(running, "capabilities", target))
        answers += _per_second(running, "READ", _completed(running))
        streams = _streams(running)
        memory = [
            gateway,
            Row("gateway at the end", _rss(running.gateway), "MB", "", gateway),
            runtime,
            Row("runtime at the end", _rss(running.runtime), "MB", "", runtime),
        ]
    title = f"{STREAMS} streams of {TOKENS} tokens at {RATE} tokens/s"
    return {"Answers per second": answers, title: streams, "Resident memory": memory}
