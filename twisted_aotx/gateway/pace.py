"""
The pace at which news are read. Layer 4.
"""

from __future__ import annotations

import math
from typing import Final

from twisted.internet.interfaces import IReactorTime

#: READs after notices, of all requests together: in a second, and at once. So many cost
#: some half of a processor.
READS_PER_SECOND: Final = 2000
READS_AT_ONCE: Final = 64


class Pace:
    """
    How fast READs may follow notices; one for all requests.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        #: When the last one is due that was given a turn.
        self._last = -math.inf

    def delay(self) -> float:
        """
        Take a turn; the seconds until it has come.

        Each request has one turn at most, so nobody waits for more than all the others.
        """
        now, each = self._clock.seconds(), 1 / READS_PER_SECOND
        self._last = max(self._last, now - READS_AT_ONCE * each) + each
        return max(0.0, self._last - now)
