"""
The open connections of a site: how many there may be, and until when each must act.

Rules (`http.md` §1):

1. At most `connections` are open. Above that the longest idle kept connection gives
   way; when none is idle, the new one does, without a byte.
2. A connection is kept and idle from the end of its last answer to the first byte of
   its next request. One that never sent a request is neither.
3. Every deadline of one kind has the same length, so one timer per kind serves all
   connections: no timer is made or cancelled for a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from twisted_aotx.seqpacket.deadlines import Deadlines

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from twisted_aotx.gateway.connection import Connection
    from twisted_aotx.gateway.settings import GatewaySettings

#: Seconds that the rest of a body may take after an early answer.
LINGER_SECONDS: Final = 2.0


class Connections:
    """
    Those of one site. As a collection: all whose sockets are open.
    """

    def __init__(self, settings: GatewaySettings, reactor: IReactorTime) -> None:
        self._limit = settings.limits.connections
        #: In the order of their accept.
        self._open: dict[Connection, None] = {}
        #: The longest idle first.
        self._idle: dict[Connection, None] = {}
        #: Those that were told to give way and have not closed yet.
        self._leaving: set[Connection] = set()
        limits = settings.limits
        #: From accept, or the first byte of a request, to the end of its header.
        self.header = Deadlines(reactor, limits.header_seconds, _close)
        #: From the end of an answer to the first byte of the next request.
        self.unused = Deadlines(reactor, settings.idle_seconds, _close)
        #: For the client to take what waits to be written.
        self.write = Deadlines(reactor, limits.write_seconds, _abort)
        #: For the client to end its side after an early answer.
        self.linger = Deadlines(reactor, LINGER_SECONDS, _abort)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        """
        All of them, as they are now: they may close meanwhile.
        """
        return iter(list(self._open))

    @property
    def in_use(self) -> int:
        """
        How many count towards the limit: all but those that give way.
        """
        return len(self._open) - len(self._leaving)

    def admit(self, connection: Connection) -> bool:
        """
        Whether there is room for *connection*, made if need be (rule 1).
        """
        self._open[connection] = None
        if self.in_use <= self._limit:
            return True
        gives_way = next(iter(self._idle), connection)
        self._leaving.add(gives_way)
        self._idle.pop(gives_way, None)
        if gives_way is connection:
            return False
        gives_way.loseConnection()
        return True

    def idle(self, connection: Connection) -> None:
        """
        *connection* was answered and waits for its next request.
        """
        self._idle[connection] = None
        self.unused.start(connection)

    def busy(self, connection: Connection) -> None:
        """
        *connection* is not idle any more.
        """
        self._idle.pop(connection, None)
        self.unused.stop(connection)

    def gone(self, connection: Connection) -> None:
        """
        The socket of *connection* is closed.
        """
        self.busy(connection)
        self._open.pop(connection, None)
        self._leaving.discard(connection)
        for deadlines in (self.header, self.write, self.linger):
            deadlines.stop(connection)

    def change(self, settings: GatewaySettings) -> None:
        """
        Have the deadlines of *settings* from now on, on open connections too.
        """
        self.header.change(settings.limits.header_seconds)
        self.unused.change(settings.idle_seconds)
        self.write.change(settings.limits.write_seconds)

    def close(self) -> None:
        """
        Leave no timer behind: the site is not used any more.
        """
        for deadlines in (self.header, self.unused, self.write, self.linger):
            deadlines.close()


def _close(connection: Connection) -> None:
    connection.loseConnection()


def _abort(connection: Connection) -> None:
    connection.abort()
