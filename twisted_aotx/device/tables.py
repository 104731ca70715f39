"""
The memory regions: H, host-mapped; D and B, device-owned; P, the pool of media bytes.

H and D are one aligned record each, B is one per request, P plain bytes, so that a
kernel takes one pointer per region, and a snapshot is one copy of each
(docs/kernels.md). Table files
own their fields; this file only joins them. Shapes are types: each set of capacities
compiles its own kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from twisted_aotx.device import (
    controls,
    engine_mail,
    frames,
    grants,
    jpeg,
    kernel_engine,
    ledger,
    mailbox,
    media,
    media_mail,
    media_work,
    owners,
    policy,
    pool,
    progress,
    receipts,
    reference,
    requests,
    review,
    roles,
    sha256,
    slots,
    source_index,
    sources,
    store_mail,
    usage,
    wav,
)
from twisted_aotx.device.numbers import STAT_COUNT, WORD_COUNT
from twisted_aotx.limits import Capacities

Field = tuple[Any, ...]

#: Scalars of D that no single table owns.
_DEVICE_FIELDS: Sequence[Field] = (
    # configuration, written once by `configure`
    ("slots", "<i8"),
    ("requests", "<i8"),
    ("channels", "<i8"),
    ("principals", "<i8"),
    ("prompt_bytes", "<i8"),
    ("output_bytes", "<i8"),
    ("sequence_tokens", "<i8"),
    ("request_ns", "<i8"),
    ("upload_ns", "<i8"),
    ("service_bytes", "<i8"),
    # 0 while media are off, `wire.md` §7
    ("media_objects", "<i8"),
    ("image_workers", "<i8"),
    ("image_pixels", "<i8"),
    ("image_dimension", "<i8"),
    ("image_patches", "<i8"),
    ("audio_workers", "<i8"),
    ("audio_rows", "<i8"),
    ("audio_frames", "<i8"),
    ("epoch", "<u8"),
    ("hash_key", "<u8"),
    ("seed_key", "<u8"),
    # the clock and what a tick leaves for the loop
    ("now", "<i8"),
    ("ticks", "<i8"),
    ("frames", "<i8"),
    ("held", "<i8"),
    ("skip", "<i8"),
    ("ring_broker", "<i8"),
    ("ring_engines", "<i8"),
)


def host_dtype(capacities: Capacities) -> np.dtype[Any]:
    """
    Region H: mailboxes first (`wire.md` §12), then words, slot mailboxes.
    """
    return np.dtype(
        [
            *mailbox.region_fields(capacities),
            ("word", "<i8", (WORD_COUNT,)),
            ("role_state", "<i8", (8,)),
            # what the last tick left for the loop: due (ns), and whether to ring
            # broker, engines, store
            ("outcome", "<i8", (4,)),
            ("stats", "<i8", (STAT_COUNT,)),
            *mailbox.ring_fields(capacities),
            *engine_mail.host_fields(capacities),
            *controls.control_host_fields(capacities),
            *media_mail.host_fields(capacities),
            *store_mail.host_fields(capacities),
            *progress.host_fields(capacities),
        ],
        align=True,
    )


def source_fields(capacities: Capacities) -> list[Field]:
    """
    Of region D: media sources, their indexes and pools, and the work on them.
    """
    return [
        *sources.source_fields(capacities),
        *source_index.index_fields(capacities),
        *owners.owner_fields(capacities),
        *receipts.receipt_fields(capacities),
        *pool.pool_fields(capacities),
        *media.media_fields(capacities),
        *media_work.work_fields(capacities),
        *sha256.sha_fields("h", max(1, capacities.media_objects)),
        *jpeg.jpeg_fields(capacities),
        *wav.wav_fields(capacities),
    ]


def device_dtype(capacities: Capacities) -> np.dtype[Any]:
    """
    Region D: every table of the device and its scratch.
    """
    return np.dtype(
        [
            *_DEVICE_FIELDS,
            *roles.role_fields(capacities),
            *controls.control_fields(capacities),
            *grants.grant_fields(capacities),
            *frames.frame_fields(capacities),
            *requests.request_fields(capacities),
            *usage.usage_fields(capacities),
            *ledger.ledger_fields(capacities),
            *policy.policy_fields(capacities),
            *review.review_fields(capacities),
            *slots.slot_fields(capacities),
            *reference.reference_fields(capacities),
            *kernel_engine.kernel_engine_fields(capacities),
            *source_fields(capacities),
            *store_mail.device_fields(capacities),
            *progress.device_fields(capacities),
        ],
        align=True,
    )


@attrs.frozen
class Regions:
    """
    The dtypes of H, D and B, how many records B has, and the bytes of P.
    """

    host: np.dtype[Any]
    device: np.dtype[Any]
    bulk: np.dtype[Any]
    requests: int
    #: Bytes of media sources; one where there are none, so that kernels get an array.
    pool: int

    @property
    def size(self) -> int:
        """Bytes of all regions together."""
        bulk = self.bulk.itemsize * self.requests
        return self.host.itemsize + self.device.itemsize + bulk + self.pool


def regions_of(capacities: Capacities) -> Regions:
    """
    The regions of a device with *capacities*.

    Payloads and outputs have a region of their own because numpy counts the bytes of a
    record in 32 bits: H and D stay below 2 GiB at every capacity, B need not. The pool
    is an array of bytes that the host may copy from (`Device.source_bytes`).
    """
    return Regions(
        host_dtype(capacities),
        device_dtype(capacities),
        np.dtype(requests.bulk_fields(capacities), align=True),
        capacities.requests,
        max(1, capacities.media_bytes),
    )


def allocate(dtype: np.dtype[Any], count: int = 1) -> np.ndarray[Any, np.dtype[Any]]:
    """
    A zeroed array of *count* records, aligned to a page.
    """
    size = dtype.itemsize * count
    raw = np.zeros(size + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size].view(dtype)
