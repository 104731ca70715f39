"""
Operation 12 asked for by a client that knows only `wire.md` (`device.md` §14).

The runtime is in this process, so that a test can hold it; its peers are threads.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from tests.asynchronous import asynchronous
from tests.endtoend.by_hand import (
    ERROR,
    PAUSE,
    PAUSED,
    QUIET,
    RESUME,
    REVIEW_OFF,
    REVIEW_ON,
    STOP,
    STOPPED,
    Connection,
    Frame,
    Reply,
    grants,
)
from tests.endtoend.replacing import WatchedRuntime
from tests.processes import make_state
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.runtime import load_runtime

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CLIENTS = 32
#: Races in step, and writes of each client that races on its own.
ROUNDS = 5
WRITES = 4

MANAGER = b"m" * 16
READER = b"r" * 16
BOTH = b"b" * 16
CALLER = b"c" * 16
ACTIONS = {MANAGER: 128, READER: 8, BOTH: 136, CALLER: 1 | 2 | 4 | 16 | 32 | 64}

_T = TypeVar("_T")


@attrs.frozen
class Peer:
    """
    A connection and what it knows of the runtime.
    """

    connection: Connection
    revision: int
    epoch: int

    def frame(self, **fields: Any) -> Frame:
        plain = {"principal": MANAGER, "revision": self.revision}
        return Frame(**{**plain, **fields})

    def writing(self, action: int, expected: int, **fields: Any) -> Frame:
        plain = {"is_write": True, "epoch": self.epoch}
        return self.frame(**{**plain, "action": action, "expected": expected, **fields})

    def ask(self, frame: Frame) -> Reply:
        return self.connection.ask(frame)

    def read(self, **fields: Any) -> Reply:
        return self.ask(self.frame(**fields))

    def write(self, action: int, expected: int, **fields: Any) -> Reply:
        return self.ask(self.writing(action, expected, **fields))


@attrs.frozen
class Running:
    """
    A runtime and where its socket is.
    """

    runtime: WatchedRuntime
    state: Path

    @contextmanager
    def peer(self) -> Iterator[Peer]:
        """A peer that has asked for the epoch; in a thread."""
        connection = Connection(self.state / "service.sock")
        try:
            asked = Frame(principal=MANAGER, revision=1)
            yield Peer(connection, 1, connection.ask(asked).epoch)
        finally:
            connection.close()

    async def have(self, what: Callable[[Peer], _T]) -> _T:
        """Do *what* with a peer in a thread."""

        def work() -> _T:
            with self.peer() as peer:
                return what(peer)

        result: _T = await deferToThread(work)
        return result


@asynccontextmanager
async def running(state: Path) -> AsyncIterator[Running]:
    runtime = WatchedRuntime(reactor, load_runtime(state / "runtime.json"))
    await runtime.start(pytest.fail)
    try:
        yield Running(runtime, state)
    finally:
        await runtime.stop()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = make_state(tmp_path)
    replace_file(state / "grants", grants(1, ACTIONS))
    return state


#: Of a write, in the order of the checks: what breaks one, and the answer.
VIOLATIONS: list[tuple[str, int, dict[str, Any]]] = [
    ("header", 400, {"flags": 1}),
    ("grant", 403, {"revision": 2}),
    ("shape", 400, {"words": (0, 0, 1, 0)}),
    ("permission", 403, {"principal": CALLER}),
    ("id", 400, {"id": bytes(15) + b"\1"}),
    ("cursor", 400, {"cursor": 1}),
    ("length", 400, {"surplus": b"\0"}),
    ("schema", 400, {"schema": 2}),
    ("action", 400, {"action": 6}),
    ("epoch", 410, {"epoch": 99}),
    ("hold", 429, {}),
    ("revision", 409, {"expected": 99}),
]


def check_order(peer: Peer, held: bool) -> None:
    """Each violation alone, each pair, and each with all that come after it."""
    known = [each for each in VIOLATIONS if held or each[0] != "hold"]
    broken = [
        *combinations(known, 1),
        *combinations(known, 2),
        *(tuple(known[n:]) for n in range(len(known))),
    ]
    for some in broken:
        if held and all(each[0] != "hold" for each in some):
            some = tuple(sorted([*some, known[-2]], key=known.index))
        fields = {k: v for _, _, each in some for k, v in each.items()}
        answer = peer.write(**{"action": REVIEW_ON, "expected": 1, **fields})
        assert answer.status == some[0][1], [name for name, *_ in some]
        if some[0][0] != "header":
            assert answer.epoch == peer.epoch


@asynchronous
async def test_checks_of_a_write_in_their_order(state: Path) -> None:
    """`device.md` §3, §14; nothing that was refused has changed anything."""
    async with running(state) as service:
        device = service.runtime.device
        before = await service.have(Peer.read)
        assert (before.state, before.review, before.revision) == (QUIET, 0, 1)

        await service.have(lambda peer: check_order(peer, held=False))
        device.set_hold(True)
        await service.have(lambda peer: check_order(peer, held=True))
        held = await service.have(Peer.read)
        device.set_hold(False)

        after = await service.have(Peer.read)
        # But for the clock nothing is told that could have changed.
        assert held.packet[128:248] == before.packet[128:248]
        assert after.packet == before.packet
        assert (await service.have(lambda peer: peer.write(PAUSE, 1))).status == 200


#: Of a read: what it is made with, and the answer.
READS: list[tuple[dict[str, Any], int]] = [
    ({"principal": READER}, 200),
    ({"principal": MANAGER}, 200),
    ({"principal": BOTH}, 200),
    ({"principal": CALLER}, 403),
    ({"principal": CALLER, "epoch": 1}, 403),
    ({"principal": b"x" * 16}, 403),
    ({"epoch": 1}, 400),
    ({"id": b"\1" + bytes(15)}, 400),
    ({"cursor": 1 << 63}, 400),
    ({"words": (1, 0, 0, 0)}, 400),
    ({"surplus": b"12345678"}, 400),
    # With 16 bytes it is a write.
    ({"principal": READER, "is_write": True, "action": PAUSE, "expected": 1}, 403),
]


@asynchronous
async def test_who_may_read_and_write(state: Path) -> None:
    """cases L 170, as the device judges: 8 or 128 reads, 128 alone writes."""
    async with running(state) as service:

        def work(peer: Peer) -> None:
            for fields, status in READS:
                assert peer.read(**fields).status == status, fields
            expected = 1
            for principal, mask in ACTIONS.items():
                answer = peer.write(PAUSE, expected, principal=principal)
                assert answer.status == (200 if mask & 128 else 403)
                expected += answer.status == 200

        await service.have(work)


@asynchronous
async def test_a_write_advances_the_revision_by_one(state: Path) -> None:
    """cases L 172: replayed 409, another epoch 410, held 429."""
    async with running(state) as service:

        def work(peer: Peer) -> None:
            accepted = peer.write(PAUSE, 1)
            assert (accepted.status, accepted.state, accepted.revision) == (
                *(200, PAUSED, 2),
            )
            assert peer.write(PAUSE, 1).status == 409
            assert peer.write(PAUSE, 2, epoch=peer.epoch + 1).status == 410
            # Repeating an action counts, too.
            assert peer.write(PAUSE, 2).revision == 3
            told = [
                (answer.status, answer.state, answer.review, answer.revision)
                for answer in (
                    peer.write(REVIEW_ON, 3),
                    peer.write(STOP, 4),
                    peer.write(RESUME, 5),
                    peer.write(REVIEW_OFF, 6),
                )
            ]
            assert told == [
                (200, PAUSED, 1, 4),
                (200, STOPPED, 1, 5),
                (200, QUIET, 1, 6),
                (200, QUIET, 0, 7),
            ]
            service.runtime.device.set_hold(True)
            assert peer.write(PAUSE, 7).status == 429
            service.runtime.device.set_hold(False)
            assert peer.read().revision == 7

        await service.have(work)


@asynchronous
async def test_controls_survive_a_restart_and_the_epoch_does_not(state: Path) -> None:
    """cases L 173."""
    async with running(state) as service:

        def stop(peer: Peer) -> int:
            assert peer.write(REVIEW_ON, 1).status == 200
            assert peer.write(STOP, 2).status == 200
            return peer.epoch

        epoch = await service.have(stop)
    async with running(state) as service:

        def resume(peer: Peer) -> None:
            assert peer.epoch == epoch + 1
            found = peer.read()
            assert (found.state, found.review, found.revision) == (STOPPED, 1, 3)
            assert peer.write(RESUME, 3, epoch=epoch).status == 410
            resumed = peer.write(RESUME, 3)
            assert (resumed.state, resumed.review, resumed.revision) == (QUIET, 1, 4)

        await service.have(resume)


def damage(state: Path, statement: str) -> None:
    with closing(sqlite3.connect(state / "state.sqlite3")) as connection:
        connection.execute(statement)
        connection.commit()


@asynchronous
async def test_in_state_error_only_pause_and_stop(state: Path) -> None:
    """cases L 172."""
    async with running(state) as service:
        assert (await service.have(lambda peer: peer.write(PAUSE, 1))).status == 200
    damage(state, "UPDATE policy SET review = 7")
    async with running(state) as service:

        def work(peer: Peer) -> None:
            found = peer.read()
            assert found.state == ERROR
            for action in (RESUME, REVIEW_ON, REVIEW_OFF):
                assert peer.write(action, found.revision).status == 409
            for count, action in enumerate((PAUSE, STOP, PAUSE)):
                accepted = peer.write(action, found.revision + count)
                assert (accepted.status, accepted.state, accepted.revision) == (
                    *(200, ERROR, found.revision + count + 1),
                )

        await service.have(work)


@asynchronous
async def test_the_highest_revision_takes_no_write(state: Path) -> None:
    """`device.md` §14: a counter at its maximum answers 409."""
    async with running(state) as service:
        assert (await service.have(lambda peer: peer.write(PAUSE, 1))).status == 200
    # As the store writes 2^64 - 2.
    damage(state, "UPDATE policy SET control_revision = -2")
    async with running(state) as service:

        def work(peer: Peer) -> None:
            highest = (1 << 64) - 1
            assert peer.write(RESUME, highest - 1).revision == highest
            for action in (PAUSE, RESUME, STOP, REVIEW_ON, REVIEW_OFF):
                assert peer.write(action, highest).status == 409
            assert peer.read().revision == highest

        await service.have(work)


@attrs.define
class Racers:
    """
    Clients, each in a thread with a connection of its own.
    """

    service: Running
    #: The revisions that were expected by writes that were accepted.
    wins: list[int] = attrs.field(factory=list)
    together: threading.Barrier = attrs.field(
        factory=lambda: threading.Barrier(CLIENTS, timeout=30)
    )

    def one(self, index: int) -> None:
        """In step with the others, then at its own pace."""
        with self.service.peer() as peer:
            for count in range(ROUNDS):
                self.together.wait()
                self._write(peer, index, 1 + count)
                self.together.wait()
            for _ in range(WRITES):
                self._write(peer, index, peer.read().revision)

    def _write(self, peer: Peer, index: int, expected: int) -> None:
        answer = peer.write(1 + index % 5, expected)
        assert answer.status in (200, 409)
        if answer.status == 200:
            assert answer.revision == expected + 1
            self.wins.append(expected)


@asynchronous
async def test_exactly_one_of_32_clients_wins_each_revision(state: Path) -> None:
    async with running(state) as service:
        racers = Racers(service)

        def race() -> None:
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(racers.one, range(CLIENTS)))

        await deferToThread(race)

        final = (await service.have(Peer.read)).revision
        assert final >= 1 + ROUNDS + WRITES
        assert sorted(racers.wins) == list(range(1, final))
