"""
A runtime service over doubles, for the tests of its start, life and stop.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.runtime.doubles import (
    ListedEngine,
    MemoryDevice,
    ThreadedReactor,
    new_store,
)
from twisted_aotx.runtime.service import RuntimeService

Lines = Callable[[], list[tuple[str, str]]]


class Runtime:
    """
    A service with what it is made of, and what its Deferreds gave.
    """

    def __init__(self, *engines: ListedEngine) -> None:
        self.reactor = ThreadedReactor()
        self.device = MemoryDevice()
        self.engines = engines or (ListedEngine(),)
        self._folder = tempfile.TemporaryDirectory()
        self.store = new_store(Path(self._folder.name))
        self.service = RuntimeService(
            self.reactor, self.device, self.engines, self.store
        )
        self.started: list[Any] = []
        self.stopped: list[Any] = []

    def start(self) -> None:
        self.service.start().addBoth(self.started.append)

    def run(self) -> None:
        self.start()
        self.reactor.until(lambda: "run" in self.device.log and self.started)
        assert self.started == [None]

    def stop(self) -> None:
        self.stopped.clear()
        self.service.stop().addBoth(self.stopped.append)
        self.reactor.until(lambda: self.stopped)
        assert self.stopped == [None]
