"""
The runtime on the real device: its thread, its doorbells, kernels and host engines.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import attrs
import pytest
from zope.interface import implementer

from tests.device.capacities import SMALL
from tests.device.reference_oracle import Model, generate
from tests.runtime.doubles import ListedEngine
from tests.runtime.live import HELLO, HOST, Live, Stepped, host_facts
from twisted_aotx.engines.reference import read_corpus
from twisted_aotx.interfaces import EngineFacts, IEngine, Lease
from twisted_aotx.wire.numbers import Finish, Phase

pytestmark = pytest.mark.slow

RENDERED = (
    b"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


@pytest.fixture
def listed() -> ListedEngine:
    return ListedEngine(host_facts())


@pytest.fixture
def live(listed: ListedEngine) -> Iterator[Live]:
    made = Live(listed)
    made.start()
    yield made
    made.stop()


def opened_lease(live: Live, listed: ListedEngine, number: int) -> Lease:
    """Submit to the host engine; the lease it got, opened."""
    count = len(listed.leases)
    assert live.submit(number, payload=HELLO, role=HOST, limit=4096) == 202
    live.reactor.until(lambda: len(listed.leases) > count)
    lease = listed.leases[-1]
    lease.opened(len(lease.order.rendered))
    live.until_phase(number, Phase.RUNNING)
    return lease


@pytest.fixture
def stepped() -> Iterator[Stepped]:
    made = Stepped()
    yield made
    made.stepped.free()


def test_an_order_that_waits_for_its_slot_is_not_left_waiting(stepped: Stepped) -> None:
    """Its slot's last order was not taken yet; the device sleeps until it was."""
    stepped.begin(1)
    stepped.cancel(1)
    stepped.begin(2)
    stepped.step()
    stepped.is_rung()

    stepped.bridge.doorbell_rung()

    assert stepped.is_rung()
    stepped.step()
    stepped.bridge.doorbell_rung()
    assert stepped.engine.verbs == [("open", 1, 1), ("stop", 1, 1), ("open", 1, 2)]


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_engine_keeps_no_lease_that_is_over(
    stepped: Stepped, is_taken: bool
) -> None:
    """Lost and back, before its order was taken or after: it is told of the end."""
    stepped.begin(1)
    if is_taken:
        stepped.bridge.doorbell_rung()

    stepped.bridge.lose(HOST, "gone")
    stepped.bridge.restore(HOST)
    stepped.step()
    stepped.bridge.doorbell_rung()

    told = [("open", 1, 1), ("stop", 1, 1)]
    assert stepped.engine.verbs == told
    assert stepped.read(1)[0].failure_status == 503
    stepped.begin(2)
    stepped.bridge.doorbell_rung()
    assert stepped.engine.verbs == [*told, ("open", 1, 2)]


def test_kernel_and_host_engines_side_by_side(live: Live, listed: ListedEngine) -> None:
    """The reference engine answers as its oracle says, the other as it likes."""
    assert live.submit(1, payload=HELLO, limit=200) == 202
    lease = opened_lease(live, listed, 2)
    lease.emit(b"hi", 2)
    lease.done(Finish.STOP)

    reply, data = live.whole(1)
    from_host, said = live.whole(2)

    oracle = Model(read_corpus())
    expected, tokens, finish = generate(oracle, RENDERED, 0.0, 1.0, 0, 200)
    assert (data, reply.sampled_tokens, reply.finish) == (expected, tokens, finish)
    assert reply.prompt_tokens == len(RENDERED)
    assert (said, from_host.sampled_tokens, from_host.finish) == (b"hi", 2, 1)


def test_an_order_tells_everything(live: Live, listed: ListedEngine) -> None:
    """What was submitted arrives: rendering, spans, payload, numbers."""
    header = live.submit_header(5, role=HOST, limit=17, temperature=0.5, top_p=0.25)
    assert live.status(header, HELLO) == 202
    live.reactor.until(lambda: listed.leases)
    order = listed.leases[0].order

    assert order.rendered == RENDERED
    assert order.payload == HELLO
    assert (order.role, order.limit) == (HOST, 17)
    assert (order.temperature, order.top_p) == (0.5, 0.25)
    texts, start = [], 0
    for end, span_class in order.spans:
        texts.append((span_class, order.rendered[start:end]))
        start = end
    assert start == len(RENDERED)
    assert [text for span_class, text in texts if span_class == 1] == [b"hello"]
    assert order.generation >= 1
    assert 0 < order.slot < SMALL.slots


def test_a_burst_is_back_pressure_and_arrives_whole(
    live: Live, listed: ListedEngine
) -> None:
    """2,000 emissions at once from a thread, through a ring of 64."""
    lease = opened_lease(live, listed, 1)
    pieces = [b"%03d," % (n % 1000) for n in range(2000)]

    def produce() -> None:
        for piece in pieces:
            lease.emit(piece, 1)
        lease.done(Finish.STOP)

    thread = threading.Thread(target=produce)
    thread.start()
    reply, data = live.whole(1)
    thread.join()

    assert data == b"".join(pieces)
    assert (reply.phase, reply.sampled_tokens) == (Phase.COMPLETED, 2000)


def test_cancel_stops_the_engine_and_frees_the_slot(
    live: Live, listed: ListedEngine
) -> None:
    """The engine is told once; what it says afterwards reaches nobody [D4]."""
    lease = opened_lease(live, listed, 1)
    lease.emit(b"partial", 1)
    live.reactor.until(lambda: live.read(1)[1] == b"partial")
    assert live.cancel(1)[0].cancel_requested == 1
    reply, _ = live.whole(1)
    live.reactor.until(lambda: ("stop", *_name(lease)) in listed.verbs)
    lease.emit(b"late", 1)
    lease.done(Finish.STOP)

    second = opened_lease(live, listed, 2)
    second.emit(b"new", 1)
    second.done(Finish.STOP)

    assert (reply.phase, reply.failure_status) == (Phase.CANCELLED, 409)
    assert live.whole(2)[1] == b"new"
    assert live.read(1)[1] == b"partial"
    assert listed.verbs.count(("stop", *_name(lease))) == 1


def test_a_fault_fails_the_request_only(live: Live, listed: ListedEngine) -> None:
    """503 for the one, the other goes on; the engine is stopped once."""
    wrong, right = (opened_lease(live, listed, number) for number in (1, 2))
    wrong.opened(1)
    right.emit(b"fine", 1)
    right.done(Finish.LENGTH)

    reply, _ = live.whole(1)

    assert (reply.phase, reply.failure_status) == (Phase.FAILED, 503)
    assert live.whole(2)[1] == b"fine"
    live.reactor.until(lambda: ("stop", *_name(wrong)) in listed.verbs)
    live.reactor.settle()
    assert [verb for verb in listed.verbs if verb[0] == "stop"] == [
        ("stop", *_name(wrong))
    ]


def test_a_lost_engine(live: Live, listed: ListedEngine) -> None:
    """Running: cancelled, 503; queued: failed, 503; SUBMIT: 404; back: serves."""
    assert listed.host is not None
    for number in (1, 2, 3):
        opened_lease(live, listed, number)
    assert live.submit(4, payload=HELLO, role=HOST) == 202
    assert live.phase(4) == Phase.QUEUED
    threading.Thread(target=listed.host.lost, args=("its process ended",)).start()

    running, queued = live.whole(1)[0], live.whole(4)[0]
    assert (running.phase, running.failure_status) == (Phase.CANCELLED, 503)
    assert running.cancel_requested == 1
    assert (queued.phase, queued.failure_status) == (Phase.FAILED, 503)
    assert live.submit(5, payload=HELLO, role=HOST) == 404
    assert live.submit(6, payload=HELLO, limit=3) == 202
    assert live.whole(6)[0].phase == Phase.COMPLETED

    listed.host.back()
    live.reactor.settle()
    lease = opened_lease(live, listed, 7)
    lease.done(Finish.STOP)
    assert live.whole(7)[0].phase == Phase.COMPLETED


def test_lost_and_back_between_two_ticks(live: Live, listed: ListedEngine) -> None:
    """However short the loss, the leases of before are over."""
    assert listed.host is not None
    opened_lease(live, listed, 1)
    listed.host.lost("flapping")
    listed.host.back()
    reply = live.whole(1)[0]

    assert (reply.phase, reply.failure_status) == (Phase.CANCELLED, 503)
    lease = opened_lease(live, listed, 2)
    lease.emit(b"again", 1)
    lease.done(Finish.STOP)
    assert live.whole(2)[1] == b"again"


def test_reports_wait_while_the_device_is_held(
    live: Live, listed: ListedEngine
) -> None:
    """`device.md` §8: no engine exchange in a hold, nothing lost after it."""
    lease = opened_lease(live, listed, 1)
    live.live.set_hold(True)
    live.reactor.until(lambda: live.submit(2, payload=HELLO) == 429)
    for n in range(200):
        lease.emit(b"%02d" % (n % 100), 1)
    lease.done(Finish.STOP)
    live.reactor.settle()
    reply, data = live.read(1)
    assert (reply.phase, data) == (Phase.RUNNING, b"")

    live.live.set_hold(False)
    reply, data = live.whole(1)

    assert (reply.phase, reply.sampled_tokens) == (Phase.COMPLETED, 200)
    assert data == b"".join(b"%02d" % (n % 100) for n in range(200))


def test_stop_with_work_in_hand(listed: ListedEngine) -> None:
    """Requests of both engines are running; the stop does not wait for them."""
    live = Live(listed)
    live.start()
    opened_lease(live, listed, 1)
    assert live.submit(2, payload=HELLO, limit=4096) == 202
    live.stop()

    assert listed.verbs[-1] == "close"
    assert not any(
        thread.name == "aotx-device" and thread.is_alive()
        for thread in threading.enumerate()
    )


@implementer(IEngine)
@attrs.define
class Threaded:
    """
    An engine that serves each lease in a thread of its own.

    If the limit is a multiple of three, it stands still half way until it is stopped.
    """

    facts: EngineFacts = attrs.field(factory=host_facts)
    stops: dict[tuple[int, int], threading.Event] = attrs.field(factory=dict)

    def start(self, host: object) -> None:
        pass

    def open(self, lease: Lease) -> None:
        stop = self.stops[_name(lease)] = threading.Event()
        threading.Thread(target=self._serve, args=(lease, stop)).start()

    def stop(self, slot: int, generation: int) -> None:
        self.stops[slot, generation].set()

    def close(self) -> None:
        pass

    def _serve(self, lease: Lease, stop: threading.Event) -> None:
        limit = lease.order.limit
        lease.opened(len(lease.order.rendered))
        for n in range(limit):
            if limit % 3 == 0 and n == limit // 2 and stop.wait(20):
                return
            lease.emit(b"%d:%d " % (limit, n), 1)
        lease.done(Finish.LENGTH)


def test_many_requests_of_a_threaded_engine() -> None:
    """Slots are reused and no output mixes with another; some are cancelled."""
    live = Live(Threaded())
    live.start()
    outcomes = []
    for number in range(1, 61):
        limit = 9 + number
        assert live.submit(number, payload=HELLO, role=HOST, limit=limit) == 202
        if number % 3 == 0:
            assert live.cancel(number)[0].status == 200
        if number % 8 == 0:
            live.whole(number)
    for number in range(1, 61):
        header = live.read(number)[0]
        if header.status == 404:
            # Reclaimed: the small set keeps 16 entries.
            continue
        reply, data = live.whole(number)
        limit = 9 + number
        full = b"".join(b"%d:%d " % (limit, n) for n in range(limit))
        assert full.startswith(data), number
        if number % 3:
            assert (data, reply.sampled_tokens) == (full, limit)
        assert reply.phase == (Phase.COMPLETED if number % 3 else Phase.CANCELLED)
        outcomes.append(reply.phase)
    live.stop()

    assert len(outcomes) >= SMALL.requests


def _name(lease: Lease) -> tuple[int, int]:
    return lease.order.slot, lease.order.generation
