"""
An eventfd in the reactor.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import attrs
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.runtime.unsaid import unsaid


@implementer(IReadDescriptor)
@attrs.define(eq=False)
class Doorbell:
    """
    Calls *rung* on the reactor's thread when the eventfd was rung, once however often.

    The descriptor stays its owner's. What *rung* raises is logged: a doorbell that
    falls silent would stop everything behind it.
    """

    descriptor: int
    name: str
    rung: Callable[[], None]

    _log = Logger()

    def fileno(self) -> int:
        """See `IFileDescriptor`."""
        return self.descriptor

    def doRead(self) -> None:
        """Take what was rung and pass it on."""
        try:
            os.eventfd_read(self.descriptor)
        except BlockingIOError:
            return
        try:
            self.rung()
        except Exception as error:
            self._log.failure(
                "the {name} doorbell was not answered", unsaid(error), name=self.name
            )

    def connectionLost(self, reason: Failure) -> None:
        """The reactor let go of us."""

    def logPrefix(self) -> str:
        """See `ILoggingContext`."""
        return self.name
