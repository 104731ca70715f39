"""
Threads of our own, seen from the reactor's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

_Made = TypeVar("_Made")


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
