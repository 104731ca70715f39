"""
Uploads through a gateway beside a handler that only hashes what it gets, and how long
others wait meanwhile.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import hashlib
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, cast

import attrs
from twisted.internet import reactor
from twisted.web import http
from twisted.web.resource import Resource

from benchmarks.broker import connected
from benchmarks.device import Stepped
from benchmarks.edge import QuietSite
from benchmarks.gateway import Service, service
from benchmarks.http import Target, fetch, whole_answer
from benchmarks.table import Row, Samples
from tests.device.capacities import DEFAULT
from tests.device.making import grant, new_device, played_engine, request_id
from tests.media_made import make_jpeg, make_wav, pad_jpeg
from twisted_aotx.limits import MEDIA_BYTES_PER_TICK, PACKET_BYTES_MAX
from twisted_aotx.wire.grants import GrantTable
from twisted_aotx.wire.media import CHUNK_BYTES_MAX, BeginData, MediaFrame
from twisted_aotx.wire.numbers import Action, MediaFormat, Modality, Operation
from twisted_aotx.wire.packet import RequestHeader, split_reply

MIB: Final = 1 << 20
#: Size in MiB → how often each server has its turn.
UPLOADS: Final = {1: 15, 8: 7, 32: 5}
MEDIA: Final = "/aotx/v1/media"
JPEG: Final = "image/jpeg"
#: The source that others wait beside.
LARGE_MIB: Final = 32
#: Asks of another caller, with nothing beside them and beside what is none of ours; so
#: many fit beside the source, more or less.
ASKS: Final = 5000


# --- the plain handler ----------------------------------------------------------------


class Hashing(Resource):
    """
    Answers POST with the SHA-256 of the body as a JSON string.
    """

    isLeaf = True

    def render_POST(self, request: http.Request) -> bytes:
        """Hash it."""
        digest = hashlib.sha256()
        content: Any = request.content
        while block := content.read(65536):
            digest.update(block)
        return b'"%s"' % digest.hexdigest().encode()


def serve() -> None:
    """Serve on a port of 127.0.0.1, which is printed, until killed."""
    clock = cast(Any, reactor)
    site = QuietSite(Hashing(), parsePOSTFormSubmission=False, timeout=75)
    port = clock.listenTCP(0, site, backlog=64, interface="127.0.0.1")
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    clock.run()


@contextmanager
def plain() -> Iterator[tuple[str, int]]:
    """The plain handler in a process of its own; where it listens."""
    command = [sys.executable, "-m", "benchmarks.media"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield "127.0.0.1", int(process.stdout.readline())
        process.kill()


# --- uploads --------------------------------------------------------------------------


def posting(
    address: tuple[str, int], body: bytes, kind: str = JPEG, *lines: str
) -> Target:
    """POST of *body* as it is, with header *lines*."""
    head = [f"POST {MEDIA} HTTP/1.1", f"Host: {address[0]}:{address[1]}", *lines]
    head += [f"Content-Type: {kind}", f"Content-Length: {len(body)}", "", ""]
    return Target(address, "\r\n".join(head).encode() + body)


def uploading(running: Service, body: bytes, kind: str) -> Target:
    """An upload of the first principal."""
    lines = [f"{name}: {value}" for name, value in running.headers.items()]
    return posting(running.address, body, kind, *lines)


def uploaded(target: Target) -> tuple[float, Any]:
    """Seconds until the source is ready, and its answer."""
    start = time.perf_counter()
    status, source = fetch(target)
    seconds = time.perf_counter() - start
    assert status == 201, source
    return seconds, source


def remove(running: Service, handle: str) -> None:
    """Make room for the next one."""
    asked = running.target(f"{MEDIA}/{handle}").data.replace(b"GET", b"DELETE", 1)
    with Target(running.address, asked).connect() as connection:
        assert b" 204 " in connection.recv(4096)


def hashed(address: tuple[str, int], body: bytes, digest: str) -> float:
    """Seconds that the plain handler takes."""
    target = posting(address, body)
    start = time.perf_counter()
    status, answer = fetch(target)
    seconds = time.perf_counter() - start
    assert (status, answer) == (200, digest)
    return seconds


def _pair(
    running: Service, address: tuple[str, int], what: str, body: bytes, kind: str
) -> Iterator[Row]:
    """Both servers in turn, so that both meet the same load of the machine."""
    digest = hashlib.sha256(body).hexdigest()
    pairs = []
    for _ in range(UPLOADS[len(body) // MIB]):
        theirs = hashed(address, body, digest)
        ours, source = uploaded(uploading(running, body, kind))
        assert source["sha256"] == digest
        remove(running, source["id"])
        pairs.append((theirs, ours))
    theirs, ours = (statistics.median(each) for each in zip(*pairs, strict=True))
    size = len(body) / 1e6
    base = Row(f"plain handler, {what}", size / theirs, "MB/s")
    ratio = statistics.median(theirs / ours for theirs, ours in pairs)
    note = f"median of {len(pairs)} pairs: {ratio:.2f}×, the aim is 0.1× from 8 MiB on"
    yield base
    yield Row(f"media upload, {what}", size / ours, "MB/s", note, base)


def _sound() -> bytes:
    """A WAV of 8 MiB."""
    sound = make_wav((8 * MIB - 56) // 8, "float32", 48000, 2, fact=True)
    assert len(sound) == 8 * MIB
    return sound


def _uploads(running: Service) -> list[Row]:
    rows: list[Row] = []
    with plain() as address:
        for mib in UPLOADS:
            body = pad_jpeg(make_jpeg(), mib * MIB)
            rows += _pair(running, address, f"JPEG of {mib} MiB", body, JPEG)
        # All of it are samples, and every one of them is looked at.
        rows += _pair(running, address, "WAV of 8 MiB", _sound(), "audio/wav")
    return rows


# --- who waits beside a large source --------------------------------------------------


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


def _waits(running: Service) -> list[Row]:
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


# --- ticks ----------------------------------------------------------------------------


class Sources:
    """
    A compiled device that takes media, stepped by hand.
    """

    def __init__(self) -> None:
        slots, tokens = DEFAULT.slots, DEFAULT.sequence_tokens
        engine = played_engine(capacity=slots - 1, sequence_tokens=tokens)
        facts = attrs.evolve(engine.facts, modalities=sum(Modality))
        # Capacities that cost no compilation of their own.
        capacities = attrs.evolve(DEFAULT, media_bytes=80 * MIB)
        device = new_device(capacities, [attrs.evolve(engine, facts=facts)])
        device.warm_up()
        self.stepped = Stepped(device, DEFAULT)
        row = grant(actions=Action.UPLOAD, media=16, media_bytes=80 * MIB)
        assert self.stepped.install(row) == 200

    def _publish(self, channel: int, number: int, frame: MediaFrame) -> None:
        header = self.stepped.header(Operation.MEDIA, id=request_id(number))
        payload = frame.pack()
        packet = attrs.evolve(header, payload_bytes=len(payload)).pack() + payload
        self.stepped.publish(channel, packet)

    def _tick(self) -> float:
        seconds = self.stepped.timed()
        for channel in self.stepped.device.collect():
            reply, _ = split_reply(self.stepped.take(channel))
            assert reply.status == 200, reply
        return seconds

    def ticks_of(
        self, numbers: range, body: bytes, format: MediaFormat
    ) -> tuple[Samples, Samples]:
        """
        The ticks that take and hash a chunk of *body* for each of the sources
        *numbers*, and those that check the first once all are there.
        """
        size = len(body)
        data = BeginData(format, hashlib.sha256(body).digest())
        ids = {number: request_id(number) for number in numbers}

        def send(make: Callable[[bytes], MediaFrame]) -> float:
            for channel, (number, id) in enumerate(ids.items(), 1):
                self._publish(channel, number, make(id))
            return self._tick()

        def begin(id: bytes) -> MediaFrame:
            return MediaFrame.begin(id, size, data)

        def end(id: bytes) -> MediaFrame:
            return MediaFrame.end(id, size)

        def chunk(at: int, id: bytes) -> MediaFrame:
            return MediaFrame.chunk(id, size, at, body[at : at + CHUNK_BYTES_MAX])

        send(begin)
        offsets = range(0, size, CHUNK_BYTES_MAX)
        arriving = [send(partial(chunk, at)) for at in offsets]
        send(end)
        checking = [self._tick() for _ in range(size // MEDIA_BYTES_PER_TICK)]
        return Samples(arriving), Samples(checking)


def _longest() -> list[Row]:
    """The ticks that look at as many bytes as a tick may."""
    sources = Sources()
    sources.stepped.samples(200)
    idle = Row.timed("idle tick", sources.stepped.samples(2000))
    picture, sound = make_jpeg(2048, 2048, quality=98, restart=8), _sound()
    arriving, checking = sources.ticks_of(range(1, 9), picture, MediaFormat.JPEG)
    _, listening = sources.ticks_of(range(9, 10), sound, MediaFormat.WAV)
    rows = [idle]
    for what, ticks in (
        ("64 KiB arrive and are hashed", arriving),
        ("64 KiB of a JPEG are checked", checking),
        ("64 KiB of a WAV are checked", listening),
    ):
        longest = max(ticks.seconds) * 1e3
        rows.append(Row.timed(what, ticks, idle))
        rows.append(Row("the longest of them", longest, "ms", "the aim is 1 ms"))
    return rows


def measure() -> dict[str, list[Row]]:
    """Tables by title."""
    with service(modalities=["image", "audio"]) as running:
        uploads = _uploads(running)
        waits = _waits(running)
    return {
        "Uploads": uploads,
        f"Another caller while a source of {LARGE_MIB} MiB is taken": waits,
        "Ticks that take, hash and check sources": _longest(),
    }


if __name__ == "__main__":
    serve()
