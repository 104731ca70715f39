"""
`Watcher`: waits for a request's news over `watch.sock`, one connection for all.

It only ever saves waiting. Where there is no such socket, or no connection yet,
`changed` says so and its caller asks at intervals; and it never waits longer than
`WATCH_CHECK_SECONDS`, so that a lost notice hangs nobody.
"""

from __future__ import annotations

from typing import Final, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IProtocol
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from twisted_aotx.errors import RemoteWireError
from twisted_aotx.limits import WATCH_CHECK_SECONDS, WATCHES_MAX
from twisted_aotx.seqpacket import (
    Deadlines,
    PacketProtocol,
    PacketReactor,
    SeqPacketClientEndpoint,
    SeqPacketConnection,
    SystemCalls,
)
from twisted_aotx.wire.watch import Notice, Watch, join_records, split_records

#: Seconds between two attempts to connect.
RETRY_SECONDS: Final = 5.0
#: Seconds that an attempt may take.
CONNECT_SECONDS: Final = 1.0

#: Principal and request id.
Key = tuple[bytes, bytes]


@attrs.define(eq=False)
class _Waiter:
    """
    Somebody who knows where a request stood.
    """

    key: Key
    epoch: int
    total_bytes: int
    phase: int
    #: Fires with whether there was a notice.
    told: Deferred[bool]


class Watcher:
    """
    Waits for news on behalf of one process.

    Args:
        reactor: serves the connection.
        socket_path: of the runtime's watches (`wire.watch.watch_path`).
        system: what reaches the kernel.
    """

    def __init__(
        self, reactor: PacketReactor, socket_path: str, *, system: SystemCalls
    ) -> None:
        self._reactor = reactor
        self._endpoint = SeqPacketClientEndpoint(
            reactor,
            socket_path,
            timeout=CONNECT_SECONDS,
            serverUid=system.euid(),
            system=system,
        )
        self._checks: Deadlines[_Waiter] = Deadlines(
            reactor, WATCH_CHECK_SECONDS, lambda waiter: self._fire(waiter, False)
        )
        self._waiters: dict[Key, dict[_Waiter, None]] = {}
        self._connection: _Connection | None = None
        self._connecting: Deferred[IProtocol] | None = None
        self._try_at = 0.0
        #: Keys to be watched, sent in the reactor's next turn.
        self._unsent: dict[Key, None] = {}
        self._sending: IDelayedCall | None = None
        self._is_closed = False

    def changed(
        self, principal: bytes, epoch: int, id: bytes, total_bytes: int, phase: int
    ) -> Deferred[bool] | None:
        """
        Wait until the request may stand further than *total_bytes* and *phase*.

        Returns:
            None: nothing is waited for; ask at intervals. Else what fires with True
            when there was a notice, and with False when it is time to look. It may be
            cancelled.
        """
        if self._connection is None:
            self._connect()
        key = principal, id
        if self._connection is None:
            return None
        if key not in self._waiters and len(self._waiters) >= WATCHES_MAX:
            return None
        told: Deferred[bool] = Deferred(lambda _: self._leave(waiter))
        waiter = _Waiter(key, epoch, total_bytes, phase, told)
        self._waiters.setdefault(key, {})[waiter] = None
        self._checks.start(waiter)
        self._unsent[key] = None
        if self._sending is None:
            self._sending = self._reactor.callLater(0, self._send)
        return told

    def close(self) -> None:
        """
        Let everybody look by himself, and connect no more.
        """
        self._is_closed = True
        self._fire_all()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.drop()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        self._checks.close()

    # --- connection -------------------------------------------------------------------

    def _connect(self) -> None:
        now = self._reactor.seconds()
        if self._is_closed or self._connecting is not None or now < self._try_at:
            return
        self._try_at = now + RETRY_SECONDS
        factory = Factory.forProtocol(lambda: _Connection(self))
        factory.noisy = False
        self._connecting = self._endpoint.connect(factory)
        # No socket is how a runtime says that it offers no watches.
        self._connecting.addBoth(self._tried)

    def _tried(self, _result: object) -> None:
        self._connecting = None

    def connected(self, connection: _Connection) -> None:
        """The connection stands."""
        self._connection = connection
        self._try_at = 0.0

    def lost(self, connection: _Connection) -> None:
        """It is gone: everybody looks by himself."""
        self._connection = None
        self._try_at = self._reactor.seconds() + RETRY_SECONDS
        self._fire_all()

    def noticed(self, notice: Notice) -> None:
        """A notice came."""
        key = notice.principal, notice.id
        for waiter in list(self._waiters.get(key, {})):
            self._fire(waiter, True)

    # --- waiters ----------------------------------------------------------------------

    def _send(self) -> None:
        self._sending = None
        unsent, self._unsent = self._unsent, {}
        if self._connection is None:
            return
        # What the one knows who knows least: the others are told too early at worst.
        watches = [
            Watch(
                *key,
                epoch=min(waiter.epoch for waiter in waiters),
                total_bytes=min(waiter.total_bytes for waiter in waiters),
                phase=min(waiter.phase for waiter in waiters),
            )
            for key in unsent
            if (waiters := self._waiters.get(key))
        ]
        for packet in join_records(watches):
            self._connection.sendPacket(packet)

    def _leave(self, waiter: _Waiter) -> None:
        self._checks.stop(waiter)
        waiters = self._waiters.get(waiter.key, {})
        waiters.pop(waiter, None)
        if not waiters:
            self._waiters.pop(waiter.key, None)

    def _fire_all(self) -> None:
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                self._fire(waiter, False)

    def _fire(self, waiter: _Waiter, was_told: bool) -> None:
        self._leave(waiter)
        waiter.told.callback(was_told)


class _Connection(PacketProtocol):
    """
    To the runtime's watches.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def connectionMade(self) -> None:
        self._watcher.connected(self)

    def packetReceived(self, packet: bytes) -> None:
        try:
            notices = split_records(packet, Notice)
        except RemoteWireError:
            # Whatever this is, it offers no watches.
            self.drop()
            return
        for notice in notices:
            self._watcher.noticed(notice)

    def drop(self) -> None:
        """Close, without waiting for anything."""
        cast(SeqPacketConnection, self.transport).abortConnection()

    def connectionLost(self, reason: Failure | None = None) -> None:
        self._watcher.lost(self)
