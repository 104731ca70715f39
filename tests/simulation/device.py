"""
The device and the threads around it, stepped on the machine's one clock.

What a thread waits for in the runtime (a doorbell, a time, a queue) is a call of its
process here; the work itself is the runtime's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from tests.simulation.frames import frame_fields, reply_fields
from tests.simulation.process import Process
from twisted_aotx.device.host import Device
from twisted_aotx.interfaces import IEngine
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import MediaJob
from twisted_aotx.runtime.jpeg import fault_of
from twisted_aotx.runtime.media_worker import MediaWorker

_SECOND_NS: Final = 1_000_000_000
#: Seconds that the device's thread takes to wake up, and to go round its loop.
_WAKE_SECONDS: Final = (0.0, 0.00002, 0.0005)
_ROUND_SECONDS: Final = 0.00001
#: Seconds that it comes late by when it stalls, at most.
_STALL_SECONDS: Final = 1.5


class SteppedDevice(Device):
    """
    The device of *process*; its packets are noted in the history.

    Attributes:
        drops: how likely a doorbell of the device is lost, 0..1; its heartbeat is what
            such a device lives by.
        stalls: how likely its thread comes late to a tick, 0..1.
    """

    def __init__(
        self,
        process: Process,
        capacities: Capacities,
        epoch: int,
        engines: Sequence[IEngine],
    ) -> None:
        self._process = process
        self._world = process.world
        self.epoch = epoch
        self.drops = 0.0
        self.stalls = 0.0
        self._ended: Deferred[None] | None = None
        self._next: IDelayedCall | None = None
        self._is_closed = False
        self._is_free = False
        #: The events of the frames that are under way, by channel.
        self._frames: dict[int, int] = {}
        #: Called when the store's doorbell is rung.
        self.on_store_bell: Any = lambda: None
        super().__init__(
            capacities,
            epoch=epoch,
            hash_key=self._world.random.getrandbits(64),
            seed_key=self._world.random.getrandbits(64),
            engines=engines,
        )

    # --- what the history is told -----------------------------------------------------

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        super().publish(channel, packet, length=length)
        self._frames[channel] = self._world.record(
            "frame", epoch=self.epoch, channel=channel, **frame_fields(packet)
        )

    def reply(self, channel: int) -> bytes:
        packet = super().reply(channel)
        frame = self._frames.pop(channel)
        self._world.record(
            "reply",
            epoch=self.epoch,
            channel=channel,
            frame=frame,
            **reply_fields(packet),
        )
        return packet

    @property
    def unanswered(self) -> int:
        """Frames without a reply."""
        return len(self._frames)

    # --- its thread -------------------------------------------------------------------

    def begin(self) -> Deferred[None]:
        """Tick until `close`; fires then."""
        self._ended = Deferred()
        self._wake(0.0)
        return self._ended

    def ring(self) -> None:
        if self._ended is None:
            return
        if self.drops and self._world.chance(self.drops):
            self._world.history.count("fault", "doorbell dropped")
            return
        self._wake(self._world.random.choice(_WAKE_SECONDS))

    def close(self) -> None:
        self._is_closed = True
        super().close()
        if self._ended is not None:
            self._wake(0.0)

    def free(self) -> None:
        if not self._is_free:
            self._is_free = True
            super().free()

    def _wake(self, seconds: float) -> None:
        at = self._world.now + seconds
        if self._next is not None and self._next.active():
            if self._next.getTime() <= at:
                return
            self._next.cancel()
        self._next = self._process.callLater(seconds, self._loop)

    def _loop(self) -> None:
        ended = self._ended
        assert ended is not None, "begun"
        if self._is_closed:
            if not ended.called:
                ended.callback(None)
            return
        if self.stalls and self._world.chance(self.stalls):
            self._world.history.count("fault", "device stalls")
            late = self._world.random.random() * _STALL_SECONDS
            self._next = self._process.callLater(late, self._tick)
        else:
            self._tick()

    def _tick(self) -> None:
        if self._is_closed:
            self._loop()
            return
        now = int(self._world.now * _SECOND_NS)
        self.tick(now)
        due, *rings = (int(word) for word in self._launch.host[0]["outcome"])
        bells = self.broker_doorbell, self.engine_doorbell
        for bell, rung in zip(bells, rings, strict=False):
            if rung:
                os.eventfd_write(bell, 1)
                self._process.ring(bell)
        if rings[2]:
            self.on_store_bell()
        self._wake(max(_ROUND_SECONDS, (due - now) / _SECOND_NS))


class InProcessDecoder:
    """
    Decodes here and now instead of in a process of its own.
    """

    def decodes(self, job: MediaJob, pieces: Iterator[bytes], /) -> bool:
        return not fault_of(BytesIO(b"".join(pieces)), job.width, job.height)

    def kill(self) -> None:
        """There is nothing to kill."""

    def close(self) -> None:
        """There is nothing to close."""


class SteppedMediaWorker(MediaWorker):
    """
    Image workers whose threads are calls of *process*.
    """

    def __init__(self, process: Process, device: Device) -> None:
        super().__init__(device, InProcessDecoder)
        self._process = process

    def _begin(self, worker: int) -> None:
        # The queue of a thread is one that calls.
        self._jobs[worker] = _Queue(self)  # type: ignore[assignment]

    def take(self, job: MediaJob | None) -> None:
        """What a worker's thread does with its next job, after a while."""
        if job is not None:
            seconds = self._process.world.random.random() * 0.02
            self._process.callLater(seconds, self._work, job, InProcessDecoder())


class _Queue:
    """
    Where jobs are put.
    """

    def __init__(self, worker: SteppedMediaWorker) -> None:
        self._worker = worker

    def put(self, job: MediaJob | None) -> None:
        self._worker.take(job)
