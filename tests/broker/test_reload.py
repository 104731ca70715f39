"""
Grants replaced while peers are served (`device.md` §2, §16).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from tests.broker.bench import Bench, answer_to, grants, packet
from twisted_aotx.broker.errors import GrantsFileError, GrantsRefused
from twisted_aotx.broker.service import Table
from twisted_aotx.errors import ServiceClosed
from twisted_aotx.seqpacket import PacketSocket
from twisted_aotx.testing import MemoryWorld, reply_to
from twisted_aotx.wire.packet import HEADER_BYTES, RequestHeader

OLD = grants()
NEW = grants(2, revision=2)


class Lateness:
    """Counts how often it is told that a table was accepted late."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def reload(bench: Bench, late: Lateness | None = None) -> Deferred[Table]:
    return bench.service.reload(late or Lateness())


def outcome(bench: Bench, reloading: Deferred[Any]) -> Any:
    """The table, the failure, or None while there is neither."""
    kept: list[Any] = []
    reloading.addCallbacks(kept.append, lambda failure: kept.append(failure.value))
    bench.world.settle()
    return kept[0] if kept else None


def refuse(bench: Bench, status: int) -> None:
    channel, request = bench.mailboxes.published.pop(0)
    header = RequestHeader.unpack(request[:HEADER_BYTES])
    bench.answer(channel, reply_to(header, status))


def is_served(bench: Bench, peer: PacketSocket, mark: int = 7) -> bool:
    """Whether a peer that is connected still gets answers."""
    bench.send(peer, packet(mark))
    bench.answer_next()
    return bench.read(peer) == answer_to(packet(mark))


def test_good_newer_file(serving: Bench) -> None:
    """cases B 35: peers are dropped after the acceptance, not before; and come back."""
    peers = [serving.connect(), serving.connect()]
    serving.write_grants(NEW)
    reloading = reload(serving)
    before = [serving.read(peer) for peer in peers]
    assert serving.mailboxes.published == [(0, NEW)]

    serving.answer_next()

    assert outcome(serving, reloading) == Table.of(NEW)
    assert serving.service.table == Table.of(NEW)
    assert before == [None, None]
    assert [serving.read(peer) for peer in peers] == [b"", b""]
    assert is_served(serving, serving.connect())


def test_every_channel_comes_back(serving: Bench) -> None:
    """The dropped peers' channels serve as many new ones, those in flight later."""
    peers = [serving.connect() for _ in range(3)]
    serving.send(peers[1], packet(1))
    serving.write_grants(NEW)
    reload(serving)
    in_flight = serving.mailboxes.published.pop(0)
    serving.answer_next()

    again = [serving.connect() for _ in range(3)]
    assert [serving.read(peer) for peer in again] == [None, None, b""]
    serving.answer(in_flight[0], answer_to(in_flight[1]))
    serving.world.settle()
    again[2] = serving.connect()

    # The reply of the request in flight went to nobody.
    assert [serving.read(peer) for peer in again] == [None, None, None]
    assert all(is_served(serving, peer, mark) for mark, peer in enumerate(again))


def test_replies_that_ring_with_the_acceptance(serving: Bench) -> None:
    """One ring may bring the acceptance and peers' replies: these are dropped too."""
    peer = serving.connect()
    serving.send(peer, packet(1))
    serving.write_grants(NEW)
    reload(serving)
    (channel, request), (operator, table) = serving.mailboxes.published
    serving.mailboxes.answer(operator, answer_to(table))
    serving.mailboxes.answer(channel, answer_to(request))
    serving.service.replies_published()
    serving.world.settle()

    assert serving.read(peer) == b""
    del serving.mailboxes.published[:]
    assert all(is_served(serving, serving.connect()) for _ in range(3))


def group_writable(path: Path) -> None:
    path.chmod(0o620)


def symlinked(path: Path) -> None:
    real = path.with_name("real")
    path.rename(real)
    path.symlink_to(real)


def foreign(path: Path) -> None:
    os.chown(path, 12345, 12345)


def truncated(path: Path) -> None:
    path.write_bytes(NEW[:-1])


def oversize(path: Path) -> None:
    path.write_bytes(NEW.ljust(65537, b"\0"))


def missing(path: Path) -> None:
    path.unlink()


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.mark.parametrize(
    "spoil",
    [
        group_writable,
        symlinked,
        pytest.param(foreign, marks=AS_ROOT),
        truncated,
        oversize,
        missing,
    ],
)
def test_bad_file(serving: Bench, spoil: Callable[[Path], None]) -> None:
    """cases B 34: the device is not asked, peers stay, and a mended file is taken."""
    peer = serving.connect()
    serving.write_grants(NEW)
    spoil(serving.grants_path)

    refusal = outcome(serving, reload(serving))

    assert isinstance(refusal, GrantsFileError)
    assert serving.mailboxes.published == []
    assert serving.service.table == Table.of(OLD)
    assert is_served(serving, peer)
    serving.write_grants(NEW)
    reloading = reload(serving)
    serving.answer_next()
    assert outcome(serving, reloading) == Table.of(NEW)


@pytest.mark.parametrize("status", [400, 403, 202])
def test_refused_table(serving: Bench, status: int) -> None:
    """`device.md` §16: reply not 200."""
    peer = serving.connect()
    serving.write_grants(NEW)
    reloading = reload(serving)
    refuse(serving, status)

    refusal = outcome(serving, reloading)

    assert isinstance(refusal, GrantsRefused)
    assert (refusal.status, refusal.digest) == (status, Table.of(NEW).digest)
    assert serving.service.table == Table.of(OLD)
    assert is_served(serving, peer)


def test_the_table_in_force(serving: Bench) -> None:
    """The file is what the device has already: nobody is asked, nobody dropped."""
    peer = serving.connect()
    serving.write_grants(OLD)

    assert outcome(serving, reload(serving)) == Table.of(OLD)

    assert serving.mailboxes.published == []
    assert is_served(serving, peer)


def test_same_revision_with_other_rows(serving: Bench) -> None:
    """Only the very same file is spared the device's judgement."""
    serving.write_grants(grants(2))
    reloading = reload(serving)
    refuse(serving, 400)

    assert isinstance(outcome(serving, reloading), GrantsRefused)


def test_silent_device(memory: MemoryWorld, timed: Bench) -> None:
    """No reply in 30 s: refused, and peers stay; a late 200 counts, and drops them."""
    timed.write_grants(NEW)
    late = Lateness()
    results: list[Any] = []
    reload(timed, late).addBoth(results.append)
    memory.reactor.advance(29.9)
    assert results == []
    memory.reactor.advance(0.1)
    peer = timed.connect()
    (failure,) = results
    assert failure.check(GrantsRefused)
    assert failure.value.status is None
    assert "no reply" in str(failure.value)
    assert timed.service.table == Table.of(OLD)
    assert (timed.read(peer), late.count) == (None, 0)

    timed.answer_next()

    assert timed.read(peer) == b""
    assert timed.service.table == Table.of(NEW)
    assert late.count == 1


def test_late_refusal(memory: MemoryWorld, timed: Bench) -> None:
    """A late reply that is not 200 changes nothing."""
    timed.write_grants(NEW)
    late = Lateness()
    reload(timed, late).addErrback(lambda _: None)
    memory.reactor.advance(30)
    peer = timed.connect()
    refuse(timed, 400)
    memory.settle()

    assert late.count == 0
    assert timed.service.table == Table.of(OLD)
    assert is_served(timed, peer)


def test_waits_for_the_exchange_in_progress(serving: Bench) -> None:
    """The second reload begins after the first, with the file as it is then."""
    newest = grants(1, revision=3)
    serving.write_grants(NEW)
    first, second = reload(serving), reload(serving)
    assert serving.mailboxes.published == [(0, NEW)]
    serving.write_grants(newest)

    serving.answer_next()
    assert outcome(serving, first) == Table.of(NEW)
    assert serving.mailboxes.published == [(0, newest)]
    serving.answer_next()

    assert outcome(serving, second) == Table.of(newest)


def test_waits_for_a_late_reply(memory: MemoryWorld, timed: Bench) -> None:
    """A mailbox that the device still has is waited for, 30 s at most."""
    newest = grants(1, revision=3)
    timed.write_grants(NEW)
    reload(timed).addErrback(lambda _: None)
    memory.reactor.advance(30)
    timed.write_grants(newest)

    too_long = reload(timed)
    memory.reactor.advance(30)
    refusal = outcome(timed, too_long)
    waiting = reload(timed)
    memory.reactor.advance(29)
    timed.answer_next()
    assert timed.service.table == Table.of(NEW)
    timed.answer_next()

    assert isinstance(refusal, GrantsRefused)
    assert (refusal.status, refusal.digest) == (None, None)
    assert outcome(timed, waiting) == Table.of(newest)
    assert timed.service.table == Table.of(newest)


def test_stop_meanwhile(memory: MemoryWorld, timed: Bench) -> None:
    """What is under way, what waits and what comes later fail; nothing is left."""
    timed.write_grants(NEW)
    late = Lateness()
    first, second = reload(timed, late), reload(timed, late)

    timed.service.stop()
    memory.settle()

    for reloading in (first, second, reload(timed, late)):
        assert isinstance(outcome(timed, reloading), ServiceClosed)
    timed.answer_next()
    assert late.count == 0
    assert memory.reactor.getDelayedCalls() == []


def test_before_the_start(bench: Bench) -> None:
    assert isinstance(outcome(bench, reload(bench)), ServiceClosed)
    assert bench.mailboxes.published == []


def test_log(serving: Bench) -> None:
    """What is in force, and for how many that was the end; nothing of a row."""
    peers = [serving.connect(), serving.connect()]
    serving.write_grants(NEW)
    with capturedLogs() as events:
        reload(serving)
        serving.answer_next()

    assert [formatEvent(event) for event in events] == [
        f"grants of revision 2 are in force; peers dropped: {len(peers)}"
    ]


def test_many_reloads(serving: Bench) -> None:
    """A hundred replacements with peers in flight leave every channel usable."""
    for revision in range(2, 102):
        peer = serving.connect()
        serving.send(peer, packet(1))
        serving.write_grants(grants(revision % 5, revision=revision))
        reloading = reload(serving)
        serving.answer_next()
        serving.answer_next()
        assert outcome(serving, reloading).revision == revision
        assert serving.read(peer) in (answer_to(packet(1)), b"")

    fresh = [serving.connect() for _ in range(3)]
    assert all(is_served(serving, peer) for peer in fresh)
