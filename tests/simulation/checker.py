"""
Holds a history against every promise. Sees nothing but the history.
"""

from __future__ import annotations

from tests.simulation.check_device import check_device
from tests.simulation.check_gateway import check_gateway
from tests.simulation.check_leases import check_leases
from tests.simulation.check_media import check_media
from tests.simulation.check_rest import check_rest
from tests.simulation.check_streams import check_streams
from tests.simulation.history import History
from tests.simulation.truth import Truth


def check(history: History) -> list[str]:
    """What is wrong with *history*, as sentences; empty when every promise was kept."""
    truth = Truth(history)
    checks = (
        *(check_rest, check_device, check_leases),
        *(check_gateway, check_streams, check_media),
    )
    return [fault for each in checks for fault in each(truth)]
