"""
Reading the device's orders on the host: compiled copies, then plain records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twisted_aotx import limits
from twisted_aotx.device import entries
from twisted_aotx.orders import OpenOrder, Selection, StopOrder

_NUMBERS = 14


def _f32(bits: int) -> float:
    return float(np.array([bits], np.uint32).view(np.float32)[0])


def _selection(dose: int, digest: Any) -> Selection | None:
    """*dose* is an i32 as u32; 0 selects nothing."""
    if dose == 0:
        return None
    return Selection(
        qualification_sha256=digest.astype("<u8").tobytes(),
        dose=dose - (1 << 32) if dose >> 31 else dose,
    )


class OrderReader:
    """
    Takes orders in the order sent; owns the buffers that they are copied through.
    """

    def __init__(self) -> None:
        self._entry = np.zeros(4, np.int64)
        self._numbers = np.zeros(_NUMBERS, np.uint64)
        self._rendered = np.zeros(limits.PAYLOAD_BYTES_MAX, np.uint8)
        self._spans = np.zeros((limits.SPANS_MAX, 2), np.int64)
        self._payload = np.zeros(limits.PAYLOAD_BYTES_MAX, np.uint8)

    def take(self, launch: Any) -> Sequence[OpenOrder | StopOrder]:
        """Every order published since the last call."""
        orders: list[OpenOrder | StopOrder] = []
        while launch.on_host(entries.next_order, self._entry):
            slot, generation, role, opens = self._entry.tolist()
            if opens:
                orders.append(self._open(launch, slot))
            else:
                orders.append(StopOrder(slot=slot, generation=generation, role=role))
        return orders

    def _open(self, launch: Any, slot: int) -> OpenOrder:
        launch.on_host(
            entries.copy_order,
            slot,
            self._numbers,
            self._rendered,
            self._spans,
            self._payload,
        )
        numbers = [int(number) for number in self._numbers]
        spans = self._spans[: numbers[7]].tolist()
        return OpenOrder(
            slot=slot,
            generation=numbers[0],
            role=numbers[1],
            limit=numbers[2],
            temperature=_f32(numbers[3]),
            top_p=_f32(numbers[4]),
            seed=numbers[5],
            rendered=self._rendered[: numbers[6]].tobytes(),
            spans=tuple((end, kind) for end, kind in spans),
            payload=self._payload[: numbers[8]].tobytes(),
            selection=_selection(numbers[9], self._numbers[10:14]),
        )
