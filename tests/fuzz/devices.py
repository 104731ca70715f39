"""
Devices to fuzz: whom they know, what serves in them, and what of their tables a refused
frame may touch.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.device.capacities import SMALL
from tests.device.making import (
    CHATML,
    DONE,
    EMIT,
    FAILED,
    HASH_KEY,
    OPENED,
    REFUSED,
    SEED_KEY,
    kernel_engine,
    played_engine,
)
from tests.device.stepped import HasFacts, SteppedDevice
from tests.fuzz.harness import demand
from tests.fuzz.packets import CONTROLS, EPOCH, PRINCIPALS, REVISION
from twisted_aotx.device.host import Device
from twisted_aotx.orders import OpenOrder
from twisted_aotx.wire.grants import GrantRow, GrantTable

_TOKENS: Final = SMALL.sequence_tokens
#: Role 2 runs in the kernels, role 4 is played and takes media; nothing serves 3.
ENGINES: Final[tuple[HasFacts, ...]] = (
    kernel_engine(2, capacity=3, sequence_tokens=_TOKENS, controls=CONTROLS),
    played_engine(
        4, capacity=2, sequence_tokens=_TOKENS, message_format=CHATML, modalities=7
    ),
)


def _row(principal: bytes, actions: int, requests: int, media: int) -> GrantRow:
    return GrantRow(
        principal=principal,
        revision=REVISION,
        actions=actions,
        models=0b11100,
        pages=0,
        tokens=64,
        requests=requests,
        media=media,
        media_bytes=1 << 19,
    )


#: The first may do everything, the second little, the third nothing of use.
GRANTS: Final = GrantTable(
    REVISION,
    (
        _row(PRINCIPALS[0], 255, 6, 12),
        _row(PRINCIPALS[1], 1 | 2, 1, 1),
        _row(PRINCIPALS[2], 8, 1, 0),
    ),
).pack()


def make_device(
    kind: type[Device] = Device, engines: tuple[HasFacts, ...] = ENGINES
) -> Device:
    """A device of the epoch that the golden packets were made for."""
    return kind(
        SMALL,
        epoch=EPOCH,
        hash_key=HASH_KEY,
        seed_key=SEED_KEY,
        engines=engines,  # type: ignore[arg-type]  # only their facts, or IKernelEngine
    )


# --- what a refused frame leaves alone ------------------------------------------------

#: Fields of region D that a tick with a refused frame in it may leave otherwise than
#: one without: the frame, its reply, and where the next scan begins.
_SCRATCH: Final = frozenset(
    {
        *("frame", "frame_length", "reply_length", "window_request", "window_cursor"),
        *("window_bytes", "pending", "scan_position", "claim_list", "claimed"),
        *("served_list", "served", "store_channel", "store_request", "stores"),
        *("waits", "frames", "ring_broker", "ring_engines"),
    }
)


class Mirror:
    """
    Finds out what a frame changed: the same tick is done again without it.

    Its buffers serve one device after the other; all have the same capacities.
    """

    def __init__(self) -> None:
        self._before: list[Any] = []
        self._after: list[Any] = []

    def remember(self, device: Device) -> None:
        """What *device* is now, before the frame is published."""
        _save(self._before, device)

    def difference(self, device: Device, now: int) -> str | None:
        """
        The first table that the frame of the tick at *now*, which was the only one,
        left otherwise than a tick without it; scratch left out. *device* stays as it
        is.
        """
        _save(self._after, device)
        _put_back(self._before, device)
        device.tick(now)
        try:
            return self._first(device)
        finally:
            _put_back(self._after, device)

    def _first(self, device: Device) -> str | None:
        tables = device._launch.device
        after = self._after[1].view(tables.dtype)
        for name in tables.dtype.names:
            if name in _SCRATCH:
                continue
            quiet, loud = tables[name][0], after[name][0]
            if name.startswith("g_") and quiet.shape[:1] == (2,):
                # The other copy is where a table is checked before it is in force.
                table = int(tables["g_table"][0])
                quiet, loud = quiet[table], loud[table]
            if quiet.tobytes() != loud.tobytes():
                return str(name)
        for name, saved, region in zip(
            ("payloads or outputs", "media"),
            self._after[2:],
            _regions(device)[2:],
            strict=True,
        ):
            if saved.tobytes() != region.tobytes():
                return name
        return None


def _regions(device: Device) -> tuple[Any, ...]:
    """H, D, B and P as bytes that can be written."""
    launch = device._launch
    regions = launch.host, launch.device, launch.bulk, launch.pool
    return tuple(each.view(np.ndarray).view(np.uint8) for each in regions)


def _save(buffers: list[Any], device: Device) -> None:
    regions = _regions(device)
    if not buffers:
        buffers += [region.copy() for region in regions]
    for buffer, region in zip(buffers, regions, strict=True):
        buffer[:] = region


def _put_back(buffers: list[Any], device: Device) -> None:
    for buffer, region in zip(buffers, _regions(device), strict=True):
        region[:] = buffer


def may_change(operation: int, status: int, payload: int) -> bool:
    """
    Whether a refusal records something: a BEGIN that is refused with its metadata, an
    END that comes too early (`device.md` §12).
    """
    return operation == 6 and payload == 64 and status in (400, 413, 429)


# --- whoever else there is ------------------------------------------------------------


class Others:
    """
    Engines, media worker and state store of one device, or of two that do the same.
    """

    def __init__(self, *devices: SteppedDevice) -> None:
        self._devices = devices

    def serve(self, how: int) -> None:
        """Engines take what is asked of them; *how* says what they make of it."""
        first, *rest = [device.orders() for device in self._devices]
        demand(all(orders == first for orders in rest), "other orders from one history")
        for order in first:
            if isinstance(order, OpenOrder):
                self._play(order, how % 6)

    def _play(self, order: OpenOrder, how: int) -> None:
        if how == 1:
            self._report(order, REFUSED, 400)
            return
        self._report(order, OPENED, max(1, len(order.rendered)))
        if how != 4:
            tokens = order.limit + 1 if how == 2 else 1
            self._report(order, EMIT, tokens, b"said\xc3")
        if how == 3:
            self._report(order, FAILED, 500)
        elif how in (0, 2):
            self._report(order, DONE, 1)

    def _report(
        self, order: OpenOrder, kind: int, value: int, data: bytes = b""
    ) -> None:
        for device in self._devices:
            device.report(order.slot, order.generation, kind, value, data)

    def store(self, saved: bool) -> int:
        """The store is done with everything; how much that was."""
        first, *rest = [device.records() for device in self._devices]
        demand(all(each == first for each in rest), "other records from one history")
        for _ in first:
            for device in self._devices:
                device.finish_record(saved)
        return len(first)

    def work(self, decoded: bool) -> None:
        """The media worker is done with everything."""
        first, *rest = [device.media_jobs() for device in self._devices]
        demand(all(each == first for each in rest), "other jobs from one history")
        for job in first:
            for device in self._devices:
                device.finish_media(job.worker, decoded)
