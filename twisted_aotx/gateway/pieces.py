"""
A large body, written as the client takes it.

In one write it would have to be taken whole within `write_seconds`, however large it is
(`http.md` §1); in pieces every piece has that time.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

if TYPE_CHECKING:
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Bytes of one piece; a transport asks to pause beyond 65,536.
PIECE_BYTES: Final = 64 << 10


@implementer(IPushProducer)
class Pieces:
    """
    The body of one answer, whose headers are set. `start` once.
    """

    def __init__(self, txrequest: GatewayRequest, content: bytes) -> None:
        self._txrequest = txrequest
        self._content = content
        self._at = 0
        self._paused = False

    def start(self) -> None:
        """
        Write what the client takes, and end the answer when all is written.
        """
        self._txrequest.registerProducer(self, True)
        # An answer before this one may still be on its way out.
        if not self._txrequest.channel.blocked:
            self.resumeProducing()

    def pauseProducing(self) -> None:
        """
        The connection holds more than it should (called by the transport).
        """
        self._paused = True

    def resumeProducing(self) -> None:
        """
        The connection takes bytes (called by the transport).
        """
        self._paused = False
        content = self._content
        while not self._paused and self._at < len(content):
            piece = content[self._at : self._at + PIECE_BYTES]
            self._at += len(piece)
            self._txrequest.write(piece)
        if content and self._at == len(content):
            self.stopProducing()
            self._txrequest.unregisterProducer()
            self._txrequest.finish()

    def stopProducing(self) -> None:
        """
        There is nothing more to write, or nobody to write it to.
        """
        self._content = b""
        self._at = 0
