"""
What a device is told once, before its first tick. Runs in kernels like everything that
touches a table.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, store_release, u64
from twisted_aotx.device.media_work import reset_workers
from twisted_aotx.device.owners import reset_owners
from twisted_aotx.device.policy import reset_policy
from twisted_aotx.device.pool import POOL_AUDIO, POOL_BYTES, POOL_IMAGE, reset_pool
from twisted_aotx.device.receipts import reset_receipts
from twisted_aotx.device.requests import reset_requests
from twisted_aotx.device.slots import reset_slots
from twisted_aotx.device.sources import reset_sources

_SECOND_NS = 1_000_000_000


@dev
def _configure_media(D: Any, numbers: Any) -> None:
    """Media are off without descriptors or without bytes (`device.md` §12)."""
    if numbers[11] > 0:
        D.media_objects = numbers[10]
    D.image_workers = numbers[13]
    D.image_pixels = numbers[14]
    D.image_dimension = numbers[15]
    D.image_patches = numbers[16]
    D.audio_rows = numbers[17]
    D.audio_workers = numbers[18]
    D.audio_frames = numbers[19]
    reset_pool(D, i64(POOL_BYTES), numbers[11])
    reset_pool(D, i64(POOL_IMAGE), numbers[12])
    reset_pool(D, i64(POOL_AUDIO), numbers[17])
    reset_owners(D)
    reset_receipts(D)
    reset_sources(D)
    reset_workers(D)


@dev
def configure(H: Any, D: Any, numbers: Any, secrets: Any) -> None:
    """
    Set capacities and secrets, and empty every table.

    Args:
        numbers: (20,) i64: slots, requests, channels, principals, prompt bytes, output
            bytes, sequence tokens, request seconds, upload seconds, service bytes;
            media objects and bytes, image rows, workers, pixels, dimension and patches,
            audio rows, workers and frames.
        secrets: (3,) u64: epoch, hash key, seed key.
    """
    D.slots = numbers[0]
    D.requests = numbers[1]
    D.channels = numbers[2]
    D.principals = numbers[3]
    D.prompt_bytes = numbers[4]
    D.output_bytes = numbers[5]
    D.sequence_tokens = numbers[6]
    D.request_ns = numbers[7] * _SECOND_NS
    D.upload_ns = numbers[8] * _SECOND_NS
    D.service_bytes = numbers[9]
    D.epoch = secrets[0]
    D.hash_key = secrets[1]
    D.seed_key = secrets[2]
    H.schema = 1
    H.channel_count = numbers[2]
    H.frame_bytes = len(H.mail[0]["data"])
    H.region_epoch = secrets[0]
    reset_requests(D)
    reset_slots(D)
    reset_policy(D)
    _configure_media(D, numbers)


@dev
def set_word(H: Any, index: Any, value: Any) -> None:
    """Set a host word (hold, restoring)."""
    store_release(H.word, index, i64(value))


@dev
def close_region(H: Any) -> None:
    """Make the device loop return (`wire.md` §12, closed)."""
    store_release(H.closed, 0, u64(1))
