"""
The broker's start, its refusals and its end (`device.md` §16).
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from twisted.application.service import IService, MultiService
from twisted.logger import capturedLogs, formatEvent
from zope.interface.verify import verifyObject

from tests.broker.bench import Bench, answer_to, failure_of, grants, packet
from twisted_aotx.broker.errors import (
    GrantsFileError,
    GrantsRefused,
    SocketUnavailable,
)
from twisted_aotx.errors import ServiceClosed
from twisted_aotx.testing import KernelWorld, MemoryWorld, reply_to
from twisted_aotx.wire.packet import HEADER_BYTES, RequestHeader


def test_nothing_listens_before_the_grants_are_accepted(bench: Bench) -> None:
    """cases B 20: the table first, on channel 0 and as the file is; then the socket."""
    started = bench.service.start()
    published = list(bench.mailboxes.published)
    listening_before = bench.is_listening()

    bench.answer(0, answer_to(published[0][1]))

    assert published == [(0, grants())]
    assert not listening_before
    assert bench.outcome(started) is True
    assert bench.is_listening()
    assert bench.mailboxes.is_free(0)
    assert bench.world.system.lstat(bench.path).st_mode & 0o077 == 0


@pytest.mark.parametrize("status", [400, 403, 429, 202])
def test_refused_grants(bench: Bench, status: int) -> None:
    """Any reply but 200 refuses the start, by its status; no socket."""
    started = bench.service.start()
    header = RequestHeader.unpack(bench.mailboxes.published[0][1][:HEADER_BYTES])
    bench.answer(0, reply_to(header, status))

    refusal = bench.outcome(started)

    assert isinstance(refusal, GrantsRefused)
    assert refusal.status == status
    assert str(refusal) == (
        f"grants file {bench.grants_path}: the device refused it, status {status}"
    )
    assert not bench.is_listening()


def test_silent_device_at_start(memory: MemoryWorld, tmp_path: Path) -> None:
    """No reply in 30 s refuses the start; a later one is dropped."""
    bench = Bench(memory, tmp_path)
    started = bench.service.start()

    memory.reactor.advance(29.9)
    before = bench.outcome(started)
    memory.reactor.advance(0.1)
    refusal = bench.outcome(started)
    bench.answer(0, answer_to(grants()))

    assert before is None
    assert isinstance(refusal, GrantsRefused)
    assert refusal.status is None
    assert "no reply" in str(refusal)
    assert not bench.is_listening()
    assert bench.mailboxes.is_free(0)


def test_bad_grants_file(bench: Bench) -> None:
    """A bad file refuses the start before the device sees anything."""
    bench.write_grants(grants()[:-1])

    refusal = bench.outcome(bench.service.start())

    assert isinstance(refusal, GrantsFileError)
    assert bench.mailboxes.published == []
    assert not bench.is_listening()


def test_path_that_is_no_socket(bench: Bench) -> None:
    """Something else at the path refuses the start and stays."""
    bench.world.put_file(bench.path)
    started = bench.service.start()
    bench.answer(0, answer_to(grants()))

    refusal = bench.outcome(started)

    assert isinstance(refusal, SocketUnavailable)
    assert "not a socket" in str(refusal)
    assert bench.is_listening()


def test_own_stale_socket_is_replaced(bench: Bench) -> None:
    """What a killed runtime left behind is removed, after the table was accepted."""
    dead = bench.world.system.makeSocket()
    bench.world.system.bind(dead, bench.path, 0o600)
    dead.close()
    stale = bench.world.system.lstat(bench.path).st_ino

    started = bench.service.start()
    inode_before = bench.world.system.lstat(bench.path).st_ino
    bench.answer(0, answer_to(grants()))

    assert bench.outcome(started) is True
    assert inode_before == stale
    bench.send(bench.connect(), packet())
    assert bench.mailboxes.published[-1] == (1, packet())


def test_live_socket_is_not_taken_over(serving: Bench, tmp_path: Path) -> None:
    """A second runtime at the same path is refused; the first serves on."""
    second = Bench(serving.world, tmp_path)
    started = second.service.start()
    second.answer(0, answer_to(grants()))

    refusal = second.outcome(started)

    assert isinstance(refusal, SocketUnavailable)
    serving.send(serving.connect(), packet())
    assert serving.mailboxes.published == [(1, packet())]


def test_long_path(tmp_path: Path) -> None:
    """A path over 107 bytes is refused by its length."""
    world = KernelWorld(tmp_path / ("x" * 108))
    bench = Bench(world, tmp_path)
    started = bench.service.start()
    bench.answer(0, answer_to(grants()))

    refusal = bench.outcome(started)

    assert isinstance(refusal, SocketUnavailable)
    assert "at most 107" in str(refusal)


def test_stop(serving: Bench) -> None:
    """Peers are closed, the socket is gone, and stopping again is fine."""
    peer = serving.connect()

    stopped = serving.service.stop()
    serving.world.until(lambda: stopped.called)
    again = serving.service.stop()

    assert serving.read(peer) == b""
    assert not serving.is_listening()
    assert again.called


def test_stop_leaves_no_timer(memory: MemoryWorld, timed: Bench) -> None:
    """Nothing of the broker is left in the reactor."""
    peer = timed.connect()
    timed.send(peer, packet())

    timed.service.stop()
    memory.settle()
    peer.close()

    assert memory.reactor.getDelayedCalls() == []
    assert memory.reactor.readers == set()
    assert memory.system.open_sockets() == 0


def test_stop_while_starting(memory: MemoryWorld, tmp_path: Path) -> None:
    """A start that was stopped fails and does not listen afterwards."""
    bench = Bench(memory, tmp_path)
    started = bench.service.start()

    bench.service.stop()
    bench.answer(0, answer_to(grants()))

    assert isinstance(failure_of(started), ServiceClosed)
    assert not bench.is_listening()
    assert memory.reactor.getDelayedCalls() == []


def test_start_after_the_end(serving: Bench) -> None:
    """A broker that was stopped stays so."""
    serving.service.stop()
    serving.world.settle()

    assert isinstance(serving.outcome(serving.service.start()), ServiceClosed)
    assert serving.mailboxes.published == []


def test_as_a_service(bench: Bench) -> None:
    """A parent service stops it; it is found by its name."""
    parent = MultiService()
    parent.addService(bench.service)
    parent.startService()
    bench.start()

    stopped = parent.stopService()
    bench.world.until(lambda: stopped.called)

    assert verifyObject(IService, bench.service)
    assert parent.getServiceNamed("broker") is bench.service
    assert not bench.is_listening()


def test_log(serving: Bench) -> None:
    """Readiness and breaches are logged by channel and kind, never by content."""
    secret = b"do not log this"
    with capturedLogs() as events:
        for broken in (secret, bytes(65537), packet(1, secret, operation=1)):
            serving.send(serving.connect(), broken)

    logged = [formatEvent(event) for event in events if event["log_level"].name]
    assert [line for line in logged if line.startswith("channel")] == [
        "channel 1 closed: a packet under 128 bytes",
        "channel 1 closed: a packet over 65,536 bytes",
        "channel 1 closed: operation 1",
    ]
    assert secret.decode() not in repr(events)


def test_accept_error_does_not_end_the_service(
    memory: MemoryWorld, timed: Bench
) -> None:
    """A process out of descriptors serves again when it has some."""
    memory.system.faults.accepts.append(errno.EMFILE)

    peer = timed.connect()
    memory.reactor.advance(1)
    timed.send(peer, packet())

    assert timed.mailboxes.published == [(1, packet())]
