"""
Reading the device's progress notices on the host.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from twisted_aotx.device import entries
from twisted_aotx.device.progress import NOTICE_WORDS
from twisted_aotx.devices import Progress

#: Notices copied at once.
_BATCH: Final = 256
_ROW: Final = struct.Struct("<16s16sQQ")


class NoticeReader:
    """
    Takes notices in the order published; owns the buffer that they are copied through.
    """

    def __init__(self) -> None:
        self._rows = np.zeros((_BATCH, NOTICE_WORDS), np.uint64)
        self._lost = 0

    def take(self, launch: Any) -> Sequence[Progress] | None:
        """Every notice published since the last call; None if some were lost."""
        found: list[Progress] = []
        count = _BATCH
        while count == _BATCH:
            count = int(launch.on_host(entries.take_notices, self._rows))
            rows = self._rows[:count].tobytes()
            found += [Progress(*row) for row in _ROW.iter_unpack(rows)]
        lost = int(launch.on_host(entries.notices_lost))
        if lost != self._lost:
            self._lost = lost
            return None
        return found
