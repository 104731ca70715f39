"""
Uploads through a gateway beside a handler that only hashes what it gets, and how long
others wait meanwhile.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator
from typing import Final

from benchmarks.gateway import Service, service
from benchmarks.hashing import plain
from benchmarks.media_ticks import longest_ticks
from benchmarks.media_waits import LARGE_MIB, waits
from benchmarks.table import Row
from benchmarks.uploads import JPEG, MIB, hashed, remove, sound, uploaded, uploading
from tests.media_made import make_jpeg, pad_jpeg

#: Size in MiB → how often each server has its turn.
UPLOADS: Final = {1: 15, 8: 7, 32: 5}


def _pair(
    running: Service, address: tuple[str, int], what: str, body: bytes, kind: str
) -> Iterator[Row]:
    """Both servers in turn, so that both meet the same load of the machine."""
    digest = hashlib.sha256(body).hexdigest()
    pairs = []
    for _ in range(UPLOADS[len(body) // MIB]):
        theirs = hashed(address, body, digest)
        ours, source = uploaded(uploading(running, body, kind))
        assert source["sha256"] == digest
        remove(running, source["id"])
        pairs.append((theirs, ours))
    theirs, ours = (statistics.median(each) for each in zip(*pairs, strict=True))
    size = len(body) / 1e6
    base = Row(f"plain handler, {what}", size / theirs, "MB/s")
    ratio = statistics.median(theirs / ours for theirs, ours in pairs)
    note = f"median of {len(pairs)} pairs: {ratio:.2f}×, the aim is 0.1× from 8 MiB on"
    yield base
    yield Row(f"media upload, {what}", size / ours, "MB/s", note, base)


def _uploads(running: Service) -> list[Row]:
    rows: list[Row] = []
    with plain() as address:
        for mib in UPLOADS:
            body = pad_jpeg(make_jpeg(), mib * MIB)
            rows += _pair(running, address, f"JPEG of {mib} MiB", body, JPEG)
        # All of it are samples, and every one of them is looked at.
        rows += _pair(running, address, "WAV of 8 MiB", sound(), "audio/wav")
    return rows


def measure() -> dict[str, list[Row]]:
    """Tables by title."""
    with service(modalities=["image", "audio"]) as running:
        uploads = _uploads(running)
        beside = waits(running)
    return {
        "Uploads": uploads,
        f"Another caller while a source of {LARGE_MIB} MiB is taken": beside,
        "Ticks that take, hash and check sources": longest_ticks(),
    }
