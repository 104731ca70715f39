"""
Endpoints for seqpacket sockets, and the parsers of their strings.

Strings: `seqpacket:/path[:mode=600][:backlog=1024][:lock=no]` for servers and
`seqpacket:/path[:timeout=5]` for clients.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Final

from twisted.internet import error
from twisted.internet.defer import Deferred, execute
from twisted.internet.interfaces import (
    IDelayedCall,
    IListeningPort,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
    IStreamClientEndpointStringParserWithReactor,
    IStreamServerEndpoint,
    IStreamServerEndpointStringParser,
)
from twisted.plugin import IPlugin
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.seqpacket.connection import SeqPacketConnection
from twisted_aotx.seqpacket.port import BACKLOG, SeqPacketPort
from twisted_aotx.seqpacket.system import (
    PacketReactor,
    PacketSocket,
    SeqPacketAddress,
    System,
    SystemCalls,
    isSocketOf,
    pathProblem,
)

#: Seconds until a connection has to stand.
CONNECT_SECONDS: Final = 5.0
#: Seconds between two attempts while the server's backlog is full.
CONNECT_RETRY_SECONDS: Final = 0.005


class PeerNotAllowed(error.ConnectError):
    """
    The path or the process behind it does not belong to the user it should.
    """

    def __init__(self, reason: str) -> None:
        error.ConnectError.__init__(self, errno.EPERM, reason)


@implementer(IStreamServerEndpoint)
class SeqPacketServerEndpoint:
    """
    Listens at a path; the arguments are those of `SeqPacketPort`.
    """

    def __init__(
        self,
        reactor: PacketReactor,
        path: str | bytes,
        *,
        backlog: int = BACKLOG,
        mode: int = 0o600,
        lock: bool = True,
        system: SystemCalls | None = None,
    ) -> None:
        self._reactor = reactor
        self._path = path
        self._backlog = backlog
        self._mode = mode
        self._lock = lock
        self._system = system

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Fires with the port, or fails with CannotListenError."""
        return execute(self._listen, protocolFactory)

    def _listen(self, factory: IProtocolFactory) -> IListeningPort:
        port = SeqPacketPort(
            self._reactor,
            self._path,
            factory,
            backlog=self._backlog,
            mode=self._mode,
            lock=self._lock,
            system=self._system,
        )
        port.startListening()
        return port


@implementer(IStreamClientEndpoint)
class SeqPacketClientEndpoint:
    """
    Connects to a path.

    With *serverUid*, the path must be a socket of that user and the process behind it
    must run as that user; symbolic links are not followed then.
    """

    def __init__(
        self,
        reactor: PacketReactor,
        path: str | bytes,
        *,
        timeout: float = CONNECT_SECONDS,
        serverUid: int | None = None,
        system: SystemCalls | None = None,
    ) -> None:
        self._reactor = reactor
        self._path = os.fsencode(path)
        self._timeout = timeout
        self._serverUid = serverUid
        self._system: SystemCalls = system or System()

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """
        Fires with the protocol; fails with ConnectError or one of its kinds:
        TimeoutError, PeerNotAllowed, NoProtocol.
        """
        attempt = _Attempt(
            self._reactor, self._system, self._path, self._serverUid, protocolFactory
        )
        attempt.begin(self._timeout)
        return attempt.done


class _Attempt:
    """
    One connection in the making.

    `connect` on such a socket ends at once, well or badly. When the server's backlog is
    full it says EAGAIN (never EINPROGRESS) and leaves nothing to wait for, so it is
    tried again on a timer.
    """

    def __init__(
        self,
        reactor: PacketReactor,
        system: SystemCalls,
        path: bytes,
        uid: int | None,
        factory: IProtocolFactory,
    ) -> None:
        self._reactor = reactor
        self._system = system
        self._path = path
        self._uid = uid
        self._factory = factory
        self._deadline = 0.0
        self._socket: PacketSocket | None = None
        self._retry: IDelayedCall | None = None
        self.done: Deferred[IProtocol] = Deferred(self._cancelled)

    def begin(self, timeout: float) -> None:
        self._deadline = self._reactor.seconds() + timeout
        problem = pathProblem(self._path)
        if problem is not None:
            self._fail(error.ConnectError(errno.EINVAL, problem))
            return
        self._try()

    def _try(self) -> None:
        self._retry = None
        try:
            if self._uid is not None:
                status = self._system.lstat(self._path)
                if not isSocketOf(status, self._uid):
                    raise PeerNotAllowed(f"not a socket of user {self._uid}")
            if self._socket is None:
                self._socket = self._system.makeSocket()
            number = self._socket.connect_ex(self._path)
        except error.ConnectError as refused:
            self._fail(refused)
            return
        except OSError as problem:
            self._fail(error.getConnectError(problem))
            return
        if number == errno.EAGAIN:
            self._again()
        elif number:
            self._fail(error.getConnectError((number, os.strerror(number))))
        else:
            self._connected(self._socket)

    def _again(self) -> None:
        if self._reactor.seconds() >= self._deadline:
            self._fail(error.TimeoutError())
        else:
            self._retry = self._reactor.callLater(CONNECT_RETRY_SECONDS, self._try)

    def _connected(self, connected: PacketSocket) -> None:
        try:
            server = self._system.credentials(connected)
            if self._uid is not None and server.uid != self._uid:
                raise PeerNotAllowed(f"the server does not run as user {self._uid}")
            peer = SeqPacketAddress(self._path, server)
            protocol = self._factory.buildProtocol(peer)
            if protocol is None:
                raise error.NoProtocol()
            SeqPacketConnection(
                self._reactor,
                connected,
                protocol,
                SeqPacketAddress(),
                peer,
            ).begin()
        except Exception:
            self._fail(Failure())
        else:
            self.done.callback(protocol)

    def _fail(self, reason: Exception | Failure) -> None:
        if self._socket is not None:
            self._socket.close()
        self.done.errback(reason)

    def _cancelled(self, _: object) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if self._socket is not None:
            self._socket.close()


@implementer(IPlugin, IStreamServerEndpointStringParser)
class SeqPacketServerParser:
    """
    Makes server endpoints from strings.
    """

    prefix = "seqpacket"

    def parseStreamServer(
        self, reactor: Any, *args: Any, **kwargs: Any
    ) -> SeqPacketServerEndpoint:
        """The arguments of the string: see this module's text."""
        return _serverFromStrings(reactor, *args, **kwargs)


@implementer(IPlugin, IStreamClientEndpointStringParserWithReactor)
class SeqPacketClientParser:
    """
    Makes client endpoints from strings.
    """

    prefix = "seqpacket"

    def parseStreamClient(
        self, reactor: Any, *args: Any, **kwargs: Any
    ) -> SeqPacketClientEndpoint:
        """The arguments of the string: see this module's text."""
        return _clientFromStrings(reactor, *args, **kwargs)


def _serverFromStrings(
    reactor: PacketReactor,
    path: str,
    mode: str = "600",
    backlog: str = str(BACKLOG),
    lock: str = "yes",
) -> SeqPacketServerEndpoint:
    if lock not in {"yes", "no"}:
        raise ValueError(f"lock={lock}: yes or no")
    return SeqPacketServerEndpoint(
        reactor, path, backlog=int(backlog), mode=int(mode, 8), lock=lock == "yes"
    )


def _clientFromStrings(
    reactor: PacketReactor, path: str, timeout: str = str(CONNECT_SECONDS)
) -> SeqPacketClientEndpoint:
    return SeqPacketClientEndpoint(reactor, path, timeout=float(timeout))
