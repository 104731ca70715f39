"""
What ports and connections share.
"""

from __future__ import annotations

from typing import cast

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import IReactorFDSet

from twisted_aotx.seqpacket.system import PacketReactor


class PacketDescriptor(FileDescriptor):
    """
    Superclass of what a reactor watches here. Never made directly.
    """

    def __init__(self, reactor: PacketReactor) -> None:
        FileDescriptor.__init__(self, cast(IReactorFDSet, reactor))
        self._clock = reactor

    def startReading(self) -> None:
        """Have `doRead` called."""
        self._clock.addReader(self)

    def stopReading(self) -> None:
        """Stop that."""
        self._clock.removeReader(self)

    def startWriting(self) -> None:
        """Have `doWrite` called."""
        self._clock.addWriter(self)

    def stopWriting(self) -> None:
        """Stop that."""
        self._clock.removeWriter(self)
