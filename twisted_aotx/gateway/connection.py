"""
HTTP/1.1 connections: how bytes flow, and how a connection ends.

Rules:

1. An answer before the end of the body says `Connection: close`; the rest of the body
   is then thrown away for `LINGER_SECONDS` at most, so that the answer is not lost to a
   reset.
2. A write that the client does not take in `write_seconds` aborts the socket.
3. A client that ends its side is gone, unless it still owes a body: then it is told.

The cap on connections is not here yet.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, cast

from twisted.internet.interfaces import (
    IConsumer,
    IDelayedCall,
    IHalfCloseableProtocol,
    ITCPTransport,
)
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.gateway.parser import Parser
from twisted_aotx.gateway.problems import ProblemCode, refusal

if TYPE_CHECKING:
    from twisted_aotx.gateway.site import GatewaySite
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Bytes that the kernel keeps for a client that reads slowly. Without a bound it takes
#: megabytes before back-pressure is felt.
SEND_BUFFER_BYTES: Final = 128 << 10
#: Seconds that the rest of a body may take after an early answer.
LINGER_SECONDS: Final = 2.0


@implementer(IHalfCloseableProtocol)
class Connection(Parser):
    """
    One connection of a client, from its begin to its end.
    """

    site: GatewaySite

    _lingering: IDelayedCall | None = None
    _write_deadline: IDelayedCall | None = None

    def pause_input(self) -> None:
        """
        Take no more bytes from the client for now.
        """
        self._networkProducer.pauseProducing()

    def resume_input(self) -> None:
        """
        Take bytes from the client again.
        """
        self._networkProducer.resumeProducing()

    def pauseProducing(self) -> None:
        """
        The client does not take what is written (called by the transport).
        """
        super().pauseProducing()
        if self._write_deadline is None:
            self._write_deadline = self.callLater(self._write_seconds, self.abort)

    def resumeProducing(self) -> None:
        """
        The client takes bytes again (called by the transport).
        """
        _stop(self._write_deadline)
        self._write_deadline = None
        super().resumeProducing()

    @property
    def _write_seconds(self) -> int:
        return self.site.gateway.settings.limits.write_seconds

    def connectionMade(self) -> None:
        """
        A client connected.
        """
        super().connectionMade()
        self.site.connections.add(self)
        if not self.isSecure() and ITCPTransport.providedBy(self.transport):
            # ITCPTransport does not list it, every TCP transport has it.
            handle: socket.socket = self.wire.getHandle()  # type: ignore[attr-defined]
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    @property
    def idle(self) -> bool:
        """
        Whether no request is being received or served.
        """
        return not self.requests

    def loseConnection(self) -> None:
        """
        End the connection when everything written is out.
        """
        self.dropping = True
        self.setTimeout(None)
        if self._lingering is not None:
            return
        self._lingering = self.callLater(
            LINGER_SECONDS if self.input_left else self._write_seconds, self.abort
        )
        cast(IConsumer, self._networkProducer).unregisterProducer()
        if self.input_left and not self.isSecure():
            self.wire.loseWriteConnection()
            self._networkProducer.resumeProducing()
        else:
            self.wire.loseConnection()

    def timeoutConnection(self) -> None:
        """
        The connection was idle for too long.
        """
        self.loseConnection()

    def abort(self) -> None:
        """
        End the connection now, whatever waits to be written.
        """
        self.wire.abortConnection()

    def readConnectionLost(self) -> None:
        """
        The client sends no more: its body is cut short, or it is gone.
        """
        txrequest: GatewayRequest | None = self.requests[-1] if self.requests else None
        if txrequest is None or self.dropping:
            self.wire.loseConnection()
        elif txrequest.body_complete or txrequest.body_length == 0:
            self.abort()
        else:
            self.dropping = True
            txrequest.fail_body(refusal(ProblemCode.BODY_LENGTH))

    def writeConnectionLost(self) -> None:
        """
        Our side is closed; the client's follows, or `LINGER_SECONDS` do.
        """

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """
        The connection is gone.
        """
        self.site.connections.discard(self)
        _stop(self._write_deadline)
        _stop(self._lingering)
        super().connectionLost(reason)


def _stop(call: IDelayedCall | None) -> None:
    if call is not None and call.active():
        call.cancel()
