"""
Giving the device back what the state store kept of the last activation
(`device.md` §11). Start only.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from twisted_aotx.device import entries
from twisted_aotx.device.records import policy_rows, policy_words, words_of
from twisted_aotx.orders import StoredPolicy, StoredSource


def restore_policy(launch: Any, policy: StoredPolicy) -> None:
    """Control state, ledger and frontier; state error if they are no device's."""
    if max(policy.frontier, policy.saved_generation) >= 1 << 63:
        # No device counts that far: it was not one of ours that wrote it.
        launch.on_device(entries.break_policy)
        return
    ledger = policy_rows(policy.ledger)
    launch.on_device(entries.restore_control, policy_words(policy))
    if len(ledger):
        launch.on_device(entries.restore_ledger, ledger)


def restore_source(launch: Any, source: StoredSource) -> int:
    """A source with its bytes; 0 if it is ready, else why it is refused."""
    ids = [*words_of(source.owner), *words_of(source.transfer_id)]
    launch.everywhere(
        entries.restore_source,
        np.array(ids, np.uint64),
        int(source.format),
        np.frombuffer(source.sha256, np.uint8),
        np.frombuffer(source.data, np.uint8),
    )
    return int(launch.on_host(entries.read_restored))


def compile_restoring(host: Any, device: Any, pool: Any) -> None:
    """Compile all of it for the numba types of the regions H, D and P."""
    words = numba.types.uint64[::1]
    data = numba.typeof(entries.read_only(np.zeros(1, np.uint8)))
    one = (words, numba.int64, data, data)
    entries.restore_source.compile((host, device, pool, *one))
    entries.read_restored.compile((host,))
    entries.restore_control.compile((device, words))
    entries.restore_ledger.compile((device, numba.types.uint64[:, ::1]))
    entries.break_policy.compile((device,))
