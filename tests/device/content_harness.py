"""
A region D with nothing in it but the columns of the content kernels, and a byte pool.

The kernels run as the process runs them: compiled, or as plain Python with
NUMBA_DISABLE_JIT=1. Then the pool is a `Watched` one, which knows every byte that was
read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from tests.device.capacities import SMALL
from twisted_aotx.device.jpeg import jpeg_fields, jpeg_more, jpeg_start
from twisted_aotx.device.sha256 import sha_fields
from twisted_aotx.device.wav import wav_fields, wav_more, wav_start
from twisted_aotx.limits import Capacities

PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"
#: Bytes of other sources on both sides of the one in question.
GUARD_BYTES = 96


def make_device(capacities: Capacities = SMALL) -> Any:
    """
    One record with the columns of the content kernels and the limits that they read.
    """
    limits = ("image_pixels", "image_dimension", "image_patches")
    names = (*limits, "audio_frames", "audio_rows")
    dtype = np.dtype(
        [
            *[(name, "<i8") for name in names],
            *sha_fields("h", capacities.media_objects),
            *jpeg_fields(capacities),
            *wav_fields(capacities),
        ],
        align=True,
    )
    device = np.zeros(1, dtype).view(np.recarray)[0]
    for name in names:
        device[name] = getattr(capacities, name)
    return device


class Watched:
    """
    A pool that kernels as plain Python read byte by byte: an index outside *low* ..
    *high* - 1 raises.
    """

    def __init__(self, data: np.ndarray[Any, Any], low: int, high: int) -> None:
        self.data = data
        self.low = low
        self.high = high

    def __getitem__(self, index: Any) -> Any:
        assert self.low <= index < self.high, "a read beside the source"
        return self.data[int(index)]


@attrs.frozen
class Placed:
    """
    A source in a pool, between bytes that are not its own.
    """

    pool: Any
    offset: int
    size: int

    @classmethod
    def make(cls, source: bytes, guard: int = 0xFF) -> Placed:
        """Put *source* between bytes *guard*, at an odd place."""
        fill = bytes([guard]) * GUARD_BYTES
        data = np.frombuffer(fill + b"x" + source + fill, np.uint8).copy()
        offset = GUARD_BYTES + 1
        pool = Watched(data, offset, offset + len(source)) if PLAIN else data
        return cls(pool, offset, len(source))


@attrs.frozen
class Judged:
    """
    What the kernels made of a source; sizes and rows are 0 unless it was accepted.
    """

    status: int
    width: int = 0
    height: int = 0
    samples: int = 0
    rows: int = 0


def _run(
    more: Any, device: Any, placed: Placed, budgets: Iterable[int], overrun: int
) -> int:
    """Go on until there is a verdict; → the media status, 0 if accepted."""
    for budget in budgets:
        consumed, verdict, status = map(
            int, more(device, placed.pool, 0, placed.offset, placed.size, budget)
        )
        assert consumed < budget + overrun
        assert (verdict == 2) == (status != 0)
        if verdict:
            return status
    raise AssertionError("no verdict")


def judge_jpeg(
    source: bytes,
    budgets: Iterable[int] = (1 << 30,),
    capacities: Capacities = SMALL,
    guard: int = 0xFF,
) -> Judged:
    """
    Walk *source* in one step of each budget until there is a verdict.
    """
    device = make_device(capacities)
    jpeg_start(device, 0)
    status = _run(jpeg_more, device, Placed.make(source, guard), budgets, 512)
    if status:
        return Judged(status)
    columns = device.jp_width, device.jp_height, device.jp_rows
    width, height, rows = (int(column[0]) for column in columns)
    return Judged(0, width, height, 0, rows)


def judge_wav(
    source: bytes,
    budgets: Iterable[int] = (1 << 30,),
    capacities: Capacities = SMALL,
    guard: int = 0xFF,
) -> Judged:
    """
    Walk and hear *source* in one step of each budget until there is a verdict.
    """
    device = make_device(capacities)
    wav_start(device, 0)
    status = _run(wav_more, device, Placed.make(source, guard), budgets, 64)
    if status:
        return Judged(status)
    return Judged(0, 0, 0, int(device.wa_samples[0]), int(device.wa_rows[0]))
