"""
The tick's last stage before the replies: what became of records given to the store.

A reply that waited for its record is written here (D12); also while held, because only
the store ends a hold.
"""

from __future__ import annotations

from typing import Any

from twisted_aotx.device.backend import dev
from twisted_aotx.device.store_mail import next_result


@dev
def handle_results(H: Any, D: Any, P: Any) -> None:
    """Lane 0: handle every record that the store is done with, in order."""
    at = next_result(H, D)
    while at >= 0:
        at = next_result(H, D)
