"""
Reading jobs for the media worker, and the bytes of sources, on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twisted_aotx.device import entries
from twisted_aotx.device.media_mail import JOB_WORDS
from twisted_aotx.errors import SourceGone
from twisted_aotx.orders import MediaJob


class JobReader:
    """
    Takes jobs in the order published; owns the buffer that they are copied through.
    """

    def __init__(self) -> None:
        self._words = np.zeros(JOB_WORDS, np.int64)

    def take(self, launch: Any) -> Sequence[MediaJob]:
        """Every job published since the last call."""
        jobs: list[MediaJob] = []
        while launch.on_host(entries.take_job, self._words):
            jobs.append(
                MediaJob(**dict(zip(_WORDS, self._words.tolist(), strict=True)))
            )
        return jobs


_WORDS = ("worker", "index", "generation", "offset", "size", "width", "height")


def copy_source(
    launch: Any, index: int, generation: int, offset: int, size: int
) -> bytes:
    """
    *size* bytes from byte *offset* of the pool, those of the source in *index*.

    Its span may become another's while they are copied; the guard changes before that.

    Raises:
        SourceGone: the descriptor has another source by now, or none.
    """
    if int(launch.on_host(entries.read_guard, index)) != generation:
        raise SourceGone(index)
    data = bytes(launch.pool[offset : offset + size])
    if int(launch.on_host(entries.read_guard, index)) != generation:
        raise SourceGone(index)
    return data
