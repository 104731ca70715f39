"""
A server of the device's socket that answers by a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from twisted_aotx.seqpacket import (
    PacketProtocol,
    PacketReactor,
    SeqPacketConnection,
    SeqPacketPort,
    SystemCalls,
)
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader, join, split_request

#: What a script returns: a packet to send as it is, b"" to close the connection, None
#: to stay silent.
Answer: TypeAlias = bytes | None


def reply_to(
    request: RequestHeader,
    status: int = 200,
    payload: bytes = b"",
    *,
    phase: int = 0,
    epoch: int = 1,
    **fields: Any,
) -> bytes:
    """
    A reply packet to *request* as a device would write it (`wire.md` §3).

    Args:
        request: principal, revision, id and cursor are echoed from it.
        status: the status word.
        payload: what follows the header.
        phase: the request's phase.
        epoch: the device's epoch.
        fields: more fields of `ReplyHeader`; they win over the echoes.
    """
    values: dict[str, Any] = {
        "status": status,
        "phase": phase,
        "principal": request.principal,
        "revision": request.revision,
        "epoch": epoch,
        "id": request.id,
        "cursor": request.cursor,
    }
    return join(ReplyHeader(**(values | fields)), payload)


class ScriptedPeer(Factory):
    """
    Answers every request with what *script* makes of it.

        peer = ScriptedPeer(lambda request, payload: reply_to(request, 403))
        port = peer.listen(world.reactor, path, system=world.system)

    The script gets the request's header and payload and returns an `Answer` or a
    Deferred of one. Unlike the broker, a connection is read while it waits, so that a
    test sees at once when its client goes away.

    Attributes:
        requests: every request so far with its payload, in order of arrival.
        connections: the connections that are open.
        connected: how many connections there have been.
    """

    noisy = False

    def __init__(
        self,
        script: Callable[[RequestHeader, bytes], Answer | Deferred[Answer]],
    ) -> None:
        self.script = script
        self.requests: list[tuple[RequestHeader, bytes]] = []
        self.connections: list[_Scripted] = []
        self.connected = 0

    def listen(
        self,
        reactor: PacketReactor,
        path: str | bytes,
        *,
        system: SystemCalls | None = None,
    ) -> SeqPacketPort:
        """
        Serve at *path*, in memory if *system* is. Stop with its `stopListening`.
        """
        port = SeqPacketPort(reactor, path, self, lock=False, system=system)
        port.startListening()
        return port

    def drop_all(self) -> None:
        """
        Close every connection, as the broker does after a reload.
        """
        for connection in list(self.connections):
            connection.drop()

    def buildProtocol(self, addr: IAddress | None) -> _Scripted:
        """One more connection."""
        self.connected += 1
        return _Scripted(self)


class _Scripted(PacketProtocol):
    def __init__(self, peer: ScriptedPeer) -> None:
        self._peer = peer

    def connectionMade(self) -> None:
        self._peer.connections.append(self)

    def connectionLost(self, reason: Failure | None = None) -> None:
        self._peer.connections.remove(self)

    def packetReceived(self, packet: bytes) -> None:
        request, payload = split_request(packet)
        self._peer.requests.append((request, payload))
        answer = self._peer.script(request, payload)
        if isinstance(answer, Deferred):
            answer.addCallback(self._answer)
        else:
            self._answer(answer)

    def drop(self) -> None:
        self._socket.abortConnection()

    def _answer(self, answer: Answer) -> None:
        if answer is None or not self._socket.connected:
            return
        if answer:
            self.sendPacket(answer)
        else:
            self.drop()

    @property
    def _socket(self) -> SeqPacketConnection:
        return cast(SeqPacketConnection, self.transport)
