"""
What every rule of the state machine builds on: the pair, mailboxes, ticks, orders.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis.stateful import RuleBasedStateMachine

from tests.device.machine.kept import Kept
from tests.device.making import EPOCH, HASH_KEY, SEED_KEY
from tests.device.model import Oracle
from tests.device.pair import Pair
from tests.device.stepped import HasFacts
from tests.device.strategies.frames import Intent
from tests.device.strategies.tables import everyone
from twisted_aotx.device.host import Device
from twisted_aotx.limits import PACKET_BYTES_MAX, Capacities
from twisted_aotx.orders import OpenOrder, SourceRecord, StoreRecord


class MachineBase(RuleBasedStateMachine):
    """
    A subclass adds capacities, engines and the device.
    """

    capacities: Capacities
    engines: Sequence[HasFacts]

    def make_device(self, epoch: int) -> Device:
        raise NotImplementedError

    def make_pair(self, device: Device, oracle: Oracle) -> Pair:
        return Pair(device, oracle)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.sent: list[bytes] = []
        #: Requests with an id of their own.
        self.submitted = 0
        self.kept = Kept()
        self._activate(EPOCH)

    def _activate(self, epoch: int) -> None:
        """A runtime starts; whatever was under way is gone."""
        self.epoch = epoch
        self.oracle = Oracle(
            self.capacities,
            epoch=epoch,
            hash_key=HASH_KEY,
            seed_key=SEED_KEY,
            engines=self.engines,
        )
        self.pair = self.make_pair(self.make_device(epoch), self.oracle)
        #: What engines know: the newest lease of each slot, ended or not.
        self.opened: dict[int, OpenOrder] = {}
        #: What the store has taken and is not done with.
        self.records: list[StoreRecord] = []

    def _channel(self, wanted: int) -> int | None:
        """A peer's channel that a frame can be published in, or None."""
        peers = self.capacities.channels - 1
        for step in range(peers):
            channel = 1 + (wanted + step) % peers
            if self.oracle.state.mailboxes[channel].state == 2:
                self.pair.release(channel)
            if self.pair.is_free(channel):
                return channel
        return None

    def _publish(self, channel: int, packet: bytes, length: int | None) -> None:
        if not packet or len(packet) > PACKET_BYTES_MAX:
            return
        self.pair.publish(channel, packet, length=length)

    def _grant_everyone(self, quota: int) -> None:
        """The first table: everything but a number; *quota* 0 is no limit."""
        self._publish(0, everyone(self.capacities, quota).packet(0), None)
        self._tick()

    def _send(self, intent: Intent, wanted: int) -> None:
        channel = self._channel(wanted)
        if channel is not None:
            packet = intent.packet(self.epoch, self.oracle.state.revision)
            self.sent.append(packet)
            self._publish(channel, packet, intent.damage.length)

    def _tick(self) -> None:
        self.pair.tick(self.now)
        for channel in self.pair.collect():
            self.pair.reply(channel)
        self._check_invariants()

    def _check_invariants(self) -> None:
        """Tables change in ticks, and when an activation begins."""
        broken = list(self.pair.invariants())
        assert broken == [], broken

    def _take_records(self) -> None:
        self.records += self.pair.records()

    def _finish_record(self, saved: bool) -> None:
        """What became of the oldest record."""
        record = self.records.pop(0)
        if saved:
            data = b""
            if isinstance(record, SourceRecord):
                data = self.pair.record_bytes(record, 0, record.size)
            self.kept.save(record, data)
        self.pair.finish_record(saved)

    def _save_all(self) -> None:
        """Every record that there is; replies that waited come."""
        while self.oracle.state.store.sent:
            self._take_records()
            while self.records:
                self._finish_record(True)
            self._tick()

    def _some_channel(self) -> int:
        """A peer's channel, once others are answered if need be."""
        channel = self._channel(0)
        while channel is None:
            self._tick()
            channel = self._channel(0)
            if channel is None:
                self._save_all()
        return channel

    def _live(self) -> list[OpenOrder]:
        """The leases that an engine serves."""
        leases = self.oracle.state.leases
        return [
            order
            for slot, order in sorted(self.opened.items())
            if slot in leases and leases[slot].generation == order.generation
        ]

    def _take_orders(self) -> None:
        for order in self.pair.orders():
            if isinstance(order, OpenOrder):
                self.opened[order.slot] = order
