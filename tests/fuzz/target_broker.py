"""
Packets against a live broker on a real socket, with a device behind it.

A second device gets what the broker is to pass on: each reply at the socket is its
reply, byte for byte. What the broker is not to pass on closes the connection without a
byte (`wire.md` §1), and the others do not notice.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from tests.fuzz import packets
from tests.fuzz.devices import GRANTS, Others, make_device
from tests.fuzz.harness import Features, Target, demand
from tests.fuzz.packets import Packet, Step, packet
from twisted_aotx.broker.service import BrokerService
from twisted_aotx.device.host import Device
from twisted_aotx.limits import HEADER_BYTES, PACKET_BYTES_MAX
from twisted_aotx.seqpacket import PacketSocket
from twisted_aotx.testing import KernelWorld, read_packet
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import split_reply

#: Peers at once.
_PEERS: Final = 3
#: Ticks that a reply may take once the store is done with everything.
_TICKS_MAX: Final = 50
#: The broker closes peers that are idle for longer; scripts let the device's time pass.
_STEP_NS_MAX: Final = 1 << 36
_INFO: Final = packet(Operation.INFO)


class BrokerTarget(Target):
    """
    One broker for each script.

    Args:
        make: makes the broker's device.
    """

    name: ClassVar[str] = "broker"
    count: ClassVar[int] = 300

    def __init__(self, make: Callable[[], Device] = make_device) -> None:
        self._make = make
        self._folder = Path(tempfile.mkdtemp(prefix="aotx-"))
        self._world = KernelWorld(self._folder)

    def seeds(self) -> Sequence[bytes]:
        return packets.conversations()

    def draw(self, rng: random.Random, corpus: Sequence[bytes]) -> bytes:
        return packets.draw(rng, corpus)

    def judge(self, data: bytes) -> Features:
        play = _Play(self._world, self._folder, self._make())
        try:
            for step in packets.unpack(data):
                play.step(step)
            play.finish()
        finally:
            play.close()
        return frozenset(play.features)

    def close(self) -> None:
        self._world.close()
        shutil.rmtree(self._folder)


class _Play:
    def __init__(self, world: KernelWorld, folder: Path, device: Device) -> None:
        self.features: set[object] = set()
        self._world = world
        self._device = device
        self._twin = make_device()
        self._others = Others(device, self._twin)
        self._peers: dict[int, PacketSocket] = {}
        self._now = 1
        grants = folder / "grants"
        grants.write_bytes(GRANTS)
        grants.chmod(0o600)
        self._path = world.path("service.sock")
        self._broker = BrokerService(
            world.reactor,
            device,
            socket_path=os.fsdecode(self._path),
            grants_path=str(grants),
            system=world.system,
        )
        started = self._broker.start()
        self._twin.publish(0, GRANTS)
        self._tick()
        self._twin.release(0)
        demand(started.called, "the broker did not start")

    def step(self, step: Step) -> None:
        """What a script says."""
        if isinstance(step, Packet):
            if step.data:
                self._send(step.channel % _PEERS, step.data)
            return
        if step.kind == packets.TIME:
            self._now += step.value % _STEP_NS_MAX
        elif step.kind == packets.SERVE:
            self._others.serve(step.value)
        elif step.kind == packets.WORK:
            self._others.work(step.value % 2 == 1)
        elif step.kind == packets.HOLD:
            for device in (self._device, self._twin):
                device.set_hold(step.value % 2 == 1)
        elif step.kind == packets.LEAVE:
            self._leave(step.value)
        self._tick()
        self._others.store(saved=step.value % 2 == 1)
        self._tick()

    def finish(self) -> None:
        """The broker lives: a new peer gets its answer."""
        for number in list(self._peers):
            self._peers.pop(number).close()
        self._world.settle()
        self._send(0, _INFO)
        demand(self._peers, "a peer was closed after an INFO")

    def close(self) -> None:
        """Leave nothing behind."""
        for peer in self._peers.values():
            peer.close()
        stopped = self._broker.stop()
        self._world.settle()
        for device in (self._device, self._twin):
            device.close()
            device.free()
        demand(stopped.called, "the broker did not stop")

    def _send(self, number: int, data: bytes) -> None:
        peer = self._peer(number)
        peer.send(data, 0)
        self._world.settle()
        if not _passes(data):
            self._closed(number)
            self.features.add(("closed", min(len(data), HEADER_BYTES)))
            return
        reply = self._answer(data)
        found = read_packet(peer)
        demand(found == reply, "the reply at the socket is not the device's")
        operation = min(int.from_bytes(data[8:12], "little"), 14)
        header = split_reply(reply)[0]
        self.features.add((operation, header.status, header.phase))

    def _peer(self, number: int) -> PacketSocket:
        if number not in self._peers:
            peer = self._world.system.makeSocket()
            demand(peer.connect_ex(self._path) == 0, "no connection to the broker")
            self._world.settle()
            self._peers[number] = peer
        return self._peers[number]

    def _closed(self, number: int) -> None:
        peer = self._peers.pop(number)
        try:
            said = read_packet(peer)
        except ConnectionResetError:
            said = b""
        demand(said == b"", "a packet that is none was not answered with an end")
        peer.close()

    def _answer(self, data: bytes) -> bytes:
        """What the second device says to *data*, while the broker's does the same."""
        self._twin.publish(1, data)
        for _ in range(_TICKS_MAX):
            replied = self._tick()
            if replied:
                reply = self._twin.reply(1)
                self._twin.release(1)
                return reply
            self._others.store(saved=True)
        raise AssertionError("no reply, though the store is done with everything")

    def _leave(self, number: int) -> None:
        """A peer goes while its request is in flight."""
        number %= _PEERS
        peer = self._peer(number)
        peer.send(_INFO, 0)
        self._world.settle()
        self._peers.pop(number).close()
        self._world.settle()
        self._answer(_INFO)

    def _tick(self) -> Sequence[int]:
        """Both devices tick; the channels that the second has replies in."""
        self._now += 1
        self._device.tick(self._now)
        self._twin.tick(self._now)
        self._broker.replies_published()
        self._world.settle()
        return self._twin.collect()


def _passes(data: bytes) -> bool:
    """Whether the broker passes a packet on (`wire.md` §1)."""
    operation = int.from_bytes(data[8:12], "little")
    is_packet = HEADER_BYTES <= len(data) <= PACKET_BYTES_MAX
    return is_packet and operation != Operation.GRANTS
