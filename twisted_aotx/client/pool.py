"""
Connections to the device, one exchange at a time on each, last in first out.

A caller needs one of `connections_max` permits, then takes the connection that was used
last, or makes one. Idle connections plus permits in use never exceed `connections_max`,
because one is made only when none is idle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IProtocol

from twisted_aotx.client.connection import Connection, Connections
from twisted_aotx.client.turns import Turns
from twisted_aotx.errors import (
    ConnectFailed,
    ExchangeTimeout,
    PoolFull,
    ServiceClosed,
)
from twisted_aotx.seqpacket import (
    Deadlines,
    PacketReactor,
    SeqPacketClientEndpoint,
)

Result = TypeVar("Result")


class Pool:
    """
    Hands out connections and takes them back.
    """

    def __init__(
        self,
        reactor: PacketReactor,
        endpoint: SeqPacketClientEndpoint,
        *,
        connections_max: int,
        waiters_max: int,
        idle_seconds: float,
        wait_seconds: float,
        exchange_seconds: float,
    ) -> None:
        self._endpoint = endpoint
        self._factory = Connections(self._connection_lost)
        self._connections_max = self._permits = connections_max
        self._turns: Turns[Deferred[None]] = Turns(waiters_max)
        self._granting = False
        #: Connections without an exchange, the one used last at the end.
        self._idle: dict[Connection, None] = {}
        #: In order: a run that is played again closes them as it did before.
        self._open: dict[Connection, None] = {}
        self._connecting: dict[Deferred[IProtocol], None] = {}
        self._idle_deadlines = Deadlines[Connection](
            reactor, idle_seconds, self._unused
        )
        self._exchange_deadlines = Deadlines[Connection](
            reactor, exchange_seconds, _timed_out
        )
        self._wait_deadlines = Deadlines[tuple[bytes, Deferred[None]]](
            reactor, wait_seconds, self._waited_out
        )
        self._closed: Deferred[None] | None = None

    @property
    def in_use(self) -> int:
        """
        Permits that are taken.
        """
        return self._connections_max - self._permits

    async def exchange(
        self, principal: bytes, packet: bytes, accept: Callable[[bytes], Result]
    ) -> Result:
        """
        Send *packet* on a connection of the pool; return what *accept* makes of the
        reply. The connection is dropped unless that worked.

        Raises:
            ExchangeFailed: one of its kinds.
        """

        async def use(connection: Connection) -> Result:
            return accept(await connection.exchange(packet))

        return await self._use(principal, use)

    async def stream(
        self,
        principal: bytes,
        packets: Iterator[bytes],
        accept: Callable[[bytes], object],
        ahead: int,
    ) -> None:
        """
        Send *packets* on one connection, at most *ahead* of them unanswered, and hand
        the replies to *accept*, each of which has the time of an exchange. The
        connection is dropped unless all of that worked.

        Raises:
            ExchangeFailed: one of its kinds.
        """

        async def use(connection: Connection) -> None:
            def take(packet: bytes) -> None:
                self._exchange_deadlines.start(connection)
                accept(packet)

            await connection.stream(packets, take, ahead)

        await self._use(principal, use)

    async def _use(
        self, principal: bytes, use: Callable[[Connection], Awaitable[Result]]
    ) -> Result:
        await self._permit(principal)
        connection = None
        healthy = False
        try:
            connection = self._take_idle() or await self._connect()
            self._exchange_deadlines.start(connection)
            result = await use(connection)
            healthy = True
            return result
        finally:
            # A caller that was cancelled comes through here too: its connection still
            # expects a reply and must not be used again.
            if connection is not None:
                self._exchange_deadlines.stop(connection)
                self._put_back(connection, healthy=healthy)
            self._permits += 1
            self._grant()

    def close(self) -> Deferred[None]:
        """
        Fail what is under way and close; fires when no connection is left.
        """
        if self._closed is None:
            self._closed = Deferred()
            while (waiter := self._turns.take()) is not None:
                waiter.errback(ServiceClosed())
            for attempt in list(self._connecting):
                attempt.cancel()
            for connection in list(self._open):
                connection.fail(ServiceClosed())
            for deadlines in (
                self._idle_deadlines,
                self._exchange_deadlines,
                self._wait_deadlines,
            ):
                deadlines.close()
            self._finish_close()
        return self._closed

    # --- permits ----------------------------------------------------------------------

    async def _permit(self, principal: bytes) -> None:
        if self._closed is not None:
            raise ServiceClosed()
        if self._permits and not self._turns:
            self._permits -= 1
            return
        waiter: Deferred[None] = Deferred()
        if not self._turns.add(principal, waiter):
            raise PoolFull("too many callers wait for a connection")
        self._wait_deadlines.start((principal, waiter))
        try:
            await waiter
        finally:
            self._turns.remove(principal, waiter)
            self._wait_deadlines.stop((principal, waiter))

    def _waited_out(self, waiting: tuple[bytes, Deferred[None]]) -> None:
        principal, waiter = waiting
        self._turns.remove(principal, waiter)
        waiter.errback(PoolFull("no connection became free in time"))

    def _grant(self) -> None:
        if self._granting:
            return  # the loop below goes on; a chain of failures must not nest
        self._granting = True
        try:
            while self._permits and (waiter := self._turns.take()) is not None:
                self._permits -= 1
                waiter.callback(None)
        finally:
            self._granting = False

    # --- connections ------------------------------------------------------------------

    def _take_idle(self) -> Connection | None:
        if not self._idle:
            return None
        connection, _ = self._idle.popitem()
        self._idle_deadlines.stop(connection)
        return connection

    def _put_back(self, connection: Connection, *, healthy: bool) -> None:
        if healthy and self._closed is None and connection in self._open:
            self._idle[connection] = None
            self._idle_deadlines.start(connection)
        else:
            connection.drop()

    def _unused(self, connection: Connection) -> None:
        # Now: its end is told in a later turn, and until then somebody could take it.
        self._idle.pop(connection, None)
        connection.drop()

    async def _connect(self) -> Connection:
        attempt = self._endpoint.connect(self._factory)
        self._connecting[attempt] = None
        try:
            connection = await attempt
        except ConnectError as refused:
            raise ConnectFailed(f"no connection to the device: {refused}") from None
        except CancelledError:
            if self._closed is None:
                raise
            raise ServiceClosed() from None
        finally:
            self._connecting.pop(attempt, None)
        assert isinstance(connection, Connection)
        self._open[connection] = None
        return connection

    def _connection_lost(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._idle.pop(connection, None)
        self._idle_deadlines.stop(connection)
        self._finish_close()

    def _finish_close(self) -> None:
        if self._closed is not None and not self._open and not self._closed.called:
            self._closed.callback(None)


def _timed_out(connection: Connection) -> None:
    connection.fail(ExchangeTimeout())
