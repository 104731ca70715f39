"""
Round trips through the real broker and device, beside an echo on the same transport.

The client is a plain blocking socket in this process, so that only the server's side
differs.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil  # type: ignore[import-untyped]  # it ships no types

from benchmarks.table import Row, Samples
from tests.processes import COMPILE_PATIENCE, PATIENCE, Process, make_state, twistd
from twisted_aotx.limits import PACKET_BYTES_MAX
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.numbers import Operation, Status
from twisted_aotx.wire.packet import RequestHeader, split_reply

#: Round trips in a row, and how often both servers have their turn.
BLOCK, BLOCKS = 250, 20
IDLE_SECONDS = 3.0
RUNTIME_READY = "[aotx.runtime#info] ready"


@contextmanager
def echo_server(path: Path) -> Iterator[None]:
    """`benchmarks.echo`, listening at *path*."""
    command = [sys.executable, "-m", "benchmarks.echo", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        yield
        process.kill()


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """A connection to the server at *path*."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        yield connection


def round_trips(connection: socket.socket, packet: bytes, size: int) -> list[float]:
    """Seconds until the reply of *size* bytes to *packet*, BLOCK times."""
    seconds = []
    for _ in range(BLOCK):
        start = time.perf_counter()
        connection.send(packet)
        reply = connection.recv(PACKET_BYTES_MAX)
        seconds.append(time.perf_counter() - start)
        assert len(reply) == size
    return seconds


def idle_cpu(process: Process) -> Row:
    """What a runtime costs that nobody asks anything."""
    watched = psutil.Process(process.popen.pid)
    watched.cpu_percent()
    time.sleep(IDLE_SECONDS)
    percent = watched.cpu_percent()
    return Row("idle runtime", percent, "% of a core", f"over {IDLE_SECONDS:g} s")


def measure() -> dict[str, list[Row]]:
    """INFO through socket, broker, mailbox, device thread and back; and the echo."""
    echo: list[float] = []
    through: list[float] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        state = make_state(folder)
        grants = GrantTable.unpack((state / "grants").read_bytes())
        info = RequestHeader(
            operation=Operation.INFO,
            principal=grants.rows[0].principal,
            revision=grants.revision,
        ).pack()
        with (
            twistd(folder, "aotx-runtime", "--state", state) as process,
            echo_server(folder / "echo.sock"),
        ):
            process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
            idle = idle_cpu(process)
            with (
                connected(folder / "echo.sock") as echoes,
                connected(state / "service.sock") as service,
            ):
                service.send(info)
                reply = service.recv(PACKET_BYTES_MAX)
                assert split_reply(reply)[0].status == Status.OK
                # In turn, so that both meet the same load of the machine.
                for _ in range(BLOCKS):
                    echo += round_trips(echoes, info, len(info))
                    through += round_trips(service, info, len(reply))
    base = Row.timed("seqpacket echo of 128 bytes", Samples(echo))
    info_row = Row.timed("INFO through the broker", Samples(through), base)
    return {"Round trips on one connection": [base, info_row, idle]}
