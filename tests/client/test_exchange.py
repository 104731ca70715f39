"""
One exchange: what comes back, and what may go wrong (`http.md` §3, `wire.md` §3).
"""

from __future__ import annotations

import errno
from typing import Any

import pytest
from twisted.internet.defer import CancelledError

from tests.client.bench import ALICE, BOB, ID, Bench, read_header
from tests.wire.samples import INFORMATION
from twisted_aotx.client import Window
from twisted_aotx.errors import (
    ConnectFailed,
    DeviceRefused,
    ExchangeTimeout,
    InvalidReply,
    LocalWireError,
    ServiceClosed,
)
from twisted_aotx.testing import MemoryWorld, reply_to
from twisted_aotx.wire.numbers import Operation
from twisted_aotx.wire.packet import PAYLOAD_BYTES_MAX, RequestHeader
from twisted_aotx.wire.requests import Message, Submission, TextPart, decode

SUBMISSION = Submission(
    role=2,
    limit=16,
    temperature=0.5,
    top_p=1.0,
    messages=(Message(1, (TextPart(b"hello"),)),),
    selector=bytes(48),
)


def test_any_status_is_a_reply(bench: Bench) -> None:
    """exchange hands out refusals like results."""
    client = bench.script(lambda request, _: reply_to(request, 429, b"because"))

    call = bench.call(client.exchange(read_header(), b"payload"))

    reply, payload = call.result
    assert (reply.status, payload) == (429, b"because")
    sent, sent_payload = bench.peer.requests[0]
    assert (sent.cursor, sent_payload) == (0, b"payload")


def test_largest_payloads(bench: Bench) -> None:
    """65,408 bytes go out and come back; one more is refused, nothing is sent."""
    client = bench.script(lambda request, payload: reply_to(request, 200, payload))
    largest = b"x" * PAYLOAD_BYTES_MAX

    call = bench.call(client.exchange(read_header(), largest))
    refused = bench.call(client.exchange(read_header(), largest + b"x"))

    assert call.result[1] == largest
    assert isinstance(refused.failure, LocalWireError)
    assert len(bench.peer.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda good: good[:127], id="short"),
        pytest.param(lambda good: good[:-1], id="cut"),
        pytest.param(lambda good: good + b"x", id="longer than it says"),
        pytest.param(lambda good: b"X" + good[1:], id="magic"),
        pytest.param(lambda good: good[:16] + b"\xff" + good[17:], id="principal"),
        pytest.param(lambda good: good[:32] + b"\xff" + good[33:], id="revision"),
        pytest.param(lambda good: good[:48] + b"\xff" + good[49:], id="id"),
        pytest.param(lambda good: good[:8] + b"\0\0" + good[10:], id="status 0"),
    ],
)
def test_not_a_reply(bench: Bench, answer: Any) -> None:
    """What does not answer the request is an invalid reply, and its connection goes."""
    client = bench.script(
        lambda request, _: answer(reply_to(request, 200, b"data", total_bytes=4))
    )

    call = bench.call(client.exchange(read_header()))

    assert isinstance(call.failure, InvalidReply)
    assert bench.peer.connections == []


def test_closed_instead_of_a_reply(bench: Bench) -> None:
    """A device that closes is a failed connection; nothing is tried again."""
    client = bench.script(lambda request, _: b"")

    call = bench.call(client.exchange(read_header()))

    assert isinstance(call.failure, ConnectFailed)
    assert len(bench.peer.requests) == 1


def test_nobody_listens(bench: Bench) -> None:
    """No socket, and a dead one."""
    client = bench.client()
    assert bench.port is not None
    stopped = bench.port.stopListening()
    bench.world.until(lambda: stopped.called)

    missing = bench.read(client)
    dead = bench.world.system.makeSocket()
    bench.world.system.bind(dead, bench.path, 0o600)
    dead.close()
    refused = bench.read(client)

    assert isinstance(missing.failure, ConnectFailed)
    assert isinstance(refused.failure, ConnectFailed)


def test_path_of_another_user(memory: MemoryWorld, timed: Bench) -> None:
    """A socket that is not ours is never spoken to."""
    client = timed.client()
    memory.system.chown(timed.path, 7)

    call = timed.read(client)

    assert isinstance(call.failure, ConnectFailed)
    assert timed.peer.connected == 0


def test_send_that_fails(memory: MemoryWorld, timed: Bench) -> None:
    """A packet that cannot be sent whole fails its exchange at once."""
    client = timed.client()
    memory.system.faults.sends.append(errno.EIO)

    call = timed.read(client)

    assert isinstance(call.failure, ConnectFailed)
    assert timed.peer.connections == []


def test_no_reply_in_time(memory: MemoryWorld, timed: Bench) -> None:
    """15 s after the question it is given up, not before; the connection is closed."""
    client = timed.client()
    call = timed.read(client)

    memory.reactor.advance(14.9)
    before = call.is_done
    memory.reactor.advance(0.1)

    assert not before
    assert isinstance(call.failure, ExchangeTimeout)
    assert timed.peer.connections == []


def test_server_that_accepts_nobody(memory: MemoryWorld, timed: Bench) -> None:
    """A connection has to stand within 5 s."""
    listener = memory.system.makeSocket()
    memory.system.bind(listener, timed.path, 0o600)
    listener.listen(0)
    timed.port = timed.peer.listen(memory.reactor, "/run/other", system=memory.system)
    client = timed.client(connect_seconds=5.0)
    first = timed.read(client)
    second = timed.read(client)

    memory.reactor.pump([0.1] * 49)
    before = second.is_done
    memory.reactor.pump([0.1] * 2)

    assert not first.is_done
    assert not before
    assert isinstance(second.failure, ConnectFailed)


def test_cancelled_exchange(bench: Bench) -> None:
    """A caller that goes away closes its connection; the late reply is nobody's."""
    client = bench.client()
    call = bench.read(client, mark=1)

    call.cancel()
    bench.world.settle()
    connections = list(bench.peer.connections)
    after = bench.read(client, mark=2)
    bench.answer(1)

    assert isinstance(call.failure, CancelledError)
    assert connections == []
    assert after.result[0].cursor == 2


def test_unsolicited_packet(bench: Bench) -> None:
    """A peer that speaks without being asked loses the connection."""
    client = bench.client()
    bench.read(client)
    bench.answer()

    bench.peer.connections[0].sendPacket(b"anyone there?")
    bench.world.settle()

    assert bench.peer.connections == []


def test_info(bench: Bench) -> None:
    """INFO and METRICS return the epoch and what the device offers."""
    client = bench.script(
        lambda request, _: reply_to(request, 200, INFORMATION.pack(), epoch=9)
    )

    info = bench.call(client.info(ALICE)).result
    metrics = bench.call(client.metrics(BOB)).result

    assert info.epoch == metrics.epoch == 9
    assert info.information == INFORMATION
    operations = [request.operation for request, _ in bench.peer.requests]
    assert operations == [Operation.INFO, Operation.METRICS]
    assert bench.peer.requests[1][0].principal == BOB.principal


def test_broken_information(bench: Bench) -> None:
    """INFO that breaks a rule is an invalid reply."""
    packed = INFORMATION.pack()
    client = bench.script(lambda request, _: reply_to(request, 200, packed[:-1]))

    call = bench.call(client.info(ALICE))

    assert isinstance(call.failure, InvalidReply)


def test_submit(bench: Bench) -> None:
    """SUBMIT carries the submission; 202 is success."""
    client = bench.script(lambda request, _: reply_to(request, 202, phase=1, epoch=5))

    reply = bench.call(client.submit(ALICE, 5, ID, SUBMISSION)).result

    header, payload = bench.peer.requests[0]
    assert (header.operation, header.epoch, header.id) == (3, 5, ID)
    assert (header.principal, header.revision) == (ALICE.principal, 3)
    assert decode(header, payload) == SUBMISSION
    assert (reply.status, reply.phase, reply.epoch) == (202, 1, 5)


def test_read_and_cancel(bench: Bench) -> None:
    """READ asks from a cursor, CANCEL from the start; both return a window."""
    client = bench.script(
        lambda request, _: reply_to(
            request, 200, b"output"[request.cursor :], phase=3, total_bytes=6
        )
    )

    window = bench.call(client.read(ALICE, 5, ID, 2)).result
    cancelled = bench.call(client.cancel(ALICE, 5, ID)).result

    assert isinstance(window, Window)
    assert window.data == b"tput"
    assert window.reply.total_bytes == 6
    assert cancelled.data == b"output"
    headers = [request for request, _ in bench.peer.requests]
    assert [(one.operation, one.cursor, one.epoch, one.id) for one in headers] == [
        (Operation.READ, 2, 5, ID),
        (Operation.CANCEL, 0, 5, ID),
    ]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 413, 429, 503])
def test_refusal(bench: Bench, status: int) -> None:
    """A refusal carries operation, status, payload and header; the connection stays."""
    client = bench.script(lambda request, _: reply_to(request, status, b"x", phase=3))

    for call in (
        bench.call(client.info(ALICE)),
        bench.call(client.metrics(ALICE)),
        bench.call(client.submit(ALICE, 5, ID, SUBMISSION)),
        bench.call(client.read(ALICE, 5, ID, 0)),
        bench.call(client.cancel(ALICE, 5, ID)),
    ):
        refusal = call.failure
        assert isinstance(refusal, DeviceRefused)
        assert refusal.status == status
        assert refusal.payload == b"x"
        assert refusal.reply is not None
        assert refusal.reply.phase == 3
    operations = [request.operation for request, _ in bench.peer.requests]
    assert operations == [2, 8, 3, 4, 5]
    assert bench.peer.connected == 1


def test_success_of_another_kind(bench: Bench) -> None:
    """200 is no answer to SUBMIT, nor 202 to READ."""
    client = bench.script(lambda request, _: reply_to(request, 200, phase=1))
    submitted = bench.call(client.submit(ALICE, 5, ID, SUBMISSION))
    bench.peer.script = lambda request, _: reply_to(request, 202, phase=1)
    read = bench.call(client.read(ALICE, 5, ID, 0))

    assert isinstance(submitted.failure, InvalidReply)
    assert isinstance(read.failure, InvalidReply)


@pytest.mark.parametrize("fields", [{"phase": 0}, {"phase": 3, "total_bytes": 5}])
def test_impossible_window(bench: Bench, fields: dict[str, int]) -> None:
    """A window without a phase, or with more bytes than there are, is invalid."""
    good = {"phase": 3, "total_bytes": 6}
    client = bench.script(
        lambda request, _: reply_to(request, 200, b"put", **(good | fields))
    )

    call = bench.call(client.read(ALICE, 5, ID, 3))

    assert isinstance(call.failure, InvalidReply)


def test_after_close(bench: Bench) -> None:
    """A closed client refuses without connecting."""
    client = bench.client()
    closed = client.close()

    call = bench.read(client)

    assert closed.called
    assert isinstance(call.failure, ServiceClosed)
    assert bench.peer.connected == 0


def test_nothing_secret_in_repr(bench: Bench) -> None:
    """Output and prompts do not show in what is logged of a window or a refusal."""
    header = RequestHeader(4, ALICE.principal, 3)
    client = bench.script(
        lambda request, _: reply_to(request, 200, b"secret", phase=3, total_bytes=6)
    )
    window = bench.call(client.read(ALICE, 5, ID, 0)).result
    bench.peer.script = lambda request, _: reply_to(request, 403, b"secret")
    refusal = bench.call(client.read(ALICE, 5, ID, 0)).failure

    assert "secret" not in repr(window)
    assert "secret" not in repr(refusal) + str(refusal)
    assert "secret" not in repr(header)
