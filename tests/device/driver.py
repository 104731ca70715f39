"""
Plays everybody around a device: operator, clients, engines and the clock.

The device may be the compiled one, the oracle, or both side by side (`pair.py`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs

from twisted_aotx.interfaces import EngineFacts, MessageFormat
from twisted_aotx.limits import Capacities
from twisted_aotx.orders import OpenOrder, StopOrder
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.numbers import Operation, Role
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader, join, split_reply

OPENED, REFUSED, EMIT, DONE, FAILED = 1, 2, 3, 4, 5

EPOCH = 0x0102030405060708
HASH_KEY = 0x1122334455667788
SEED_KEY = 0x99AABBCCDDEEFF01
SECOND = 1_000_000_000

P1, P2, P3, P4 = (bytes([0] * 15 + [index]) for index in (1, 2, 3, 4))

#: The format of the worked example in `device.md` §5.
LETTERS = MessageFormat(
    system_head=b"PS",
    system_tail=b"s",
    user_head=b"U",
    user_tail=b"u",
    assistant_head=b"A",
    assistant_tail=b"a",
    generation_head=b"G",
    think_open=b"(",
    think_close=b")",
    prefix_bytes=1,
)
CHATML = MessageFormat(
    system_head=b"<|im_start|>system\n",
    system_tail=b"<|im_end|>\n",
    user_head=b"<|im_start|>user\n",
    user_tail=b"<|im_end|>\n",
    assistant_head=b"<|im_start|>assistant\n",
    assistant_tail=b"<|im_end|>\n",
    generation_head=b"<|im_start|>assistant\n",
    think_open=b"<think>\n\n",
    think_close=b"</think>\n\n",
)


class SteppedDevice(Protocol):
    """
    What is driven: `interfaces.IDevice`, with a length that a test may forge.
    """

    @property
    def channels(self) -> int: ...
    def is_free(self, channel: int) -> bool: ...
    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None: ...
    def collect(self) -> Sequence[int]: ...
    def reply(self, channel: int) -> bytes: ...
    def release(self, channel: int) -> None: ...
    def tick(self, now_ns: int) -> None: ...
    def orders(self) -> Sequence[OpenOrder | StopOrder]: ...
    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool: ...
    def set_engine(self, role: int, active: bool) -> None: ...
    def set_hold(self, held: bool) -> None: ...
    def set_restoring(self, restoring: bool) -> None: ...
    def invariants(self) -> Sequence[str]: ...
    def digest(self) -> bytes | str: ...
    def close(self) -> None: ...
    def free(self) -> None: ...


@attrs.frozen
class Played:
    """An engine whose sequences the tests play by hand."""

    facts: EngineFacts


def played_engine(
    role: int = Role.LANGUAGE,
    *,
    capacity: int,
    sequence_tokens: int,
    message_format: MessageFormat = LETTERS,
) -> Played:
    digest = hashlib.sha256(b"model of role %d" % role).digest()
    return Played(
        EngineFacts(
            role=role,
            model_sha256=digest,
            modalities=1,
            capacity=capacity,
            sequence_tokens=sequence_tokens,
            message_format=message_format,
        )
    )


def grant(
    principal: bytes = P1,
    *,
    actions: int = 1,
    models: int = 1 << 2,
    pages: int = 0,
    tokens: int = 64,
    requests: int = 4,
    media: int = 0,
    media_bytes: int = 0,
) -> GrantRow:
    """A row of any table; `Driver.install` gives it the table's revision."""
    return GrantRow(
        principal=principal,
        revision=1,
        actions=actions,
        models=models,
        pages=pages,
        tokens=tokens,
        requests=requests,
        media=media,
        media_bytes=media_bytes,
    )


def request_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def part(data: bytes, kind: int = 0) -> bytes:
    return struct.pack("<II", kind, len(data)) + data


def message(role: int, *texts: bytes) -> bytes:
    """A message of text parts; 0 system, 1 user, 2 assistant. Nothing is checked."""
    parts = b"".join(part(text) for text in texts)
    return struct.pack("<II", role, len(texts)) + parts


def payload_of(*messages: bytes) -> bytes:
    return struct.pack("<I", len(messages)) + b"".join(messages)


#: A payload that every prompt capacity has room for.
HELLO = payload_of(message(1, b"hello"))


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
