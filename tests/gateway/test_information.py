"""
What is remembered of the device's information, and for how long.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from tests.gateway.device_script import INFORMATION
from twisted_aotx.client import Caller, DeviceClient, InfoReply
from twisted_aotx.errors import DeviceRefused, InvalidReply
from twisted_aotx.gateway.information import Informations
from twisted_aotx.testing.peer import Answer, ScriptedPeer, reply_to
from twisted_aotx.testing.worlds import MemoryWorld
from twisted_aotx.wire.packet import RequestHeader

A = Caller(b"a" * 16, 3)
B = Caller(b"b" * 16, 3)


class Asking:
    """
    Informations before a device in memory; each exchange is answered when `answer` is
    called, in order.
    """

    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.asked: list[tuple[RequestHeader, Deferred[Answer]]] = []
        path = self.world.path("device")
        peer = ScriptedPeer(self._script)
        peer.listen(self.world.reactor, path, system=self.world.system)
        client = DeviceClient(self.world.reactor, path, system=self.world.system)
        self.informations = Informations(client, self.world.reactor)

    def _script(self, request: RequestHeader, _payload: bytes) -> Deferred[Answer]:
        answer: Deferred[Answer] = Deferred()
        self.asked.append((request, answer))
        return answer

    def get(self, caller: Caller = A, *, fresh: bool = False) -> Deferred[InfoReply]:
        got = Deferred.fromCoroutine(self.informations.get(caller, fresh=fresh))
        self.world.settle()
        return got

    def answer(
        self, epoch: int, status: int = 200, payload: bytes | None = None
    ) -> None:
        request, answer = next(entry for entry in self.asked if not entry[1].called)
        content = INFORMATION.pack() if payload is None else payload
        content = content if status == 200 else b""
        answer.callback(reply_to(request, status, content, epoch=epoch))
        self.world.settle()


def epoch_of(got: Deferred[InfoReply]) -> int:
    assert got.called
    assert isinstance(got.result, InfoReply)
    return got.result.epoch


def error_of(got: Deferred[InfoReply]) -> type[BaseException] | None:
    failures: list[Failure] = []
    got.addErrback(failures.append)
    (failure,) = failures
    return failure.type


def test_an_answer_is_good_for_a_second() -> None:
    asking = Asking()
    first = asking.get()
    asking.answer(1)
    assert epoch_of(first) == 1

    asking.world.reactor.advance(0.99)
    assert epoch_of(asking.get()) == 1
    assert len(asking.asked) == 1
    asking.world.reactor.advance(0.02)
    second = asking.get()
    asking.answer(2)

    assert epoch_of(second) == 2


def test_who_asks_meanwhile_shares_the_exchange() -> None:
    asking = Asking()
    waiting = [asking.get() for _ in range(5)]
    assert len(asking.asked) == 1

    waiting[2].addErrback(lambda _: None)
    waiting[2].cancel()
    asking.answer(1)

    assert [epoch_of(got) for got in waiting if got is not waiting[2]] == [1] * 4


def test_each_principal_has_its_own() -> None:
    asking = Asking()
    first, second = asking.get(A), asking.get(B)
    asking.answer(1)
    asking.answer(2)

    assert (epoch_of(first), epoch_of(second)) == (1, 2)
    assert [request.principal for request, _ in asking.asked] == [b"a" * 16, b"b" * 16]


def test_fresh_always_asks() -> None:
    asking = Asking()
    asking.get()
    asking.answer(1)

    fresh = asking.get(fresh=True)
    assert not fresh.called
    asking.answer(2)

    assert epoch_of(fresh) == 2


def test_a_failure_is_told_to_all_and_not_remembered() -> None:
    asking = Asking()
    first, second = asking.get(), asking.get()
    asking.answer(1, 403)
    assert error_of(first) is error_of(second) is DeviceRefused
    third = asking.get()
    asking.answer(1, payload=b"")
    assert error_of(third) is InvalidReply

    fourth = asking.get()
    asking.answer(4)

    assert epoch_of(fourth) == 4


def test_what_was_forgotten_is_asked_again() -> None:
    """
    After a 403 or a 410 the epoch or the grants are others.
    """
    asking = Asking()
    asking.get()
    asking.answer(1)
    asking.informations.forget(A)
    asking.informations.forget(B)

    second = asking.get()
    asking.answer(2)

    assert epoch_of(second) == 2


def test_an_exchange_that_began_before_is_neither_shared_nor_remembered() -> None:
    asking = Asking()
    first = asking.get()
    asking.informations.forget(A)
    second = asking.get()
    assert len(asking.asked) == 2

    asking.answer(1)
    assert epoch_of(first) == 1
    assert not second.called
    asking.answer(2)

    assert epoch_of(second) == 2
    assert epoch_of(asking.get()) == 2
