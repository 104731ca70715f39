"""
How long other callers wait while a large source is taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import attrs

from benchmarks.broker import connected
from benchmarks.gateway import Service
from benchmarks.hashing import plain
from benchmarks.http import fetch, whole_answer
from benchmarks.table import Row, Samples
from benchmarks.uploads import JPEG, MIB, posting, remove, uploaded, uploading
from tests.media_made import make_jpeg, pad_jpeg
from twisted_aotx.limits import PACKET_BYTES_MAX
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import RequestHeader, split_reply

#: The source that others wait beside.
LARGE_MIB: Final = 32
#: Asks of another caller, with nothing beside them and beside what is none of ours; so
#: many fit beside the source, more or less.
ASKS: Final = 5000


@attrs.frozen
class Beside:
    """
    Waits of another caller: alone, while the plain handler takes sources (all that is
    in its way is the machine), and while the service takes one.
    """

    alone: Samples
    machine: Samples
    beside: Samples

    def rows(self, what: str) -> list[Row]:
        """The medians, and the longest waits; the aim is for their difference."""
        base = Row.timed(what, self.alone)
        source = f"a source of {LARGE_MIB} MiB"
        longest = Row("the longest", max(self.alone.seconds) * 1e3, "ms")
        theirs = Row("the longest", max(self.machine.seconds) * 1e3, "ms", "", longest)
        aim = "the aim is 1 ms more"
        return [
            base,
            longest,
            Row.timed(f"{what}, beside the plain handler's", self.machine, base),
            theirs,
            Row.timed(f"{what}, beside {source}", self.beside, base),
            Row("the longest", max(self.beside.seconds) * 1e3, "ms", aim, theirs),
        ]


def _while(send: Callable[[], object], ask: Callable[[], float]) -> Samples:
    """What *ask* takes while another thread does *send*, once."""
    seconds: list[float] = []
    ended = threading.Event()

    def run() -> None:
        try:
            send()
        finally:
            ended.set()

    sender = threading.Thread(target=run)
    sender.start()
    while not ended.is_set():
        seconds.append(ask())
    sender.join()
    return Samples(seconds)


def _compare(
    running: Service,
    address: tuple[str, int],
    body: bytes,
    ask: Callable[[], float],
) -> Beside:
    # Made before: a copy of so many bytes would keep this process from asking.
    target, plain_target = uploading(running, body, JPEG), posting(address, body)

    def upload() -> None:
        _, source = uploaded(target)
        remove(running, source["id"])

    alone = Samples([ask() for _ in range(ASKS)])
    machine: list[float] = []
    while len(machine) < ASKS:
        machine += _while(lambda: fetch(plain_target), ask).seconds
    return Beside(alone, Samples(machine), _while(upload, ask))


def waits(running: Service) -> list[Row]:
    """Of a caller of the device, and of one of the gateway."""
    with plain() as address:
        return _waits_beside(running, address)


def _waits_beside(running: Service, address: tuple[str, int]) -> list[Row]:
    body = pad_jpeg(make_jpeg(), LARGE_MIB * MIB)
    grants = GrantTable.unpack((running.state / "grants").read_bytes())
    info = RequestHeader(
        operation=Operation.INFO,
        principal=grants.rows[0].principal,
        revision=grants.revision,
    ).pack()
    rows: list[Row] = []
    with connected(running.state / "service.sock") as connection:

        def ask() -> float:
            start = time.perf_counter()
            connection.send(info)
            reply = connection.recv(PACKET_BYTES_MAX)
            seconds = time.perf_counter() - start
            assert split_reply(reply)[0].status == 200
            return seconds

        rows += _compare(running, address, body, ask).rows("INFO by packet")
    target = running.target("/aotx/v1/capabilities")
    with target.connect() as kept:

        def answered() -> None:
            received = b""
            while whole_answer(received) is None:
                received += kept.recv(65536)

        def get() -> float:
            start = time.perf_counter()
            kept.sendall(target.data)
            answered()
            return time.perf_counter() - start

        answered()
        rows += _compare(running, address, body, get).rows("capabilities over HTTP")
    return rows
