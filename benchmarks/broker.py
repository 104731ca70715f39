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

from benchmarks.table import Row, Samples
from tests.processes import COMPILE_PATIENCE, PATIENCE, make_state, twistd
from twisted_aotx.limits import PACKET_BYTES_MAX
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.numbers import Operation, Status
from twisted_aotx.wire.packet import RequestHeader, split_reply

ROUND_TRIPS = 5000
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


def round_trips(path: Path, packet: bytes, reply_bytes: int) -> Samples:
    """Send *packet* and wait for a reply of *reply_bytes*, again and again."""
    seconds = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        for _ in range(ROUND_TRIPS):
            start = time.perf_counter()
            connection.send(packet)
            reply = connection.recv(PACKET_BYTES_MAX)
            seconds.append(time.perf_counter() - start)
            assert len(reply) == reply_bytes
    return Samples(seconds[100:])


def exchange(path: Path, packet: bytes) -> bytes:
    """One exchange on a connection of its own."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(path))
        connection.send(packet)
        return connection.recv(PACKET_BYTES_MAX)


def measure() -> dict[str, list[Row]]:
    """INFO through socket, broker, mailbox, device thread and back; and the echo."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        state = make_state(folder)
        grants = GrantTable.unpack((state / "grants").read_bytes())
        info = RequestHeader(
            operation=Operation.INFO,
            principal=grants.rows[0].principal,
            revision=grants.revision,
        ).pack()
        with echo_server(folder / "echo.sock"):
            echo = round_trips(folder / "echo.sock", info, len(info))
        with twistd(folder, "aotx-runtime", "--state", state) as process:
            process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
            path = state / "service.sock"
            reply = exchange(path, info)
            assert split_reply(reply)[0].status == Status.OK
            through = round_trips(path, info, len(reply))
    base = Row.timed("seqpacket echo of 128 bytes", echo)
    info_row = Row.timed("INFO through the broker", through, base)
    return {"Round trips on one connection": [base, info_row]}
