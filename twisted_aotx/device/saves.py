"""
The tick's last stage before the replies: what became of records given to the store.

A reply that waited for its record is written here (D12); also while held, because only
the store ends a hold.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.admission import admit_waiting
from twisted_aotx.device.backend import dev, i64
from twisted_aotx.device.frames import serve
from twisted_aotx.device.media_cancel import source_removed
from twisted_aotx.device.media_work import source_saved
from twisted_aotx.device.numbers import (
    RECORD_CONTROL,
    RECORD_LEDGER,
    RECORD_REMOVAL,
    RECORD_SOURCE,
)
from twisted_aotx.device.policy import control_saved
from twisted_aotx.device.review import batch_saved
from twisted_aotx.device.store_mail import next_result


@dev
def handle_results(H: Any, D: Any, P: Any) -> None:
    """Lane 0: handle every record that the store is done with, in order."""
    at = next_result(H, D)
    while at >= 0:
        kind = i64(H.record_ring[at][0])
        saved = H.record_result[at]
        if kind == RECORD_CONTROL:
            control_saved(D, at, saved)
        elif kind == RECORD_LEDGER:
            batch_saved(H, D, saved)
        elif kind == RECORD_SOURCE:
            source_saved(H, D, at, saved)
        elif kind == RECORD_REMOVAL:
            source_removed(H, D, at, saved)
        if D.record_channel[at] >= 0:
            serve(D, D.record_channel[at])
        at = next_result(H, D)
    admit_waiting(H, D)
