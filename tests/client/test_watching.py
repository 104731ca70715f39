"""
Waiting for news over one connection, and for nothing where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import Factory

from twisted_aotx.client import watching
from twisted_aotx.client.watching import RETRY_SECONDS, Watcher
from twisted_aotx.limits import WATCH_CHECK_SECONDS
from twisted_aotx.seqpacket import PacketProtocol, SeqPacketPort
from twisted_aotx.testing import MemoryWorld
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wire.watch import Notice, Watch, join_records, split_records

PRINCIPAL, ID, OTHER = b"p" * 16, b"1" * 16, b"2" * 16
EPOCH = 7


class Runtime(Factory):
    """
    Takes watches, and gives the notices that a test says.
    """

    noisy = False

    def __init__(self, world: MemoryWorld, path: bytes) -> None:
        self.world = world
        self.packets: list[list[Watch]] = []
        self.connections: list[Any] = []
        self.port = SeqPacketPort(
            world.reactor, path, self, lock=False, system=world.system
        )
        self.port.startListening()

    def buildProtocol(self, addr: object) -> PacketProtocol:
        made = PacketProtocol()
        made.packetReceived = self.received  # type: ignore[method-assign]
        self.connections.append(made)
        return made

    def received(self, packet: bytes) -> None:
        self.packets.append(split_records(packet, Watch))

    def say(self, *packets: bytes) -> None:
        for packet in packets:
            self.connections[-1].sendPacket(packet)
        self.world.settle()

    def tell(self, *ids: bytes) -> None:
        notices = [Notice(PRINCIPAL, each, EPOCH, 9, Phase.RUNNING) for each in ids]
        self.say(*join_records(notices))


class Bench:
    """
    A watcher, and the runtime that it watches once that listens.
    """

    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.path = self.world.path("watch.sock")
        self.watcher = Watcher(
            self.world.reactor, os.fsdecode(self.path), system=self.world.system
        )

    def listen(self) -> Runtime:
        return Runtime(self.world, self.path)

    def wait(
        self, id: bytes = ID, total: int = 0, phase: int = Phase.RUNNING
    ) -> list[bool] | None:
        """What the wait has come to, so far nothing; None if there is no waiting."""
        told = self.begin(id, total, phase)
        if told is None:
            return None
        results: list[bool] = []
        told.addCallback(results.append)
        self.world.settle()
        return results

    def begin(
        self, id: bytes = ID, total: int = 0, phase: int = Phase.RUNNING
    ) -> Deferred[bool] | None:
        return self.watcher.changed(PRINCIPAL, EPOCH, id, total, phase)

    def advance(self, seconds: float) -> None:
        self.world.reactor.advance(seconds)
        self.world.settle()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.watcher.close()
    made.world.settle()


def test_a_wait_ends_with_its_notice(bench: Bench) -> None:
    runtime = bench.listen()

    one, other = bench.wait(ID, 5, Phase.PREPARING), bench.wait(OTHER)
    runtime.tell(ID)

    assert (one, other) == ([True], [])
    assert runtime.packets[0] == [Watch(PRINCIPAL, ID, EPOCH, 5, Phase.PREPARING)]
    assert len(runtime.connections) == 1


def test_watches_of_one_turn_share_a_packet(bench: Bench) -> None:
    runtime = bench.listen()

    bench.begin(ID)
    bench.begin(OTHER)
    bench.world.settle()

    assert [[watch.id for watch in packet] for packet in runtime.packets] == [
        [ID, OTHER]
    ]


def test_without_a_socket_nobody_waits(bench: Bench) -> None:
    """A runtime that offers no watches; looked for again after a while."""
    assert bench.wait() is None

    bench.listen()
    bench.advance(RETRY_SECONDS - 0.1)
    assert bench.wait() is None
    bench.advance(0.1)
    assert bench.wait() == []


def test_nobody_waits_longer_than_a_check(bench: Bench) -> None:
    bench.listen()
    waiting = bench.wait()

    bench.advance(WATCH_CHECK_SECONDS - 0.01)
    assert waiting == []
    bench.advance(0.01)
    assert waiting == [False]


def test_who_knows_least_is_watched_for(bench: Bench) -> None:
    """Two readers of one request; a notice wakes both."""
    runtime = bench.listen()
    ahead = bench.wait(ID, 9, Phase.RUNNING)
    behind = bench.wait(ID, 5, Phase.RUNNING)
    again = bench.wait(ID, 9, Phase.RUNNING)

    assert [packet[0].total_bytes for packet in runtime.packets] == [9, 5, 5]
    runtime.tell(ID)
    assert (ahead, behind, again) == ([True], [True], [True])


def test_a_cancelled_wait_is_forgotten(bench: Bench) -> None:
    runtime = bench.listen()
    told = bench.begin()
    assert told is not None
    failures: list[Any] = []
    told.addErrback(failures.append)

    told.cancel()
    bench.world.settle()

    assert failures[0].check(CancelledError)
    assert runtime.packets == []
    runtime.tell(ID)
    bench.advance(WATCH_CHECK_SECONDS)
    assert bench.watcher._waiters == {}


def test_a_lost_connection_ends_every_wait(bench: Bench) -> None:
    """The READ that follows tells what became of the runtime."""
    runtime = bench.listen()
    waits = [bench.wait(), bench.wait(OTHER)]

    runtime.connections[0].transport.abortConnection()
    bench.world.settle()

    assert waits == [[False], [False]]
    assert bench.wait() is None
    bench.advance(RETRY_SECONDS)
    assert bench.wait() == []
    assert len(runtime.connections) == 2


@pytest.mark.parametrize("packet", [b"x", b"\0" * 64, b"x" * 64 * 65])
def test_what_speaks_otherwise_is_left(bench: Bench, packet: bytes) -> None:
    runtime = bench.listen()
    waiting = bench.wait()

    runtime.say(packet)

    assert waiting == [False]
    assert bench.wait() is None


def test_notices_that_nobody_waits_for_are_nothing(bench: Bench) -> None:
    runtime = bench.listen()
    bench.wait()

    runtime.tell(OTHER, ID, ID)
    waiting = bench.wait()

    assert waiting == []


def test_the_most_requests_and_not_one_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes later asks at intervals."""
    monkeypatch.setattr(watching, "WATCHES_MAX", 1)
    bench.listen()

    assert bench.wait() == []
    assert bench.wait() == [], "one more for the same request"
    assert bench.wait(OTHER) is None


def test_another_user_is_not_listened_to(bench: Bench) -> None:
    bench.listen()
    bench.world.system.chown(bench.path, bench.world.system.uid + 1)

    assert bench.wait() is None


def test_the_end_leaves_nothing(bench: Bench) -> None:
    runtime = bench.listen()
    waiting = bench.wait()
    bench.begin(OTHER)

    bench.watcher.close()
    bench.world.settle()

    assert waiting == [False]
    assert bench.wait() is None
    assert not runtime.connections[0].transport.connected
    assert bench.world.reactor.getDelayedCalls() == []
