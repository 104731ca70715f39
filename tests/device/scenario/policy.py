"""
Selections, and the policy with its ledger (`device.md` §4 row 10, §14).
"""

from __future__ import annotations

from tests.device.making import HELLO, P2, P3
from tests.device.scenario.player import CONTROLS, HOST, ROWS, SAMPLED, Scenario
from tests.device.storing import Storing
from twisted_aotx.orders import LedgerRecord
from twisted_aotx.wire.numbers import Phase, PolicyAction, PolicyState
from twisted_aotx.wire.requests import Selector

PAUSE, RESUME, STOP = PolicyAction.PAUSE, PolicyAction.RESUME, PolicyAction.STOP
ON, OFF = PolicyAction.REVIEW_ON, PolicyAction.REVIEW_OFF


def _selections(s: Scenario) -> None:
    """Accepted, of a wrong shape, not selectable, withdrawn before the lease."""
    # What earlier stages left running ends.
    assert s.install(*ROWS) == 200
    s.step()
    s.opens()
    calm, bare, twin, _ = CONTROLS
    good = Selector(dose=-5, qualification_sha256=calm.qualification_sha256).pack()

    def status(data: bytes, role: int = HOST) -> int:
        header = s.submit_header(800, role=role, selector_bytes=48)
        return s.status(header, HELLO + data)

    for at in (0, 4, 8, 12, 16):
        wrong = bytearray(good)
        wrong[at : at + 4] = b"\0\0\0\1"
        assert status(bytes(wrong)) in (400, 503)
    for digest, dose in (
        (calm.qualification_sha256, 6),
        (bare.qualification_sha256, 1),
        (twin.qualification_sha256, 1),
    ):
        data = Selector(dose=dose, qualification_sha256=digest).pack()
        assert status(data) == 503
    assert status(good[:16] + bytes(32)) == 400
    assert status(good, SAMPLED) == 503
    s.new(payload=HELLO + bytes(48), selector_bytes=48)
    (plain,) = s.opens()
    number = s.new(payload=HELLO + good, selector_bytes=48)
    (order,) = s.opens()
    assert order.selection is not None
    assert order.selection.dose == -5
    waiting = s.new(payload=HELLO + good, selector_bytes=48)
    s.device.set_control(0, False)
    s.info()
    s.play(plain)
    s.play(order)
    s.step()
    s.step()
    assert s.entry(number)["r_phase"] == Phase.COMPLETED
    assert s.entry(waiting)["r_status"] == 503
    s.device.set_control(0, True)
    s.info()


def _writes(s: Scenario) -> None:
    """Each action, a save that fails, an old revision, writes that wait."""
    store = Storing(s.device, s)
    for revision, action in enumerate((PAUSE, STOP, RESUME, ON, OFF), 1):
        assert store.write(action, revision)[0] == 200
    assert store.write(PAUSE, 6, saved=False)[0] == 429
    assert store.write(PAUSE, 5)[0] == 409
    for channel, revision in ((1, 6), (2, 6), (3, 7)):
        store.publish(channel, RESUME, revision)
    for _ in range(3):
        s.step()
        store.save()
        for channel in list(s.device.collect()):
            s.take(channel)
    assert store.read().control_revision == 8


def _review(s: Scenario) -> None:
    """Batches begun, committed, failed, dropped for foreground, and flushed."""
    store = Storing(s.device, s)
    assert store.write(ON, 8)[0] == 200
    s.step()
    assert s.device.stats().policy_state == PolicyState.ACTIVE
    s.new()
    assert store.read().interrupted > 0
    (order,) = s.opens()
    s.play(order, [b"a", b"b"])
    for saved in (False, True, True):
        for _ in range(3):
            s.step()
        store.save(saved)
        store.read(P3)
    assert [x for x in store.taken if isinstance(x, LedgerRecord)]
    s.new(principal=P2)
    (order,) = s.opens()
    s.device.flush()
    while s.device.stats().usage_pending:
        s.step()
        store.save()
    s.play(order, [b"c"])
    for _ in range(3):
        s.step()
        store.save()
    assert s.device.stats().usage_pending == 0


STAGES = (_selections, _writes, _review)
