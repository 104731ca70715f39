"""
`DeviceClient`: the operations of the device as calls (`wire.md` §4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import attrs
from twisted.internet.defer import Deferred

from twisted_aotx.client.pool import Pool
from twisted_aotx.client.replies import InfoReply, Window, checked, hold_to
from twisted_aotx.client.streaming import Changes, packets_of
from twisted_aotx.client.watching import Watcher
from twisted_aotx.errors import InvalidReply, RemoteWireError
from twisted_aotx.seqpacket import (
    PacketReactor,
    SeqPacketClientEndpoint,
    System,
    SystemCalls,
)
from twisted_aotx.wire.info import Information
from twisted_aotx.wire.numbers import Operation, Phase, Status
from twisted_aotx.wire.packet import ReplyHeader, RequestHeader, join
from twisted_aotx.wire.requests import Submission, encode


@attrs.frozen
class Caller:
    """
    On whose behalf the device is asked.
    """

    #: 16 bytes.
    principal: bytes
    #: Grant revision that the caller's configuration knows.
    revision: int


class DeviceClient:
    """
    A client of the device's socket, for any number of principals (`http.md` §3).

    The path must be a socket of this user, and so must be the process behind it. No
    operation is retried. A caller that is cancelled abandons its exchange; what the
    device was asked for may still be done.

    Every call may raise an `ExchangeFailed`:
        PoolFull: no connection became free in *wait_seconds*, or *waiters_max* wait.
        ConnectFailed: no connection, or it was closed before the reply.
        ExchangeTimeout: no reply in *exchange_seconds*.
        ServiceClosed: `close` was called.
    and InvalidReply: what came back is not a reply to what was asked.

    Args:
        reactor: serves the connections.
        socket_path: at most 107 bytes.
        connections_max: connections at once.
        waiters_max: callers that may wait for a connection (D29).
        idle_seconds: after which an unused connection is dropped.
        connect_seconds: within which a connection has to stand.
        exchange_seconds: within which a reply has to come.
        wait_seconds: within which a connection has to become free (D29).
        watch_path: where the runtime offers watches, if it does.
        system: what reaches the kernel; tests hand in their own.
    """

    def __init__(
        self,
        reactor: PacketReactor,
        socket_path: str | bytes,
        *,
        connections_max: int = 64,
        waiters_max: int = 128,
        idle_seconds: float = 10.0,
        connect_seconds: float = 5.0,
        exchange_seconds: float = 15.0,
        wait_seconds: float = 5.0,
        watch_path: str | None = None,
        system: SystemCalls | None = None,
    ) -> None:
        system = system or System()
        self._watcher = (
            None if watch_path is None else Watcher(reactor, watch_path, system=system)
        )
        endpoint = SeqPacketClientEndpoint(
            reactor,
            socket_path,
            timeout=connect_seconds,
            serverUid=system.euid(),
            system=system,
        )
        self._pool = Pool(
            reactor,
            endpoint,
            connections_max=connections_max,
            waiters_max=waiters_max,
            idle_seconds=idle_seconds,
            wait_seconds=wait_seconds,
            exchange_seconds=exchange_seconds,
        )

    @property
    def connections_in_use(self) -> int:
        """
        Connections with an exchange, those being made included.
        """
        return self._pool.in_use

    def close(self) -> Deferred[None]:
        """
        Fail what is under way with ServiceClosed; fires when every connection is gone.
        """
        if self._watcher is not None:
            self._watcher.close()
        return self._pool.close()

    async def exchange(
        self, header: RequestHeader, payload: bytes = b""
    ) -> tuple[ReplyHeader, bytes]:
        """
        Send one request and return the reply, whatever its status.

        Args:
            header: its payload length is filled in here.
            payload: at most 65,408 bytes.

        Raises:
            LocalWireError: the payload is longer; nothing was sent.
        """
        return await self._pool.exchange(
            header.principal, join(header, payload), partial(checked, header)
        )

    async def stream(
        self,
        header: RequestHeader,
        payloads: Iterable[bytes],
        accept: Callable[[ReplyHeader, bytes], object],
        *,
        ahead: int,
    ) -> None:
        """
        Send requests that differ in their payloads only, one after the other on one
        connection, *ahead* of them before the first is answered.

        Args:
            header: of all of them; its payload length is filled in here.
            payloads: of at most 65,408 bytes each.
            accept: gets the replies in order, but none that is the same as the one
                before it; what it raises ends all.
        """

        await self._pool.stream(
            header.principal,
            packets_of(header, payloads),
            Changes(lambda packet: accept(*checked(header, packet))),
            ahead,
        )

    async def info(self, caller: Caller) -> InfoReply:
        """
        What the device offers to *caller*.

        Raises:
            DeviceRefused: 403.
        """
        return await self._information(Operation.INFO, caller)

    async def metrics(self, caller: Caller) -> InfoReply:
        """
        The same with the device's counters.

        Raises:
            DeviceRefused: 403, also without the action telemetry.
        """
        return await self._information(Operation.METRICS, caller)

    async def submit(
        self, caller: Caller, epoch: int, request_id: bytes, submission: Submission
    ) -> ReplyHeader:
        """
        Have *submission* admitted under *request_id*, 16 bytes, not all zero.

        Raises:
            DeviceRefused: 400, 403, 404, 409, 410, 413, 429 or 503.
            LocalWireError: the payload is longer than a packet holds.
        """
        header = submission.header(
            principal=caller.principal,
            revision=caller.revision,
            epoch=epoch,
            id=request_id,
        )
        reply, _ = await self.ask(header, encode(submission), success=Status.ACCEPTED)
        return reply

    async def read(
        self, caller: Caller, epoch: int, request_id: bytes, cursor: int
    ) -> Window:
        """
        Where the request stands, and its output from *cursor* on.

        Raises:
            DeviceRefused: 403, 404, 410, or 409 if *cursor* is beyond the output.
        """
        return await self._window(
            RequestHeader(
                operation=Operation.READ,
                principal=caller.principal,
                revision=caller.revision,
                epoch=epoch,
                id=request_id,
                cursor=cursor,
            )
        )

    async def cancel(self, caller: Caller, epoch: int, request_id: bytes) -> Window:
        """
        Ask for the end of a request; its output from the start. May be repeated.

        Raises:
            DeviceRefused: 403, 404, 410 or 429.
        """
        return await self._window(
            RequestHeader(
                operation=Operation.CANCEL,
                principal=caller.principal,
                revision=caller.revision,
                epoch=epoch,
                id=request_id,
            )
        )

    def changed(
        self, caller: Caller, epoch: int, request_id: bytes, window: Window
    ) -> Deferred[bool] | None:
        """
        Wait until the request may stand further than *window* says; see
        `watching.Watcher.changed`. None also where the runtime offers no watches.
        """
        if self._watcher is None:
            return None
        total, phase = window.reply.total_bytes, window.reply.phase
        return self._watcher.changed(caller.principal, epoch, request_id, total, phase)

    async def _information(self, operation: Operation, caller: Caller) -> InfoReply:
        header = RequestHeader(
            operation=operation, principal=caller.principal, revision=caller.revision
        )
        reply, payload = await self.ask(header)
        try:
            return InfoReply(reply.epoch, Information.unpack(payload))
        except RemoteWireError as broken:
            raise InvalidReply(str(broken)) from None

    async def _window(self, header: RequestHeader) -> Window:
        reply, data = await self.ask(header)
        if reply.phase == Phase.FREE:
            raise InvalidReply("a request without a phase")
        if header.cursor + len(data) > reply.total_bytes:
            raise InvalidReply("more output than there is")
        return Window(reply, data)

    async def ask(
        self,
        header: RequestHeader,
        payload: bytes = b"",
        *,
        success: int = Status.OK,
    ) -> tuple[ReplyHeader, bytes]:
        """
        The same, unless the reply has another status than *success*.

        Raises:
            DeviceRefused: the status is 400 or more.
        """
        reply, data = await self.exchange(header, payload)
        hold_to(header, reply, data, success=success)
        return reply, data
