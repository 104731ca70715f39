"""
What a device is told once, before its first tick. Runs in kernels like everything that
touches a table.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev, i64, store_release, u64
from twisted_aotx.device.policy import reset_policy
from twisted_aotx.device.requests import reset_requests
from twisted_aotx.device.slots import reset_slots

_SECOND_NS = 1_000_000_000


@dev
def configure(H: Any, D: Any, numbers: Any, secrets: Any) -> None:
    """
    Set capacities and secrets, and empty every table.

    Args:
        numbers: (10,) i64: slots, requests, channels, principals, prompt bytes, output
            bytes, sequence tokens, request seconds, upload seconds, service bytes.
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


@dev
def set_word(H: Any, index: Any, value: Any) -> None:
    """Set a host word (hold, restoring)."""
    store_release(H.word, index, i64(value))


@dev
def close_region(H: Any) -> None:
    """Make the device loop return (`wire.md` §12, closed)."""
    store_release(H.closed, 0, u64(1))
