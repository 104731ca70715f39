"""
`/healthz` and `/readyz`: who may ask, and what they follow (D21).
"""

from __future__ import annotations

import attrs
import pytest
from twisted.internet.defer import Deferred

from tests.asynchronous import asynchronous
from tests.gateway.conftest import Serve
from tests.gateway.device_script import DeviceScript
from tests.gateway.serving import P1, TOKEN, Serving
from twisted_aotx.client import Caller, DeviceClient
from twisted_aotx.gateway.health import Readiness
from twisted_aotx.testing.peer import Answer, ScriptedPeer, reply_to
from twisted_aotx.testing.worlds import MemoryWorld
from twisted_aotx.wire.packet import RequestHeader


@asynchronous
async def test_the_answers_without_a_credential(gateway: Serving) -> None:
    """
    http.md §4; a wrong credential does not matter either.
    """
    for token in (None, TOKEN, "x" * 32):
        healthy = await gateway.get("/healthz", token=token)
        ready = await gateway.get("/readyz", token=token)
        assert (healthy.status, healthy.json) == (200, {"status": "ok"})
        assert (ready.status, ready.json) == (200, {"status": "ready"})


@asynchronous
async def test_other_methods_and_queries(gateway: Serving) -> None:
    """
    http.md §4: 405 and 400, without a credential.
    """
    for path in ("/healthz", "/readyz"):
        answer = await gateway.request("POST", path, token=None)
        assert answer.problem == (405, "method", None)
        assert answer.header("allow") == "GET, HEAD"
        answer = await gateway.get(path + "?x", token=None)
        assert answer.problem == (400, "invalid_field", "query")
        head = await gateway.request("HEAD", path, token=None)
        assert (head.status, head.content) == (200, b"")


@asynchronous
async def test_health_does_not_follow_the_device_and_readiness_does(
    gateway: Serving,
) -> None:
    """
    D21.
    """
    await gateway.stop_device()

    healthy = await gateway.get("/healthz")
    ready = await gateway.get("/readyz")

    assert healthy.status == 200
    assert ready.problem == (503, "not_ready", None)
    assert ready.header("retry-after") == "1"


@asynchronous
async def test_without_principals_a_refusal_is_a_sign_of_life(serve: Serve) -> None:
    """
    http.md §4: any valid reply, any status.
    """
    device = DeviceScript()
    gateway = await serve(device, principals=())
    device.before = lambda request: reply_to(request, 403)

    assert (await gateway.get("/readyz", token=None)).status == 200
    ((request, _),) = gateway.peer.requests
    assert request.principal != bytes(16)


@attrs.define
class Probing:
    """
    Readiness before a device in memory that answers when `script` does.
    """

    world: MemoryWorld = attrs.Factory(MemoryWorld)
    answering: Deferred[Answer] | bytes | None = None
    probes: int = 0

    def __attrs_post_init__(self) -> None:
        path = self.world.path("device")
        peer = ScriptedPeer(self._script)
        peer.listen(self.world.reactor, path, system=self.world.system)
        reactor = self.world.reactor
        client = DeviceClient(reactor, path, system=self.world.system)
        self.readiness = Readiness(client, Caller(P1, 1), reactor)

    def _script(
        self, request: RequestHeader, _payload: bytes
    ) -> Answer | Deferred[Answer]:
        self.probes += 1
        return reply_to(request, 403) if self.answering is None else self.answering

    def ask(self) -> Deferred[bool]:
        asked = Deferred.fromCoroutine(self.readiness.is_ready())
        self.world.settle()
        return asked

    def result(self) -> bool:
        asked = self.ask()
        assert asked.called
        return bool(asked.result)

    def wait(self, seconds: float) -> None:
        self.world.reactor.advance(seconds)
        self.world.settle()

    readiness: Readiness = attrs.field(init=False)


def test_a_sign_of_life_counts_for_five_seconds() -> None:
    """
    http.md §4.
    """
    probing = Probing()
    assert probing.result()
    for _ in range(5):
        probing.wait(1)
        assert probing.result()
    assert probing.probes == 1

    probing.wait(0.01)

    assert probing.result()
    assert probing.probes == 2


def test_a_device_that_hangs_is_noticed() -> None:
    """
    B91: after five seconds at most, and each caller waits two at most; there is one
    probe at a time.
    """
    probing = Probing()
    assert probing.result()
    probing.answering = Deferred()
    probing.wait(5.01)

    first, second = probing.ask(), probing.ask()
    probing.wait(1.99)
    third = probing.ask()
    assert not first.called
    probing.wait(0.02)

    assert (first.result, second.result) == (False, False)
    assert not third.called
    probing.wait(2)
    assert third.result is False
    assert probing.probes == 2


def test_a_late_answer_counts_from_when_it_came() -> None:
    probing = Probing()
    late: Deferred[Answer] = Deferred()
    probing.answering = late
    asked = probing.ask()
    probing.wait(3)
    assert asked.result is False

    probing.answering = None
    again = probing.ask()
    assert not again.called
    header = RequestHeader(operation=2, principal=P1, revision=1)
    late.callback(reply_to(header, 403))
    probing.world.settle()

    assert again.result is True
    assert probing.result()
    assert probing.probes == 1


@pytest.mark.parametrize("answer", [b"", b"x" * 128])
def test_what_is_no_reply_is_no_sign_of_life(answer: bytes) -> None:
    """
    http.md §4: any *valid* reply.
    """
    probing = Probing(answering=answer)

    assert not probing.result()
    assert not probing.result()
    assert probing.probes == 2
    probing.answering = None
    assert probing.result()


def test_a_caller_that_leaves_takes_nothing_with_it() -> None:
    probing = Probing(answering=Deferred())
    first, second = probing.ask(), probing.ask()
    first.addErrback(lambda _: None)
    first.cancel()
    late = probing.answering
    assert isinstance(late, Deferred)
    header = RequestHeader(operation=2, principal=P1, revision=1)
    late.callback(reply_to(header, 403))
    probing.world.settle()

    assert second.result is True
