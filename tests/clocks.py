"""
A clock that stands until a test sets it forward.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.task import Clock

#: Seconds that it shows at first: no process begins at zero, and what takes a time for
#: a duration is right there.
BEGIN_SECONDS: Final = 4096.0


def standing_clock() -> Clock:
    """A clock at `BEGIN_SECONDS`."""
    clock = Clock()
    clock.advance(BEGIN_SECONDS)
    return clock
