"""
Reading the device's orders on the host: compiled copies, then plain records.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from twisted_aotx import limits
from twisted_aotx.device import entries
from twisted_aotx.device.jobs import copy_source
from twisted_aotx.device.source_index import DIGEST_BYTES
from twisted_aotx.device.source_leases import SOURCE_WORDS
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import OpenOrder, Selection, Source, StopOrder

_NUMBERS = 15
#: References of one request, the most of any capacities.
_REFERENCES = limits.PROMPT_BYTES_MAX // limits.LINK_BYTES


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
        self._rendered = np.zeros(limits.PROMPT_BYTES_MAX, np.uint8)
        self._spans = np.zeros((limits.SPANS_MAX, 2), np.int64)
        self._payload = np.zeros(limits.PAYLOAD_BYTES_MAX, np.uint8)
        self._sources = np.zeros((_REFERENCES, SOURCE_WORDS), np.int64)
        self._digests = np.zeros((_REFERENCES, DIGEST_BYTES), np.uint8)

    def take(self, launch: Any) -> Sequence[OpenOrder | StopOrder]:
        """
        Every order published since the last call.

        An order whose sources are gone is left out: its lease has ended meanwhile, and
        what follows is its stop.
        """
        orders: list[OpenOrder | StopOrder] = []
        while launch.on_host(entries.next_order, self._entry):
            slot, generation, role, opens = self._entry.tolist()
            if opens:
                with suppress(SourceGone):
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
            self._sources,
            self._digests,
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
            sources=tuple(self._source(launch, n) for n in range(numbers[14])),
        )

    def _source(self, launch: Any, n: int) -> Source:
        """Source *n* of the order in the buffers; raises SourceGone."""
        kind, index, generation, offset, size, form, samples, rows = self._sources[
            n
        ].tolist()
        return Source(
            kind=kind,
            sha256=self._digests[n].tobytes(),
            format=form,
            samples=samples,
            rows=rows,
            data=copy_source(launch, index, generation, offset, size),
        )
