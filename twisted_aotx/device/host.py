"""
`Device`: the host's handle on a device. The only module of this package that others
import.

It allocates the two regions and hands them to compiled functions; nothing here reads or
writes a table itself. Who may call what: `interfaces.IDevice`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from zope.interface import implementer

from twisted_aotx import limits
from twisted_aotx.device import (
    entries,
    launch,
    roles,
    tables,
)
from twisted_aotx.device.invariants import find_violations
from twisted_aotx.device.numbers import (
    KIND_HOST,
    KIND_KERNEL,
    WORD_HELD,
    WORD_RESTORING,
)
from twisted_aotx.device.orders import OrderReader
from twisted_aotx.errors import ChannelBusy, ConfigError
from twisted_aotx.interfaces import (
    EngineFacts,
    IDevice,
    IEngine,
    IKernelEngine,
    MessageFormat,
    OpenOrder,
    ReferenceModel,
    StopOrder,
)


def _spans(message_format: MessageFormat) -> tuple[Any, Any]:
    """The nine spans as (9, 512) u8 and their sizes as (9,) i64."""
    parts = (
        message_format.system_head,
        message_format.system_tail,
        message_format.user_head,
        message_format.user_tail,
        message_format.assistant_head,
        message_format.assistant_tail,
        message_format.generation_head,
        message_format.think_open,
        message_format.think_close,
    )
    spans = np.zeros((roles.SPAN_COUNT, limits.SPAN_BYTES_MAX), np.uint8)
    for n, part in enumerate(parts):
        if len(part) > limits.SPAN_BYTES_MAX:
            raise ConfigError("message_format", f"span {n} is over 512 bytes")
        spans[n, : len(part)] = np.frombuffer(part, np.uint8)
    if not 0 <= message_format.prefix_bytes <= len(parts[0]):
        raise ConfigError("message_format", "the prefix is longer than its span")
    return spans, np.array([len(part) for part in parts], np.int64)


@implementer(IDevice)
class Device:
    """
    Tables, kernels and doorbells of one epoch.

    Args:
        capacities: what the operator sized; checked against `limits.TABLE_BYTES_MAX`.
        epoch: this activation's number, 1 or more [D3].
        hash_key, seed_key: 64-bit secrets drawn at start [D6], `device.md` §10.
        engines: one per role; an `IKernelEngine` runs inside the kernels.
        backend: "cpu" or "cuda".

    Raises:
        ConfigError: a capacity or an engine does not fit; nothing was started.
    """

    def __init__(
        self,
        capacities: limits.Capacities,
        *,
        epoch: int,
        hash_key: int,
        seed_key: int,
        engines: Sequence[IEngine] = (),
        backend: str = "cpu",
    ) -> None:
        self.capacities = capacities
        self.channels = capacities.channels
        try:
            host_dtype = tables.host_dtype(capacities)
            device_dtype = tables.device_dtype(capacities)
        except ValueError:
            # numpy counts the bytes of a record in 32 bits.
            raise ConfigError("device", "one region takes 2 GiB or more") from None
        self.service_bytes = host_dtype.itemsize + device_dtype.itemsize
        if self.service_bytes > limits.TABLE_BYTES_MAX:
            raise ConfigError(
                "device", f"all tables take {self.service_bytes} bytes, over 8 GiB"
            )
        self._launch = launch.launcher(backend, host_dtype, device_dtype)
        self._h = self._launch.host
        self._d = self._launch.device
        self.doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.broker_doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.engine_doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._packet = np.zeros(limits.PACKET_BYTES_MAX, np.uint8)
        self._orders = OrderReader()
        self._configure(epoch, hash_key, seed_key)
        for engine in engines:
            self._attach(engine)

    def _configure(self, epoch: int, hash_key: int, seed_key: int) -> None:
        c = self.capacities
        numbers = (
            c.slots,
            c.requests,
            c.channels,
            c.principals,
            c.prompt_bytes,
            c.output_bytes,
            c.sequence_tokens,
            c.request_seconds,
            c.upload_seconds,
            self.service_bytes,
        )
        secrets = np.array([epoch, hash_key, seed_key], np.uint64)
        self._launch.once(entries.configure, np.array(numbers, np.int64), secrets)

    def _attach(self, engine: IEngine) -> None:
        facts: EngineFacts = engine.facts
        if not roles.ROLE_FIRST <= facts.role <= roles.ROLE_LAST:
            raise ConfigError("models", f"role {facts.role} is not served")
        if facts.sequence_tokens < self.capacities.sequence_tokens:
            raise ConfigError(
                "device.sequence_tokens",
                f"the engine of role {facts.role} holds {facts.sequence_tokens} tokens",
            )
        kind = KIND_KERNEL if IKernelEngine.providedBy(engine) else KIND_HOST
        spans, span_bytes = _spans(facts.message_format)
        numbers = np.array(
            [
                kind,
                facts.modalities,
                facts.capacity,
                facts.message_format.prefix_bytes,
            ],
            np.int64,
        )
        digest = np.frombuffer(facts.model_sha256, np.uint8)
        self._launch.on_device(
            entries.configure_role, facts.role, numbers, digest, spans, span_bytes
        )
        if kind == KIND_KERNEL:
            self._load_reference(facts.role, IKernelEngine(engine).model)

    def _load_reference(self, role: int, model: ReferenceModel) -> None:
        corpus = np.frombuffer(model.corpus, np.uint8)
        fixed = np.frombuffer(model.fixed_output or b"\0", np.uint8)
        size = -1 if model.fixed_output is None else len(model.fixed_output)
        self._launch.on_device(
            entries.load_reference, role, corpus, len(corpus), model.rate, fixed, size
        )

    # --- mailboxes: the reactor's thread ----------------------------------------------

    def is_free(self, channel: int) -> bool:
        """See `IDevice.is_free`."""
        return int(self._launch.on_host(entries.mailbox_state, channel)) == 0

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        """
        As `IMailboxes`; *length* overrides the mailbox's length word (tests only).
        """
        data = np.frombuffer(packet, np.uint8)
        size = len(packet) if length is None else length
        if not self._launch.on_host(entries.publish, channel, data, len(packet), size):
            raise ChannelBusy(channel)
        self.ring()

    def collect(self) -> Sequence[int]:
        """See `IDevice.collect`."""
        channels = []
        while (channel := int(self._launch.on_host(entries.next_reply))) >= 0:
            channels.append(channel)
        return channels

    def reply(self, channel: int) -> bytes:
        """See `IDevice.reply`."""
        size = int(self._launch.on_host(entries.copy_reply, channel, self._packet))
        if size < 0:
            raise ChannelBusy(channel)
        return self._packet[:size].tobytes()

    def release(self, channel: int) -> None:
        """See `IDevice.release`."""
        if not self._launch.on_host(entries.release, channel):
            raise ChannelBusy(channel)

    # --- engines: the reactor's thread ------------------------------------------------

    def orders(self) -> Sequence[OpenOrder | StopOrder]:
        """See `IDevice.orders`."""
        return self._orders.take(self._launch)

    def report(
        self, slot: int, generation: int, kind: int, value: int, data: bytes = b""
    ) -> bool:
        """See `IDevice.report`."""
        if not 0 < slot < self.capacities.slots:
            raise ValueError(f"slot {slot} is out of range")
        if len(data) > limits.EVENT_BYTES_PER_SLOT:
            raise ValueError(f"an emission of {len(data)} bytes is over the limit")
        buffer = np.frombuffer(data, np.uint8)
        posted = self._launch.on_host(
            entries.post_event, slot, generation, kind, value, buffer, len(data)
        )
        if not posted:
            self.ring()
        return bool(posted)

    def ring(self) -> None:
        """See `IDevice.ring`."""
        os.eventfd_write(self.doorbell, 1)

    def set_engine(self, role: int, active: bool) -> None:
        """See `IDevice.set_engine`."""
        self._launch.on_host(entries.set_role_state, role, int(active))
        self.ring()

    def set_hold(self, held: bool) -> None:
        """See `IDevice.set_hold`."""
        self._launch.on_host(entries.set_word, WORD_HELD, int(held))
        self.ring()

    def set_restoring(self, restoring: bool) -> None:
        """Set or clear the restoring gate (`device.md` §1)."""
        self._launch.on_host(entries.set_word, WORD_RESTORING, int(restoring))
        self.ring()

    # --- the device's thread ----------------------------------------------------------

    def warm_up(self) -> None:
        """
        Compile, or load from the cache, every kernel that `run` and the rest need.
        """
        self._launch.compile()

    def tick(self, now_ns: int) -> None:
        """See `IDevice.tick`."""
        self._launch.tick(now_ns)

    def run(self) -> None:
        """See `IDevice.run`."""
        self._launch.run(self.doorbell, self.broker_doorbell, self.engine_doorbell)

    def close(self) -> None:
        """
        Mark the region closed and wake `run`. The eventfds stay open until `free`.
        """
        self._launch.on_host(entries.close_region)
        self.ring()

    def free(self) -> None:
        """Close the eventfds; only after `run` has returned."""
        for fd in (self.doorbell, self.broker_doorbell, self.engine_doorbell):
            os.close(fd)

    # --- tests ------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """A copy of region D, one record (`tables.device_dtype`)."""
        return self._launch.snapshot()[0]

    def digest(self) -> str:
        """
        SHA-256 of region D, for comparing targets and for *nothing changed* tests.
        """
        return hashlib.sha256(self._launch.snapshot().tobytes()).hexdigest()

    def invariants(self) -> list[str]:
        """Every broken invariant of every table, as sentences; empty when all hold."""
        return find_violations(self.snapshot())
