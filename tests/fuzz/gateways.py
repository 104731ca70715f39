"""
A whole gateway in memory, before a broker and a device that are real: one thread, one
clock, one connection of a client.
"""

# What twisted.web leaves without annotations is called from here.
# mypy: allow-untyped-calls

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from tests.broker.whole import REVISION, Whole
from tests.fuzz.harness import demand
from tests.gateway.serving import (
    ALL_ACTIONS,
    MODELS,
    P1,
    P2,
    PRINCIPALS,
    TOKEN,
    TOKEN_2,
    TOKEN_ROTATED,
    digest,
)
from twisted_aotx.gateway.imports_names import Names
from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.gateway.resource import Gateway
from twisted_aotx.gateway.settings import GatewaySettings
from twisted_aotx.gateway.site import GatewaySite, make_site
from twisted_aotx.runtime.jpeg import fault_of
from twisted_aotx.wire.grants import GrantRow

#: What the reference engine says.
TEXT: Final = "said by the engine"
#: Seconds within which whatever a client began is over: a completion, a slow header, a
#: kept connection, one after the other.
PATIENCE_SECONDS: Final = 900
#: Ticks of a millisecond that most answers need at most.
_SOON: Final = 40
#: What no answer and no error may hold, whoever asks.
SECRETS: Final = tuple(
    text
    for token in (TOKEN, TOKEN_ROTATED, TOKEN_2)
    for text in (token.encode(), digest(token), digest(token).hex().encode())
)
_PEER: Final = IPv4Address("TCP", "192.0.2.1", 40000)


class _NoNames(Names):
    """
    A resolver that knows no name.
    """

    async def addresses(self, host: str) -> Sequence[Any]:
        raise refusal(ProblemCode.SOURCE_DNS)


class Wire(StringTransport):
    """
    A client's end of a TCP connection, as bytes: what it sends waits while the gateway
    does not read.
    """

    def __init__(self) -> None:
        super().__init__(peerAddress=_PEER, lenient=True)
        self.protocol: Any = None
        self.half_closed = False
        self._coming: list[bytes] = []

    def loseWriteConnection(self) -> None:
        self.half_closed = True

    @property
    def ended(self) -> bool:
        """Whether the gateway is done with the connection, its own way at least."""
        return self.disconnecting or self.half_closed

    def send(self, data: bytes) -> None:
        self._coming.append(data)
        self.flow()

    def flow(self) -> None:
        """Hand over what the gateway reads."""
        while self._coming and self.producerState == "producing":
            if self.disconnecting:
                self._coming.clear()
                return
            self.protocol.dataReceived(self._coming.pop(0))


class MemoryGateway:
    """
    Everything between a client's bytes and an engine. Made for one input.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aotx-")
        rows = _grant(P1, int(ALL_ACTIONS)), _grant(P2, 16)
        self.whole = Whole(
            Path(self._folder.name), *rows, text=TEXT, modalities=["image", "audio"]
        )
        self.device = self.whole.device
        started = self.whole.broker.start()
        self.whole.step()
        demand(started.called, "the broker did not start")
        self._reactor = self.whole.world.reactor
        settings = GatewaySettings(
            socket=self.whole.path.decode(),
            revision=REVISION,
            models=MODELS,
            principals=PRINCIPALS,
            origins=("https://app.example",),
        )
        self.gateway = Gateway(
            settings,
            self.whole.client,
            self._reactor,
            wall_seconds=lambda: 1_700_000_000.0,
        )
        self.gateway.fetcher.names = _NoNames(self._reactor)
        self.site: GatewaySite = make_site(self.gateway)

    def connect(self) -> Wire:
        wire = Wire()
        wire.protocol = self.site.buildProtocol(_PEER)
        wire.protocol.makeConnection(wire)
        return wire

    def step(self, seconds: float = 0.001) -> None:
        """Time passes; device, media worker and state store do what is to be done."""
        if seconds > 0.001:
            self._reactor.advance(seconds)
            self.whole.now_ns += int(seconds * 1e9)
        self.whole.step()
        for job in self.device.media_jobs():
            data = self.device.source_bytes(
                job.index, job.generation, job.offset, job.size
            )
            decoded = not fault_of(BytesIO(data), job.width, job.height)
            self.device.finish_media(job.worker, decoded)
        for _ in self.device.records():
            self.device.finish_record(True)

    def exchange(self, *pieces: bytes, ends: bool = False, goes: bool = False) -> bytes:
        """
        What is answered to *pieces* on one connection, whose client then waits until
        the gateway ends it or nothing more is to come.

        Args:
            ends: the client ends its side when all is sent.
            goes: it goes then, and reads no answer.
        """
        wire = self.connect()
        for piece in pieces:
            wire.send(piece)
            self._settle(wire, 2)
        if ends and not wire.ended:
            wire.protocol.readConnectionLost()
        if goes:
            self.hang_up(wire)
            return bytes(wire.value())
        self._settle(wire, _SOON)
        seconds = 0.0
        while not self._over(wire):
            demand(seconds < PATIENCE_SECONDS, "a connection that hangs")
            seconds += 1
            self.step(1.0)
            wire.flow()
        self.hang_up(wire)
        return bytes(wire.value())

    def _settle(self, wire: Wire, steps: int) -> None:
        for _ in range(steps):
            if self._over(wire):
                return
            self.step()
            wire.flow()

    def _over(self, wire: Wire) -> bool:
        connection = wire.protocol
        return wire.ended or (connection.idle and not connection._in_header)

    def hang_up(self, wire: Wire) -> None:
        """The client goes, and nothing of it is left."""
        wire.protocol.connectionLost(Failure(ConnectionDone()))
        for _ in range(PATIENCE_SECONDS):
            if not any(self.gateway.budgets.held().values()):
                break
            self.step(1.0)
        held = {name for name, n in self.gateway.budgets.held().items() if n}
        demand(not held, f"held after the client went: {sorted(held)}")
        demand(len(self.site.connections) == 0, "a connection that is still counted")

    def admissions(self) -> int:
        """How many requests the device has ever admitted."""
        return int(self.device.snapshot()["sequence"])

    def close(self) -> None:
        """Nothing is left behind, and every table is whole."""
        broken = self.device.invariants()
        self.site.close()
        self.whole.client.close()
        self.whole.broker.stop()
        self.whole.world.settle()
        self.whole.close()
        self._folder.cleanup()
        demand(not broken, f"invariants: {broken}")


def _grant(principal: bytes, actions: int) -> GrantRow:
    return GrantRow(
        principal=principal,
        revision=REVISION,
        actions=actions,
        models=1 << 2,
        pages=0,
        tokens=64,
        requests=4,
        media=12,
        media_bytes=1 << 19,
    )


def check_secrets(said: bytes) -> None:
    """
    Raises:
        Broken: *said* holds what nobody is to be told.
    """
    demand(not any(secret in said for secret in SECRETS), "a secret in an answer")
