"""
Connections: shared, bounded, waited for in turn, dropped when idle (`http.md` §3, D29).
"""

from __future__ import annotations

from twisted.internet.defer import CancelledError

from tests.client.bench import ALICE, BOB, Bench, Call, read_header
from twisted_aotx.client import Caller, DeviceClient
from twisted_aotx.errors import ConnectFailed, PoolFull, ServiceClosed
from twisted_aotx.testing import MemoryWorld, reply_to


def _marks(bench: Bench) -> list[int]:
    """The cursors of the questions that the peer has not answered."""
    return [request.cursor for request, _ in bench.open]


def test_connection_is_used_again(bench: Bench) -> None:
    """One exchange after the other takes one connection."""
    client = bench.client()

    for mark in range(5):
        call = bench.read(client, mark=mark)
        bench.answer()
        assert call.result[0].cursor == mark

    assert bench.peer.connected == 1


def test_last_in_first_out(bench: Bench) -> None:
    """The connection that was used last is used next."""
    client = bench.client()
    for mark in (1, 2):
        bench.read(client, mark=mark)
    first, second = bench.peer.connections
    bench.answer(1)
    bench.answer(0)

    third = bench.read(client, mark=3)
    second.drop()
    bench.world.settle()
    after_the_other = third.is_done
    first.drop()
    bench.world.settle()

    assert bench.peer.connected == 2
    assert not after_the_other
    assert isinstance(third.failure, ConnectFailed)


def test_idle_connection_is_dropped(memory: MemoryWorld, timed: Bench) -> None:
    """After 10 s without use, not before; use begins them anew."""
    client = timed.client()
    timed.read(client)
    timed.answer()
    memory.reactor.advance(9.9)
    timed.read(client)
    memory.reactor.advance(14)
    timed.answer()

    memory.reactor.advance(9.9)
    before = len(timed.peer.connections)
    memory.reactor.advance(0.1)

    assert before == 1
    assert timed.peer.connections == []
    assert memory.reactor.getDelayedCalls() == []


def test_connection_that_falls_due_serves_nobody(
    memory: MemoryWorld, timed: Bench
) -> None:
    """Who asks between its deadline and its end gets a new one."""
    client = timed.client()
    timed.read(client)
    timed.answer()
    again = timed.peer.requests[0][0]
    calls: list[Call] = []

    # In the same turn, after the deadline and before the connection is gone.
    memory.reactor.callLater(10, lambda: calls.append(Call(client.exchange(again))))
    memory.reactor.advance(10)
    memory.settle()
    timed.answer()

    assert [call.failure for call in calls] == [None]
    assert calls[0].is_done
    assert timed.peer.connected == 2


def test_dropped_by_the_device_while_idle(bench: Bench) -> None:
    """After a reload drops every peer, the next exchange takes a new connection."""
    client = bench.client()
    bench.read(client)
    bench.answer()

    bench.peer.drop_all()
    bench.world.settle()
    call = bench.read(client, mark=1)
    bench.answer()

    assert call.result[0].cursor == 1
    assert bench.peer.connected == 2


def test_dropped_by_the_device_unnoticed(bench: Bench) -> None:
    """A pooled connection that broke unnoticed fails one exchange, no more."""
    client = bench.client()
    bench.read(client)
    bench.answer()

    for connection in list(bench.peer.connections):
        connection.drop()
    call = Call(client.exchange(bench.peer.requests[0][0]))
    bench.world.settle()
    after = bench.read(client, mark=2)
    bench.answer(-1)

    assert isinstance(call.failure, ConnectFailed)
    assert after.result[0].cursor == 2


def test_no_more_than_connections_max(bench: Bench) -> None:
    """Two connections serve five callers, two at a time, in order."""
    client = bench.client(connections_max=2)
    assert client.connections_in_use == 0

    calls = [bench.read(client, mark=mark) for mark in range(5)]
    at_once = _marks(bench)
    assert client.connections_in_use == 2
    order = []
    while bench.open:
        order.append(bench.open[0][0].cursor)
        bench.answer()

    assert at_once == [0, 1]
    assert order == [0, 1, 2, 3, 4]
    assert [call.result[0].cursor for call in calls] == [0, 1, 2, 3, 4]
    assert bench.peer.connected == 2
    assert client.connections_in_use == 0


def test_waiters_are_served_in_turn(bench: Bench) -> None:
    """D29: Bob's first does not wait for all of Alice's."""
    client = bench.client(connections_max=1)
    for mark in range(4):
        bench.read(client, ALICE, mark=mark)
    for mark in (10, 11):
        bench.read(client, BOB, mark=mark)

    order = []
    while bench.open:
        order.append(bench.open[0][0].cursor)
        bench.answer()

    assert order == [0, 1, 10, 2, 11, 3]


def test_wait_is_bounded(memory: MemoryWorld, timed: Bench) -> None:
    """D29: after 5 s without a connection, not before, the pool is full."""
    client = timed.client(connections_max=1)
    first = timed.read(client)
    second = timed.read(client)

    memory.reactor.advance(4.9)
    before = second.is_done
    memory.reactor.advance(0.1)
    timed.answer()

    assert not before
    assert isinstance(second.failure, PoolFull)
    assert first.result is not None
    assert timed.open == []


def test_waiters_are_bounded(bench: Bench) -> None:
    """At the limit callers wait, one past it is refused at once; room comes back."""
    client = bench.client(connections_max=1, waiters_max=2)
    calls = [bench.read(client, mark=mark) for mark in range(3)]

    refused = bench.read(client, mark=3)
    bench.answer()
    again = bench.read(client, mark=4)

    assert isinstance(refused.failure, PoolFull)
    assert calls[0].is_done
    assert not again.is_done
    while bench.open:
        bench.answer()
    assert again.result[0].cursor == 4


def test_cancelled_waiter(bench: Bench) -> None:
    """A caller that gives up waiting is skipped and takes nothing with it."""
    client = bench.client(connections_max=1)
    bench.read(client, mark=0)
    waiting = bench.read(client, mark=1)
    last = bench.read(client, mark=2)

    waiting.cancel()
    bench.answer()
    bench.answer()

    assert isinstance(waiting.failure, CancelledError)
    assert last.result[0].cursor == 2
    assert [request.cursor for request, _ in bench.peer.requests] == [0, 2]


def test_cancelled_exchange_makes_room(bench: Bench) -> None:
    """The waiter behind a cancelled exchange gets a connection of its own."""
    client = bench.client(connections_max=1)
    first = bench.read(client, mark=0)
    second = bench.read(client, mark=1)

    first.cancel()
    bench.world.settle()
    assert [request.cursor for request, _ in bench.open] == [0, 1]
    bench.answer(1)

    assert second.result[0].cursor == 1
    assert bench.peer.connected == 2
    assert len(bench.peer.connections) == 1


def test_failures_do_not_leak_permits(bench: Bench) -> None:
    """Whatever ends an exchange, the next one finds its connection."""
    client = bench.client(connections_max=1)
    for _ in range(3):
        gone = bench.read(client)
        bench.peer.drop_all()
        bench.world.settle()
        assert isinstance(gone.failure, ConnectFailed)
        cancelled = bench.read(client)
        cancelled.cancel()
        bench.world.settle()
    bench.open.clear()

    call = bench.read(client, mark=7)
    bench.answer()

    assert call.result[0].cursor == 7


def test_many_waiters_fail_at_once(memory: MemoryWorld, timed: Bench) -> None:
    """A thousand waiters whose connections all fail do not nest (recursion)."""
    client = timed.client(connections_max=1, waiters_max=1000)
    callers = [Caller(mark.to_bytes(16, "big"), 1) for mark in range(1001)]
    calls = [Call(client.exchange(read_header(caller))) for caller in callers]
    timed.world.settle()
    memory.system.unlink(timed.path)

    timed.peer.drop_all()
    timed.world.settle()

    assert all(isinstance(call.failure, ConnectFailed) for call in calls)


def test_nobody_overtakes_waiters(memory: MemoryWorld, timed: Bench) -> None:
    """A caller that comes back in the moment its exchange fails waits its turn."""
    client = timed.client(connections_max=1)
    timed.read(client)
    order: list[str] = []

    async def insist(name: str) -> None:
        for _ in range(2):
            try:
                await client.exchange(read_header())
            except ConnectFailed:
                order.append(name)

    calls = [timed.call(insist("x")), timed.call(insist("y"))]
    memory.system.unlink(timed.path)
    timed.peer.drop_all()
    memory.settle()

    assert all(call.is_done for call in calls)
    assert order == ["x", "y", "x", "y"]


def test_close(bench: Bench) -> None:
    """Exchanges and waiters fail with ServiceClosed; then nothing is connected."""
    client = bench.client(connections_max=2)
    calls = [bench.read(client, mark=mark) for mark in range(3)]
    bench.answer()
    idle_and_busy = len(bench.peer.connections)

    closed = client.close()
    again = client.close()
    bench.world.until(lambda: closed.called)
    bench.world.settle()

    assert idle_and_busy == 2
    assert again is closed
    assert isinstance(calls[1].failure, ServiceClosed)
    assert isinstance(calls[2].failure, ServiceClosed)
    assert bench.peer.connections == []


def test_close_while_connecting(memory: MemoryWorld, timed: Bench) -> None:
    """A caller whose connection is still being made is told, and no timer is left."""
    listener = memory.system.makeSocket()
    memory.system.bind(listener, timed.path, 0o600)
    listener.listen(0)
    client = DeviceClient(memory.reactor, timed.path, system=memory.system)
    calls = [timed.read(client), timed.read(client)]

    closed = client.close()
    memory.settle()

    assert closed.called
    for call in calls:
        assert isinstance(call.failure, ServiceClosed)
    assert memory.reactor.getDelayedCalls() == []


def test_default_pool(bench: Bench) -> None:
    """64 exchanges at once are 64 connections, which all stand at once."""
    client = bench.client()

    calls = [Call(client.exchange(read_header(mark=mark))) for mark in range(64)]
    waiting = bench.read(client, mark=64)
    connected = bench.peer.connected
    for request, later in list(bench.open):
        later.callback(reply_to(request, phase=3))
    bench.world.settle()
    bench.answer(-1)

    assert connected == 64
    assert [call.result[0].cursor for call in calls] == list(range(64))
    assert waiting.result[0].cursor == 64
    assert bench.peer.connected == 64
