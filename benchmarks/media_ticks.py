"""
Ticks of a compiled device that take, hash and check sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

import attrs

from benchmarks.device import Stepped
from benchmarks.table import Row, Samples
from benchmarks.uploads import MIB, sound
from tests.device.capacities import DEFAULT
from tests.device.making import grant, new_device, played_engine, request_id
from tests.media_made import make_jpeg
from twisted_aotx.limits import MEDIA_BYTES_PER_TICK
from twisted_aotx.wire.media import CHUNK_BYTES_MAX, BeginData, MediaFrame
from twisted_aotx.wire.numbers import Action, MediaFormat, Modality, Operation
from twisted_aotx.wire.packet import split_reply


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


def longest_ticks() -> list[Row]:
    """The ticks that look at as many bytes as a tick may."""
    sources = Sources()
    sources.stepped.samples(200)
    idle = Row.timed("idle tick", sources.stepped.samples(2000))
    picture, wav = make_jpeg(2048, 2048, quality=98, restart=8), sound()
    arriving, checking = sources.ticks_of(range(1, 9), picture, MediaFormat.JPEG)
    _, listening = sources.ticks_of(range(9, 10), wav, MediaFormat.WAV)
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
