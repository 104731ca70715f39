"""
The models of tests/protocol with larger bounds: every order of more events.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.protocol.events import Events
from tests.protocol.explorer import explore
from tests.protocol.leases import Leases
from tests.protocol.mailbox import Mailbox
from tests.protocol.waiting import Waiting
from tests.protocol.watching import Watching

#: More than any of them has; a kilobyte each.
STATES_MAX: Final = 4_000_000
#: Each model with its bounds.
LARGE: Final[dict[str, Callable[[], Any]]] = {
    "mailbox, 4 peers, 5 packets": lambda: Mailbox(peers_max=4, packets_max=5),
    "leases, 3 requests": lambda: Leases(requests_max=3, losses_max=0),
    "leases, 2 requests, 2 losses": lambda: Leases(requests_max=2, losses_max=2),
    "events, 30": lambda: Events(events_max=30),
    "watching, 12 bytes": lambda: Watching(bytes_max=12),
    "device loop, 3 writers": lambda: Waiting("device", writers=3, items=4),
    "reactor loop, 3 writers": lambda: Waiting("reactor", writers=3, items=4),
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bin/soak protocol", description=__doc__)
    parser.parse_args(arguments)
    total = 0
    for name, make in LARGE.items():
        began = time.monotonic()
        seen = explore(make(), STATES_MAX)
        seconds = time.monotonic() - began
        sys.stdout.write(
            f"{name}: {seen.states} states, {seen.steps} steps, {seconds:.0f} s\n"
        )
        sys.stdout.flush()
        total += seen.states
    sys.stdout.write(f"{total} states\n")
