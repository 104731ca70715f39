"""
Threads of our own, seen from the reactor's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

_Made = TypeVar("_Made")

#: The most that a thread can stand back.
_NICENESS_MAX: Final = 19


def stand_back(niceness: int) -> None:
    """
    Let other threads go before this one while cores are scarce (Linux counts niceness
    per thread): what works on a large source must not hold up who answers requests.
    """
    thread = threading.get_native_id()
    now = os.getpriority(os.PRIO_PROCESS, thread)
    os.setpriority(os.PRIO_PROCESS, thread, min(_NICENESS_MAX, now + niceness))


def in_thread(reactor: Any, name: str, work: Callable[[], _Made]) -> Deferred[_Made]:
    """
    Run *work* in a thread of its own; fires on the reactor's thread with what it gave.

    The thread is a daemon: one that hangs must not keep a stopped process alive, as the
    threads of the reactor's pool would.
    """
    ended: Deferred[_Made] = Deferred()

    def run() -> None:
        try:
            result: Any = work()
        except BaseException:
            result = Failure()
        reactor.callFromThread(ended.callback, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended
