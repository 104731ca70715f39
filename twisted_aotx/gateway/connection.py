"""
HTTP/1.1 connections: how bytes flow, and how a connection ends.

Rules (`http.md` §1, D14, D16):

1. An answer before the end of the body says `Connection: close`; the rest of the body
   is then thrown away for `LINGER_SECONDS` at most, so that the answer is not lost to a
   reset.
2. A write that the client does not take in `write_seconds` aborts the socket.
3. A client that ends its side is gone, unless it still owes a body: then it is told.
4. One deadline for the whole header, one for the time without a request. Neither is
   moved by bytes that trickle, and both close without a byte.

How many connections there may be, and all deadlines: `connections`.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, cast

from twisted.internet.interfaces import (
    IConsumer,
    IHalfCloseableProtocol,
    ITCPTransport,
)
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.gateway.parser import Parser
from twisted_aotx.gateway.problems import ProblemCode, refusal

if TYPE_CHECKING:
    from twisted_aotx.errors import Problem
    from twisted_aotx.gateway.site import GatewaySite
    from twisted_aotx.gateway.txrequest import GatewayRequest

#: Bytes that the kernel keeps for a client that reads slowly. Without a bound it takes
#: megabytes before back-pressure is felt.
SEND_BUFFER_BYTES: Final = 128 << 10


@implementer(IHalfCloseableProtocol)
class Connection(Parser):
    """
    One connection of a client, from its begin to its end.
    """

    site: GatewaySite

    #: Whether a header is awaited or being received, under its deadline.
    _in_header = False
    #: Whether `loseConnection` was called.
    _closing = False
    #: Whether the client has ended its side.
    _client_ended = False

    @property
    def idle(self) -> bool:
        """
        Whether no request is being received or served.
        """
        return not self.requests

    # --- what comes in: called by the transport and the parser ---

    def connectionMade(self) -> None:
        """
        A client connected.
        """
        super().connectionMade()
        if not self.site.connections.admit(self):
            self.loseConnection()
            return
        self.header_begun()
        if not self.isSecure() and ITCPTransport.providedBy(self.transport):
            # ITCPTransport does not list it, every TCP transport has it.
            handle: socket.socket = self.wire.getHandle()  # type: ignore[attr-defined]
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    def header_begun(self) -> None:
        """
        The first byte of a header is there or awaited: its deadline begins, once.
        """
        if not self._in_header and not self._closing:
            self._in_header = True
            self.site.connections.busy(self)
            self.site.connections.header.start(self)

    def header_ended(self) -> None:
        """
        A header is complete.
        """
        self._in_header = False
        self.site.connections.header.stop(self)

    def refused(self, problem: Problem) -> None:
        """
        What arrived is answered with *problem*, as the last answer.
        """
        self.site.journal.refused(problem, self.getPeer())

    def answered(self) -> None:
        """
        The last answer ended and nothing of a next request is here.
        """
        if self.site.gateway.closing.begun:
            self.loseConnection()
        elif not self._closing:
            self.site.connections.idle(self)

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

    def readConnectionLost(self) -> None:
        """
        The client sends no more: its body is cut short, or it is gone.
        """
        self._client_ended = True
        txrequest: GatewayRequest | None = self.requests[-1] if self.requests else None
        if txrequest is None or self.dropping:
            self.wire.loseConnection()
        elif txrequest.body_complete or txrequest.body_length == 0:
            self.abort()
        else:
            self.dropping = True
            txrequest.fail_body(refusal(ProblemCode.BODY_LENGTH))

    # --- what goes out ---

    @property
    def blocked(self) -> bool:
        """
        Whether the client does not take what is written.
        """
        return bool(self._waitingForTransport)

    def pauseProducing(self) -> None:
        """
        The client does not take what is written (called by the transport).
        """
        super().pauseProducing()
        self.site.connections.write.start(self)

    def resumeProducing(self) -> None:
        """
        The client takes bytes again (called by the transport).
        """
        self.site.connections.write.stop(self)
        super().resumeProducing()

    def loseConnection(self) -> None:
        """
        End the connection when everything written is out.
        """
        if self._closing:
            return
        self._closing = self.dropping = True
        connections = self.site.connections
        self.header_ended()
        connections.busy(self)
        cast(IConsumer, self._networkProducer).unregisterProducer()
        if self.input_left and not self._client_ended and not self.isSecure():
            connections.linger.start(self)
            self.wire.loseWriteConnection()
            self._networkProducer.resumeProducing()
            return
        if not self.blocked:
            # Else the deadline of what waits to be written runs already.
            connections.write.start(self)
        self.wire.loseConnection()

    def writeConnectionLost(self) -> None:
        """
        Our side is closed; the client's follows, or `LINGER_SECONDS` do.
        """

    def abort(self) -> None:
        """
        End the connection now, whatever waits to be written.
        """
        self.wire.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """
        The connection is gone.
        """
        self._closing = True
        self.site.connections.gone(self)
        super().connectionLost(reason)
