"""
`BrokerService`: the socket of the runtime, from grants to listening to the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, succeed
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from twisted_aotx.broker.errors import GrantsRefused, SocketUnavailable
from twisted_aotx.broker.factory import BrokerFactory
from twisted_aotx.broker.grantsfile import read_grants
from twisted_aotx.broker.operator import OPERATOR_CHANNEL, OperatorChannel
from twisted_aotx.devices import IMailboxes
from twisted_aotx.errors import ServiceClosed
from twisted_aotx.limits import ACCEPT_BURST, CONTROL_SECONDS, PEER_IDLE_SECONDS
from twisted_aotx.seqpacket import PacketReactor, SeqPacketPort, System, SystemCalls
from twisted_aotx.wire.numbers import Status
from twisted_aotx.wire.packet import HEADER_BYTES, RequestHeader, split_reply

_log = Logger("aotx.broker")


@attrs.frozen
class Table:
    """
    A grant table by its marks; what is in it, the device knows.
    """

    revision: int
    #: SHA-256 of the file.
    digest: bytes

    @classmethod
    def of(cls, packet: bytes) -> Table:
        """That of a grants file."""
        revision = RequestHeader.unpack(packet[:HEADER_BYTES]).revision
        return cls(revision, hashlib.sha256(packet).digest())


class BrokerService(Service):
    """
    Serves the device's mailboxes at a path.

    `startService` only marks it running: who puts the parts together calls `start` once
    the device ticks and the state directory is locked, and wants to know how it went.
    `stopService` is `stop`.

    Args:
        reactor: serves the connections.
        mailboxes: of a device that ticks.
        socket_path: at most 107 bytes. The caller holds the lock that guards it.
        grants_path: the operator's grant table.
        peer_idle_seconds: after which a peer that does nothing is closed.
        control_seconds: within which the device has to accept the grant table.
        system: what reaches the kernel; tests hand in their own.
    """

    name = "broker"

    def __init__(
        self,
        reactor: PacketReactor,
        mailboxes: IMailboxes,
        *,
        socket_path: str,
        grants_path: str,
        peer_idle_seconds: float = PEER_IDLE_SECONDS,
        control_seconds: float = CONTROL_SECONDS,
        system: SystemCalls | None = None,
    ) -> None:
        self._reactor = reactor
        self._mailboxes = mailboxes
        self._socket_path = socket_path
        self._grants_path = grants_path
        self._system: SystemCalls = system or System()
        self._operator = OperatorChannel(reactor, mailboxes, seconds=control_seconds)
        self._factory = BrokerFactory(
            reactor,
            mailboxes,
            uid=self._system.euid(),
            idle_seconds=peer_idle_seconds,
        )
        self._port: SeqPacketPort | None = None
        self._is_closed = False
        #: One reload at a time.
        self._reloading = DeferredLock()
        #: What the device accepted last; None before the start.
        self.table: Table | None = None

    def start(self) -> Deferred[None]:
        """
        Have the device accept the grants, then bind and listen; nothing listens before.

        Fails with:
            GrantsFileError: the file breaks a rule.
            GrantsRefused: the device did, or did not reply in time.
            SocketUnavailable: the path cannot be listened at.
            ServiceClosed: `stop` was called before or meanwhile.
        """
        return Deferred.fromCoroutine(self._start())

    async def _start(self) -> None:
        if self._is_closed:
            raise ServiceClosed()
        packet = read_grants(self._grants_path)
        # A late 200 is of no use: the process ends with a start that failed.
        self.table = await self._install(packet, lambda _reply: None)
        port = SeqPacketPort(
            self._reactor,
            self._socket_path,
            self._factory,
            backlog=self._mailboxes.channels,
            accept_burst=ACCEPT_BURST,
            lock=False,
            system=self._system,
        )
        try:
            port.startListening()
        except CannotListenError as refused:
            reason = refused.socketError.strerror
            raise SocketUnavailable(self._socket_path, reason) from None
        self._port = port
        _log.info(
            "ready at {path}, {channels} channels for peers",
            path=self._socket_path,
            channels=self._mailboxes.channels - 1,
        )

    def reload(self, late: Callable[[], object]) -> Deferred[Table]:
        """
        Have the device accept the grants file as it is now, then drop every peer.

        A failure changes nothing: the old table stays in force, peers stay. A file
        that holds the table in force is not sent again, and nobody is dropped.

        Args:
            late: Called when the device accepts the table after all, once this has
                failed for want of a reply in time.

        Returns:
            What is in force then.

        Fails with:
            GrantsFileError: the file breaks a rule.
            GrantsRefused: the device did, or did not reply in time.
            ServiceClosed: `stop` was called before or meanwhile, or `start` was not.
        """
        return Deferred.fromCoroutine(self._reload(late))

    async def _reload(self, late: Callable[[], object]) -> Table:
        async with self._reloading:
            if self._port is None or self._is_closed:
                raise ServiceClosed()
            if await self._operator.turn() is None:
                raise GrantsRefused(self._grants_path, None)
            packet = read_grants(self._grants_path)
            if Table.of(packet) == self.table:
                _log.info("the grants file holds the table in force")
                return self.table

            def accepted_late(reply: bytes) -> None:
                if split_reply(reply)[0].status == Status.OK:
                    self._replaced(Table.of(packet))
                    late()

            table = await self._install(packet, accepted_late)
            self._replaced(table)
            return table

    async def _install(self, packet: bytes, late: Callable[[bytes], object]) -> Table:
        """
        Raises:
            GrantsRefused: the reply is not 200, or there is none in time.
        """
        table = Table.of(packet)
        reply = await self._operator.exchange(packet, late)
        status = None if reply is None else split_reply(reply)[0].status
        if status != Status.OK:
            raise GrantsRefused(self._grants_path, status, table.digest)
        return table

    def _replaced(self, table: Table) -> None:
        self.table = table
        dropped = self._factory.drop_peers()
        _log.info(
            "grants of revision {revision} are in force; peers dropped: {dropped}",
            revision=table.revision,
            dropped=dropped,
        )

    def replies_published(self) -> None:
        """
        The device rang: hand out its replies. On the reactor's thread.
        """
        for channel in self._mailboxes.collect():
            if channel == OPERATOR_CHANNEL:
                self._operator.answered()
            else:
                self._factory.answered(channel)

    def stop(self) -> Deferred[None]:
        """
        Close every peer, stop listening and remove the socket. Idempotent.

        Requests in flight run on; their replies are discarded.
        """
        self._is_closed = True
        self._operator.close()
        self._factory.close()
        port, self._port = self._port, None
        if port is None:
            return succeed(None)
        return port.stopListening()

    def stopService(self) -> Deferred[None]:
        """See `stop`."""
        Service.stopService(self)
        return self.stop()
