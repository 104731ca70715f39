"""
What goes wrong on the fake machine.
"""

from __future__ import annotations

import os
from collections import deque

import attrs


def os_error(number: int) -> OSError:
    """
    The exception of an error number.
    """
    return OSError(number, os.strerror(number))


@attrs.define
class Faults:
    """
    What the next calls of each kind do, the first first: a number is an error number.
    """

    #: None lets a send pass, a negative number sends that many bytes too few.
    sends: deque[int | None] = attrs.field(factory=deque)
    receives: deque[int] = attrs.field(factory=deque)
    accepts: deque[int] = attrs.field(factory=deque)
    listens: deque[int] = attrs.field(factory=deque)
    unlinks: deque[int] = attrs.field(factory=deque)


def raise_next(faults: deque[int]) -> None:
    """
    Fail if *faults* says so.
    """
    if faults:
        raise os_error(faults.popleft())
