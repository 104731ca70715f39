"""
A service of watches over a device that tells what the test says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from zope.interface import implementer

from twisted_aotx.devices import IProgress, Progress
from twisted_aotx.seqpacket import PacketSocket
from twisted_aotx.testing import World, read_packet
from twisted_aotx.watch.service import WatchService
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wire.watch import Notice, Watch, join_records, split_records

EPOCH = 7
PRINCIPAL = b"p" * 16


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def watch(number: int = 1, total: int = 0, phase: int = Phase.RUNNING) -> Watch:
    return Watch(PRINCIPAL, id_of(number), EPOCH, total, phase)


@implementer(IProgress)
class ScriptedProgress:
    """
    A device's progress as a list.

    Attributes:
        watched: every call of `watch`, in order.
        is_losing: whether the next call of `progress` has lost something.
    """

    def __init__(self) -> None:
        self.watched: list[bool] = []
        self.is_losing = False
        self.told: list[Progress] = []

    def watch(self, watched: bool) -> None:
        self.watched.append(watched)

    def progress(self) -> Sequence[Progress] | None:
        told, self.told = self.told, []
        if self.is_losing:
            self.is_losing = False
            return None
        return told


class Bench:
    """
    The service in *world*, and raw peers of it.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.path = world.path("watch.sock")
        self.device = ScriptedProgress()
        self.service = WatchService(
            world.reactor,
            self.device,
            epoch=EPOCH,
            socket_path=os.fsdecode(self.path),
            system=world.system,
        )

    def progressed(
        self, number: int = 1, total: int = 1, phase: int = Phase.RUNNING
    ) -> None:
        """The device tells and rings."""
        self.device.told.append(Progress(PRINCIPAL, id_of(number), total, phase))
        self.rung()

    def rung(self) -> None:
        self.service.progress_published()
        self.world.settle()

    def connect(self) -> PacketSocket:
        peer = self.world.system.makeSocket()
        assert peer.connect_ex(self.path) == 0
        self.world.settle()
        return peer

    def watch(self, peer: PacketSocket, *watches: Watch) -> None:
        for packet in join_records(watches):
            peer.send(packet, 0)
        self.world.settle()

    def armed(self, peer: PacketSocket, *watches: Watch) -> None:
        """Watch twice, so that only what comes next is told."""
        self.watch(peer, *watches)
        while self.notices(peer):
            pass
        self.watch(peer, *watches)
        assert self.notices(peer) == []

    def notices(self, peer: PacketSocket) -> list[Notice]:
        """Those of the next packet; none if there is no packet."""
        packet = read_packet(peer)
        return [] if packet is None else split_records(packet, Notice)

    def is_closed(self, peer: PacketSocket) -> bool:
        try:
            return read_packet(peer) == b""
        except ConnectionResetError:
            return True
