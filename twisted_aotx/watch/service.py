"""
`WatchService`: the socket, its peers, and what the device tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from twisted_aotx.devices import IProgress
from twisted_aotx.limits import (
    ACCEPT_BURST,
    WATCH_CONNECTIONS_MAX,
    WATCH_FORGET_SECONDS,
)
from twisted_aotx.seqpacket import (
    Deadlines,
    PacketReactor,
    SeqPacketAddress,
    SeqPacketPort,
    System,
    SystemCalls,
)
from twisted_aotx.watch.protocol import WatchProtocol
from twisted_aotx.watch.table import Key, WatchTable
from twisted_aotx.wire.watch import Notice, Watch

_log = Logger("aotx.watch")


class WatchService(Factory):
    """
    Offers the progress of a device's requests at a path.

    A peer is welcome if it runs as this user and fewer than `WATCH_CONNECTIONS_MAX` are
    there. The device is asked to tell only while there is a watch. One that was not
    renewed for `WATCH_FORGET_SECONDS` is over.

    Args:
        reactor: serves the connections.
        progress: of a device that ticks.
        epoch: the device's.
        socket_path: at most 107 bytes. The caller holds the lock that guards it.
        system: what reaches the kernel; tests hand in their own.
    """

    noisy = False

    def __init__(
        self,
        reactor: PacketReactor,
        progress: IProgress,
        *,
        epoch: int,
        socket_path: str,
        system: SystemCalls | None = None,
    ) -> None:
        self._reactor = reactor
        self._progress = progress
        self._epoch = epoch
        self._socket_path = socket_path
        self._system: SystemCalls = system or System()
        self._table: WatchTable[WatchProtocol] = WatchTable(epoch)
        #: In the order of their accept.
        self._peers: dict[WatchProtocol, None] = {}
        self._renewals: Deadlines[tuple[WatchProtocol, Key]] = Deadlines(
            reactor, WATCH_FORGET_SECONDS, self._forget
        )
        self._port: SeqPacketPort | None = None
        self._is_watching = False
        self._is_closed = False

    def start(self) -> None:
        """
        Listen.

        Raises:
            CannotListenError: at that path nobody can.
        """
        port = SeqPacketPort(
            self._reactor,
            self._socket_path,
            self,
            accept_burst=ACCEPT_BURST,
            lock=False,
            system=self._system,
        )
        port.startListening()
        self._port = port

    def stop(self) -> Deferred[None]:
        """
        Close every peer, stop listening and remove the socket. Idempotent.
        """
        self._is_closed = True
        self._renewals.close()
        for peer in list(self._peers):
            peer.close()
        port, self._port = self._port, None
        return succeed(None) if port is None else port.stopListening()

    def progress_published(self) -> None:
        """
        The device rang: tell those who wait for what it tells. On the reactor's thread.
        """
        if not self._is_watching:
            return
        told = self._progress.progress()
        if told is None:
            self._tell(self._table.lost())
        else:
            self._tell(pair for each in told for pair in self._table.progressed(each))

    def buildProtocol(self, addr: IAddress | None) -> WatchProtocol | None:
        """A peer connected; *addr* is a `SeqPacketAddress` with its credentials."""
        credentials = cast(SeqPacketAddress, addr).credentials
        if credentials is None or credentials.uid != self._system.euid():
            _log.warn("a watching peer of another user was closed")
            return None
        if self._is_closed or len(self._peers) >= WATCH_CONNECTIONS_MAX:
            _log.warn("a watching peer was closed: there are enough")
            return None
        peer = WatchProtocol(self)
        self._peers[peer] = None
        return peer

    # --- what peers report ------------------------------------------------------------

    def watch(self, peer: WatchProtocol, watches: Sequence[Watch]) -> None:
        """*peer* begins or renews *watches*."""
        notices = []
        for each in watches:
            if each.epoch == self._epoch:
                self._renew(peer, (each.principal, each.id))
            notice = self._table.watch(peer, each)
            if notice is not None:
                notices.append(notice)
        self._listen()
        peer.tell(notices)

    def lost(self, peer: WatchProtocol) -> None:
        """Its watches are over."""
        self._peers.pop(peer, None)
        for key in self._table.forget_peer(peer):
            self._renewals.stop((peer, key))
        self._listen()

    # --- inside -----------------------------------------------------------------------

    def _renew(self, peer: WatchProtocol, key: Key) -> None:
        over = self._table.make_room(peer, key)
        if over is not None:
            self._renewals.stop((peer, over))
        self._renewals.start((peer, key))

    def _forget(self, watch: tuple[WatchProtocol, Key]) -> None:
        self._table.forget(*watch)
        self._listen()

    def _listen(self) -> None:
        """Have the device tell while there is a watch, before its peer is answered."""
        if self._is_watching != bool(self._table):
            self._is_watching = bool(self._table)
            self._progress.watch(self._is_watching)

    def _tell(self, pairs: Iterable[tuple[WatchProtocol, Notice]]) -> None:
        of_peer: dict[WatchProtocol, list[Notice]] = {}
        for peer, notice in pairs:
            of_peer.setdefault(peer, []).append(notice)
        for peer, notices in of_peer.items():
            peer.tell(notices)
