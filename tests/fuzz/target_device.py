"""
Packets against the device alone: its replies are the oracle's, its invariants hold, and
a frame that is refused leaves every table as a tick without it does.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import ClassVar

from tests.device.capacities import SMALL
from tests.device.making import HASH_KEY, SEED_KEY
from tests.device.model import Oracle
from tests.device.pair import Pair
from tests.fuzz import packets
from tests.fuzz.devices import (
    ENGINES,
    GRANTS,
    Mirror,
    Others,
    make_device,
    may_change,
)
from tests.fuzz.harness import Features, Target, demand
from tests.fuzz.packets import EPOCH, Packet, Step
from twisted_aotx.device.host import Device
from twisted_aotx.limits import PACKET_BYTES_MAX

#: Ns that one event may let pass.
_STEP_NS_MAX = 1 << 40


class DeviceTarget(Target):
    """
    One device and one oracle for each script.

    Args:
        make: makes the device.
    """

    name: ClassVar[str] = "device"
    count: ClassVar[int] = 350

    def __init__(self, make: Callable[[], Device] = make_device) -> None:
        self._make = make
        self._mirror = Mirror()

    def seeds(self) -> Sequence[bytes]:
        table = packets.pack([Packet(0, GRANTS)])
        return [*packets.conversations(), table]

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        return packets.draw(rng, corpus)

    def judge(self, data: bytes) -> Features:
        play = _Play(self._make(), self._mirror)
        try:
            for step in packets.unpack(data):
                play.step(step)
            play.check()
        finally:
            play.device.close()
            play.device.free()
        return frozenset(play.features)


class _Pair(Pair):
    def _told(self) -> Sequence[int]:
        # Without a copy of everything.
        phases: list[int] = self.device._launch.device["m_phase"][0].tolist()
        return phases


class _Play:
    def __init__(self, device: Device, mirror: Mirror) -> None:
        self.device = device
        self._mirror = mirror
        self.features: set[object] = set()
        oracle = Oracle(
            SMALL, epoch=EPOCH, hash_key=HASH_KEY, seed_key=SEED_KEY, engines=ENGINES
        )
        self._pair = _Pair(device, oracle)
        self._others = Others(self._pair)
        self._now = 1
        self._packet(Packet(0, GRANTS))

    def step(self, step: Step) -> None:
        """What a script says, and a tick."""
        if isinstance(step, Packet):
            self._packet(step)
            return
        if step.kind == packets.TIME:
            self._now += step.value % _STEP_NS_MAX
        elif step.kind == packets.SERVE:
            self._others.serve(step.value)
        elif step.kind == packets.STORE:
            self._others.store(step.value % 2 == 1)
        elif step.kind == packets.WORK:
            self._others.work(step.value % 2 == 1)
        elif step.kind == packets.HOLD:
            self._pair.set_hold(step.value % 2 == 1)
        self._tick()
        self._collect()

    def check(self) -> None:
        """Every invariant of every table."""
        broken = list(self._pair.invariants())
        demand(not broken, f"invariants: {broken}")

    def _packet(self, step: Packet) -> None:
        channel = step.channel % SMALL.channels
        if not 0 < len(step.data) <= PACKET_BYTES_MAX or not self._free(channel):
            return
        self._mirror.remember(self.device)
        # Of a length that a packet can have, the broker's word is true.
        is_lie = step.length is not None and not 128 <= step.length <= PACKET_BYTES_MAX
        length = step.length if is_lie else None
        self._pair.publish(channel, step.data, length=length)
        self._tick()
        reply = self._collect().get(channel)
        if reply is None:
            return
        status, payload = self._told(step, reply)
        operation = int.from_bytes(step.data[8:12], "little")
        if status >= 400 and not may_change(operation, status, payload):
            name = self._mirror.difference(self.device, self._now)
            demand(name is None, f"refused with {status}, and {name} is another")

    def _free(self, channel: int) -> bool:
        return self._pair.is_free(channel)

    def _told(self, step: Packet, reply: bytes) -> tuple[int, int]:
        """Status and payload bytes, remembered as what came of the packet."""
        demand(reply[:8] == b"AOTXAPI1", "a reply without the magic")
        status, phase = struct.unpack_from("<II", reply, 8)
        (epoch,) = struct.unpack_from("<Q", reply, 40)
        (payload,) = struct.unpack_from("<I", reply, 88)
        demand(len(reply) == 128 + payload, "a reply of another length than it says")
        demand(epoch == EPOCH, "a reply of another epoch")
        operation = int.from_bytes(step.data[8:12], "little")
        shape = min(operation, 14), status, phase, min(payload, 200)
        frame = step.data[132:136] if operation == 6 else b""
        self.features.add((*shape, frame[:1]))
        return status, payload

    def _tick(self) -> None:
        self._now += 1
        self._pair.tick(self._now)

    def _collect(self) -> dict[int, bytes]:
        """The replies of the tick, whose mailboxes are free again."""
        replies = {}
        for channel in self._pair.collect():
            replies[channel] = self._pair.reply(channel)
            self._pair.release(channel)
        return replies
