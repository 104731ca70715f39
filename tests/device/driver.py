"""
Plays everybody around a device: operator, clients, engines and the clock.

The device may be the compiled one, the oracle, or both side by side (`pair.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tests.device.making import DONE, EMIT, EPOCH, HELLO, OPENED, P1, request_id
from tests.device.stepped import SteppedDevice
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import OpenOrder, StopOrder, StoreRecord
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.numbers import Operation, Role
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader, join, split_reply


class Driver:
    """
    Steps one device, one exchange at a time unless told otherwise.
    """

    def __init__(self, device: SteppedDevice, capacities: Capacities) -> None:
        self.device = device
        self.capacities = capacities
        self.revision = 0
        self.now = 1_000
        #: Orders taken so far that no test has asked for.
        self.leases: dict[int, OpenOrder] = {}
        self.stops: list[StopOrder] = []

    # --- clock and mailboxes --------------------------------------------------------

    def step(self, ns: int = 1) -> None:
        """One tick, *ns* later; its invariants must hold."""
        self.now += ns
        self.device.tick(self.now)
        broken = list(self.device.invariants())
        assert broken == [], broken

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        self.device.publish(channel, packet, length=length)

    def take(self, channel: int) -> bytes:
        """The reply in *channel*, whose mailbox is free afterwards."""
        packet = self.device.reply(channel)
        self.device.release(channel)
        return packet

    def raw(
        self, packet: bytes, *, channel: int = 1, length: int | None = None
    ) -> bytes:
        """Publish, tick, take."""
        self.publish(channel, packet, length=length)
        self.step()
        assert channel in self.device.collect()
        return self.take(channel)

    def send(
        self, header: RequestHeader, payload: bytes = b"", *, channel: int = 1
    ) -> tuple[ReplyHeader, bytes]:
        """One exchange whose reply a client would accept (`wire.md` §3)."""
        packet = self.raw(join(header, payload), channel=channel)
        reply, data = split_reply(packet)
        assert reply.epoch == EPOCH
        assert reply.principal == header.principal
        assert (reply.revision, reply.id) == (header.revision, header.id)
        return reply, data

    def send_together(
        self, exchanges: Sequence[tuple[RequestHeader, bytes]], *, first: int = 1
    ) -> list[tuple[ReplyHeader, bytes]]:
        """As many exchanges in one tick, in channels *first*, *first* + 1, …"""
        channels = range(first, first + len(exchanges))
        for channel, (header, payload) in zip(channels, exchanges, strict=True):
            self.publish(channel, join(header, payload))
        self.step()
        assert sorted(self.device.collect()) == list(channels)
        return [split_reply(self.take(channel)) for channel in channels]

    def post(
        self, header: RequestHeader, payload: bytes = b"", *, channel: int
    ) -> None:
        """Publish and tick; the reply waits for the state store (D12)."""
        self.publish(channel, join(header, payload))
        self.step()
        assert list(self.device.collect()) == []

    def answer(self, channel: int) -> tuple[ReplyHeader, bytes]:
        """The reply that came in *channel*, and no other."""
        assert list(self.device.collect()) == [channel]
        return split_reply(self.take(channel))

    def status(self, header: RequestHeader, payload: bytes = b"") -> int:
        return self.send(header, payload)[0].status

    # --- the operator ---------------------------------------------------------------

    def install(self, *rows: GrantRow) -> int:
        """Install the next revision of the table; the status."""
        self.revision += 1
        table = GrantTable(
            self.revision,
            tuple(attrs.evolve(row, revision=self.revision) for row in rows),
        )
        return split_reply(self.raw(table.pack(), channel=0))[0].status

    # --- clients --------------------------------------------------------------------

    def header(
        self,
        operation: int,
        principal: bytes = P1,
        *,
        epoch: int = 0,
        id: bytes = bytes(16),
        cursor: int = 0,
        revision: int | None = None,
    ) -> RequestHeader:
        return RequestHeader(
            operation=operation,
            principal=principal,
            revision=self.revision if revision is None else revision,
            epoch=epoch,
            id=id,
            cursor=cursor,
        )

    def submit_header(
        self,
        number: int,
        principal: bytes = P1,
        *,
        role: int = Role.LANGUAGE,
        limit: int = 8,
        temperature: float = 0.0,
        top_p: float = 1.0,
        selector_bytes: int = 0,
        cursor: int = 0,
    ) -> RequestHeader:
        return attrs.evolve(
            self.header(
                Operation.SUBMIT,
                principal,
                epoch=EPOCH,
                id=request_id(number),
                cursor=cursor,
            ),
            role=role,
            limit=limit,
            temperature=temperature,
            top_p=top_p,
            selector_bytes=selector_bytes,
        )

    def submit(
        self,
        number: int,
        principal: bytes = P1,
        *,
        payload: bytes = HELLO,
        role: int = Role.LANGUAGE,
        limit: int = 8,
        temperature: float = 0.0,
        top_p: float = 1.0,
        selector_bytes: int = 0,
    ) -> int:
        header = self.submit_header(
            number,
            principal,
            role=role,
            limit=limit,
            temperature=temperature,
            top_p=top_p,
            selector_bytes=selector_bytes,
        )
        return self.status(header, payload)

    def read(
        self, number: int, principal: bytes = P1, *, cursor: int = 0
    ) -> tuple[ReplyHeader, bytes]:
        return self._of(Operation.READ, number, principal, cursor)

    def cancel(
        self, number: int, principal: bytes = P1, *, cursor: int = 0
    ) -> tuple[ReplyHeader, bytes]:
        return self._of(Operation.CANCEL, number, principal, cursor)

    def _of(
        self, operation: int, number: int, principal: bytes, cursor: int
    ) -> tuple[ReplyHeader, bytes]:
        id_ = request_id(number)
        return self.send(
            self.header(operation, principal, epoch=EPOCH, id=id_, cursor=cursor)
        )

    def phase(self, number: int, principal: bytes = P1) -> int:
        reply = self.read(number, principal)[0]
        assert reply.status == 200
        return reply.phase

    def info(self, principal: bytes = P1) -> Information:
        reply, data = self.send(self.header(Operation.INFO, principal))
        assert reply.status == 200
        return Information.unpack(data)

    # --- the media worker and the state store -----------------------------------------

    def store(self, *, saved: bool = True) -> list[StoreRecord]:
        """Everything that was handed to the store is saved, or is not; handled."""
        records = list(self.device.records())
        for _ in records:
            self.device.finish_record(saved)
        self.step()
        return records

    # --- engines --------------------------------------------------------------------

    def take_orders(self) -> Sequence[OpenOrder | StopOrder]:
        """What the device asks of its engines; `leases` holds what they serve."""
        orders = self.device.orders()
        for order in orders:
            if isinstance(order, OpenOrder):
                self.leases[order.slot] = order
            else:
                self.stops.append(order)
                lease = self.leases.get(order.slot)
                if lease is not None and lease.generation == order.generation:
                    del self.leases[order.slot]
        return orders

    def opens(self) -> list[OpenOrder]:
        return [x for x in self.take_orders() if isinstance(x, OpenOrder)]

    def report(
        self, order: OpenOrder, kind: int, value: int = 0, data: bytes = b""
    ) -> None:
        assert self.device.report(order.slot, order.generation, kind, value, data)

    def play(
        self, order: OpenOrder, emissions: Iterable[bytes] = (), finish: int = 1
    ) -> None:
        """A whole sequence: opened, one token per emission, done."""
        self.report(order, OPENED, max(1, len(order.rendered)))
        for data in emissions:
            self.report(order, EMIT, 1, data)
        self.end(order, DONE, finish)

    def end(self, order: OpenOrder, kind: int, value: int) -> None:
        """The last report of a lease."""
        self.report(order, kind, value)
        self.leases.pop(order.slot, None)

    def open_one(self, order: OpenOrder, tokens: int = 5) -> None:
        self.report(order, OPENED, tokens)
        self.step()
