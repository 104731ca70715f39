"""
A listening seqpacket socket.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from twisted.internet import error, interfaces, main
from twisted.internet.abstract import FileDescriptor
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from twisted_aotx.seqpacket.connection import SeqPacketConnection
from twisted_aotx.seqpacket.descriptor import PacketDescriptor
from twisted_aotx.seqpacket.system import (
    PacketReactor,
    PacketSocket,
    SeqPacketAddress,
    System,
    SystemCalls,
    isSocketOf,
    pathProblem,
)

#: Connections that wait for `accept`. A client whose connection finds no room there
#: gets EAGAIN with nothing to wait for, so this is generous.
BACKLOG: Final = 1024
#: Connections accepted per readiness event, so that no burst keeps the peers waiting.
ACCEPT_BURST: Final = 16
#: Seconds that a port rests when the process can hold no more descriptors.
ACCEPT_REST_SECONDS: Final = 1.0
_OUT_OF_DESCRIPTORS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
)


@implementer(interfaces.IListeningPort)
class SeqPacketPort(PacketDescriptor):
    """
    Accepts connections at a path.

    A socket that was left at the path by a process that is gone is removed first; a
    live one, another user's, or anything but a socket is never touched and refuses the
    start. At the end the path is unlinked only if it still names our socket.

    With *lock*, `flock` on `path + ".lock"` is held meanwhile, which closes the moment
    between looking and removing. Leave it off when another lock guards the path.

    The factory's `buildProtocol` gets a `SeqPacketAddress` with the peer's credentials;
    returning None closes the connection without a byte.
    """

    def __init__(
        self,
        reactor: PacketReactor,
        path: str | bytes,
        factory: interfaces.IProtocolFactory,
        *,
        backlog: int = BACKLOG,
        accept_burst: int = ACCEPT_BURST,
        mode: int = 0o600,
        lock: bool = True,
        system: SystemCalls | None = None,
    ) -> None:
        super().__init__(reactor)
        self._path = os.fsencode(path)
        self._factory = factory
        self._backlog = backlog
        self._acceptBurst = accept_burst
        self._mode = mode
        self._wantLock = lock
        self._system: SystemCalls = system or System()
        self._lock: int | None = None
        self._socket: PacketSocket | None = None
        #: Device and inode of our socket.
        self._identity = (0, 0)
        self._resting: interfaces.IDelayedCall | None = None
        self._stopped: Deferred[None] | None = None
        self._log = Logger()

    # --- start ------------------------------------------------------------------------

    def startListening(self) -> None:
        """
        Bind and listen.

        Raises:
            CannotListenError: nothing was left behind.
        """
        text = pathProblem(self._path)
        if text is not None:
            raise self._cannot(OSError(errno.EINVAL, text))
        try:
            if self._wantLock:
                self._lock = self._system.lock(self._path + b".lock")
            self._removeStale()
            self._socket = self._listening()
        except OSError as problem:
            self._unlinkOurs()
            self._release()
            raise self._cannot(problem) from None
        self._factory.doStart()
        self.connected = 1
        self.startReading()

    def _cannot(self, problem: OSError) -> error.CannotListenError:
        return error.CannotListenError(None, os.fsdecode(self._path), problem)

    def _removeStale(self) -> None:
        try:
            status = self._system.lstat(self._path)
        except FileNotFoundError:
            return
        if not isSocketOf(status, self._system.euid()):
            raise OSError(errno.EEXIST, "the path is not a socket of this user")
        probe = self._system.makeSocket()
        try:
            answer = probe.connect_ex(self._path)
        finally:
            probe.close()
        if answer == errno.ECONNREFUSED:
            self._system.unlink(self._path)
        elif answer != errno.ENOENT:
            raise OSError(errno.EADDRINUSE, "another process listens there")

    def _listening(self) -> PacketSocket:
        made = self._system.makeSocket()
        try:
            self._system.bind(made, self._path, self._mode)
            status = self._system.lstat(self._path)
            self._identity = (status.st_dev, status.st_ino)
            made.listen(self._backlog)
        except OSError:
            made.close()
            raise
        return made

    # --- accepting --------------------------------------------------------------------

    def doRead(self) -> None:
        """Accept what waits, at most `accept_burst` connections."""
        for _ in range(self._acceptBurst):
            if self._socket is None or self.disconnecting:
                return
            try:
                accepted = self._system.accept(self._socket)
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as problem:
                self._acceptFailed(problem)
                return
            try:
                self._welcome(accepted)
            except Exception:
                self._log.failure("while accepting a connection")
                accepted.close()

    def _welcome(self, accepted: PacketSocket) -> None:
        peer = SeqPacketAddress(credentials=self._system.credentials(accepted))
        protocol = self._factory.buildProtocol(peer)
        if protocol is None:
            accepted.close()
            return
        SeqPacketConnection(
            self._clock, accepted, protocol, self.getHost(), peer
        ).begin()

    def _acceptFailed(self, problem: OSError) -> None:
        self._log.error("accept failed: {problem}", problem=str(problem))
        if problem.errno in _OUT_OF_DESCRIPTORS:
            # The waiting connection keeps the socket readable: without a rest the
            # reactor would spin until a descriptor is free.
            self.stopReading()
            self._resting = self._clock.callLater(ACCEPT_REST_SECONDS, self._rested)

    def _rested(self) -> None:
        self._resting = None
        self.startReading()

    # --- end --------------------------------------------------------------------------

    def stopListening(self) -> Deferred[None]:
        """
        Stop accepting; connections live on. Fires when the path is free again.
        """
        if self._stopped is not None:
            return self._stopped
        if not self.connected:
            return succeed(None)
        self.disconnecting = 1
        self.stopReading()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        stopped: Deferred[None] = Deferred()
        self._stopped = stopped
        self._clock.callLater(0, self.connectionLost, Failure(main.CONNECTION_DONE))
        return stopped

    def connectionLost(self, reason: Failure) -> None:
        """The port is closed: free the path and the lock."""
        if not self.connected:
            return
        FileDescriptor.connectionLost(self, reason)
        self._unlinkOurs()
        self._release()
        self._factory.doStop()
        if self._stopped is not None:
            self._stopped.callback(None)

    def _unlinkOurs(self) -> None:
        try:
            status = self._system.lstat(self._path)
            if (status.st_dev, status.st_ino) == self._identity:
                self._system.unlink(self._path)
        except FileNotFoundError:
            pass
        except OSError as problem:
            self._log.warn("socket not removed: {problem}", problem=str(problem))

    def _release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._lock is not None:
            self._system.unlock(self._lock)
            self._lock = None

    # --- description ------------------------------------------------------------------

    def fileno(self) -> int:
        """The socket's descriptor; -1 once closed."""
        return -1 if self._socket is None else self._socket.fileno()

    def getHost(self) -> SeqPacketAddress:
        """Where this port listens."""
        return SeqPacketAddress(self._path)

    def doWrite(self) -> None:
        """Never called: a port only reads."""
        raise RuntimeError("doWrite called on a port")

    def logPrefix(self) -> str:
        """The factory's name."""
        return self._getLogPrefix(self._factory)
