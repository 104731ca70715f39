"""
What the broker's tests share: a grants file, a broker, its mailboxes and raw peers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from twisted_aotx.broker.service import BrokerService
from twisted_aotx.seqpacket import PacketSocket
from twisted_aotx.testing import MemoryMailboxes, World, read_packet, reply_to
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import HEADER_BYTES, RequestHeader, join

PRINCIPAL = bytes(15) + b"\1"


def grants(rows: int = 1, **fields: Any) -> bytes:
    """A grants file of *rows* empty rows."""
    header = {"operation": Operation.GRANTS, "principal": bytes(16), "revision": 1}
    return join(
        RequestHeader(**(header | {"limit": rows} | fields)),  # type: ignore[arg-type]
        bytes(64 * rows),
    )


def packet(mark: int = 0, payload: bytes = b"", *, operation: int = 4) -> bytes:
    """A request whose id holds *mark*."""
    header = RequestHeader(operation, PRINCIPAL, revision=1, id=bytes([mark]) * 16)
    return join(header, payload)


def answer_to(request: bytes, payload: bytes = b"") -> bytes:
    """What a device may answer to *request*."""
    return reply_to(RequestHeader.unpack(request[:HEADER_BYTES]), 200, payload)


class Bench:
    """
    A broker with *channels* channels.
    """

    def __init__(self, world: World, folder: Path, channels: int = 4) -> None:
        self.world = world
        self.mailboxes = MemoryMailboxes(channels)
        self.path = world.path("service.sock")
        self.grants_path = folder / "grants"
        self.write_grants(grants())
        self.service = BrokerService(
            world.reactor,
            self.mailboxes,
            socket_path=os.fsdecode(self.path),
            grants_path=str(self.grants_path),
            system=world.system,
        )

    def write_grants(self, written: bytes) -> None:
        self.grants_path.unlink(missing_ok=True)
        self.grants_path.write_bytes(written)
        self.grants_path.chmod(0o600)

    def outcome(self, started: Deferred[None]) -> Any:
        """What *started* came to: None not yet, True it worked, else its failure."""
        results: list[Any] = []

        def keep(result: Any) -> Any:
            results.append(result)
            return result

        self.world.settle()
        started.addBoth(keep)
        if not results:
            return None
        if isinstance(results[0], Failure):
            started.addErrback(lambda _: None)
            return results[0].value
        return True

    def start(self) -> None:
        """Start with a table that the device accepts."""
        started = self.service.start()
        (channel, request) = self.mailboxes.published.pop()
        self.answer(channel, answer_to(request))
        assert self.outcome(started) is True

    def is_listening(self) -> bool:
        try:
            self.world.system.lstat(self.path)
        except FileNotFoundError:
            return False
        return True

    def answer(self, channel: int, reply: bytes) -> None:
        """The device answers and rings."""
        self.mailboxes.answer(channel, reply)
        self.service.replies_published()

    def answer_next(self, payload: bytes = b"") -> int:
        """Answer the oldest request published; returns its channel."""
        channel, request = self.mailboxes.published.pop(0)
        self.answer(channel, answer_to(request, payload))
        self.world.settle()
        return channel

    # --- peers ------------------------------------------------------------------------

    def connect(self) -> PacketSocket:
        peer = self.world.system.makeSocket()
        assert peer.connect_ex(self.path) == 0
        self.world.settle()
        return peer

    def send(self, peer: PacketSocket, *packets: bytes) -> None:
        for one in packets:
            peer.send(one, 0)
        self.world.settle()

    def read(self, peer: PacketSocket) -> bytes | None:
        """The next packet; b"" if the broker closed, None if there is nothing."""
        try:
            return read_packet(peer)
        except ConnectionResetError:
            return read_packet(peer)


def failure_of(deferred: Deferred[Any]) -> BaseException:
    """What *deferred* has failed with."""
    failures: list[Failure] = []
    deferred.addErrback(failures.append)
    assert failures, "it has not failed"
    reason = failures[0].value
    assert reason is not None
    return reason
