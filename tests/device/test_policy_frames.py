"""
Operation 12 (`device.md` §14, `wire.md` §11): every check in its order, and writes that
wait for the store (D12).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import (
    EPOCH,
    P1,
    P2,
    P3,
    P4,
    grant,
    new_device,
    played_engine,
    request_id,
)
from tests.device.storing import Storing
from twisted_aotx.orders import ControlRecord, LedgerRow, StoredPolicy
from twisted_aotx.wire.numbers import (
    PolicyAction,
    PolicyReason,
    PolicyState,
)
from twisted_aotx.wire.packet import join, split_reply
from twisted_aotx.wire.policy import PolicyReport, PolicyWrite

PAUSE, RESUME, STOP = PolicyAction.PAUSE, PolicyAction.RESUME, PolicyAction.STOP
ON, OFF = PolicyAction.REVIEW_ON, PolicyAction.REVIEW_OFF


def started() -> Storing:
    engine = played_engine(capacity=7, sequence_tokens=SMALL.sequence_tokens)
    device = new_device(SMALL, [engine])
    return Storing(device, Driver(device, SMALL))


def granted(world: Storing) -> Storing:
    """Managing and telemetry; telemetry alone; managing alone; neither."""
    assert (
        world.driver.install(
            grant(P1, actions=1 | 8 | 128, requests=16),
            grant(P2, actions=8),
            grant(P3, actions=128),
            grant(P4, actions=1),
        )
        == 200
    )
    return world


@pytest.fixture
def world() -> Iterator[Storing]:
    made = granted(started())
    yield made
    made.device.close()
    made.device.free()


#: What the first read of a first activation answers.
FIRST = PolicyReport(
    state=PolicyState.QUIET, control_revision=1, reason=PolicyReason.DISABLED
)


class TestReads:
    """
    Reads.
    """

    def test_the_first_activation(self, world: Storing) -> None:
        """Revision 1, review off, not paused, not stopped; ABI 3, mode 2 [D11]."""
        assert world.read() == FIRST
        assert (FIRST.abi, FIRST.mode, FIRST.schema) == (3, 2, 1)

    @pytest.mark.parametrize(("principal", "status"), [(P2, 200), (P3, 200), (P4, 403)])
    def test_who_may(self, world: Storing, principal: bytes, status: int) -> None:
        """cases L 170: 8 or 128; infer alone may not."""
        assert world.driver.status(world.header(principal)) == status

    def test_shapes(self, world: Storing) -> None:
        """Id, cursor and epoch are zero; and who may not learns nothing of it."""
        for wrong in (
            {"id": request_id(1)},
            {"cursor": 1},
            {"epoch": EPOCH},
        ):
            header = attrs.evolve(world.header(), **wrong)
            assert world.driver.status(header) == 400
            header = attrs.evolve(world.header(P4), **wrong)
            assert world.driver.status(header) == 403

    def test_while_held(self, world: Storing) -> None:
        """A read is answered; its reason is capacity once the review is on."""
        world.write(ON, 1)
        world.device.set_hold(True)

        assert world.read().reason == PolicyReason.CAPACITY


class TestWrites:
    """
    Writes and the order of their checks.
    """

    def payload(self, schema: int = 1, action: int = 1, revision: int = 1) -> bytes:
        return struct.pack("<IIQ", schema, action, revision)

    @pytest.mark.parametrize(
        ("action", "report"),
        [
            (PAUSE, {"state": PolicyState.PAUSED}),
            (RESUME, {}),
            (STOP, {"state": PolicyState.STOPPED}),
            (ON, {"review_enabled": 1, "reason": PolicyReason.QUIET}),
            (OFF, {}),
        ],
    )
    def test_each_action(
        self, world: Storing, action: int, report: dict[str, int]
    ) -> None:
        """cases L 172: the revision goes up by 1, also when nothing changes."""
        expected = attrs.evolve(FIRST, control_revision=2, **report)

        assert world.write(action, 1) == (200, expected)
        assert world.read() == expected
        (record,) = world.taken
        assert record == ControlRecord(
            control_revision=2,
            review=action == ON,
            paused=action in (PAUSE, STOP),
            stopped=action == STOP,
        )

    def test_the_reasons_and_states(self, world: Storing) -> None:
        """Pause, then stop; resume takes both back; the review's flag stays."""
        seen = []
        for revision, action in enumerate((ON, PAUSE, STOP, PAUSE, RESUME), 1):
            status, report = world.write(action, revision)
            assert status == 200
            assert report is not None
            seen.append((report.state, report.reason, report.review_enabled))

        assert seen == [
            (PolicyState.QUIET, PolicyReason.QUIET, 1),
            (PolicyState.PAUSED, PolicyReason.PAUSED, 1),
            (PolicyState.STOPPED, PolicyReason.PAUSED, 1),
            (PolicyState.STOPPED, PolicyReason.PAUSED, 1),
            (PolicyState.QUIET, PolicyReason.QUIET, 1),
        ]

    @pytest.mark.parametrize("principal", [P2, P4])
    def test_who_may_not(self, world: Storing, principal: bytes) -> None:
        """cases L 170: 128 alone writes; before any other check."""
        header = attrs.evolve(world.header(principal, write=True), cursor=1, epoch=1)

        assert world.driver.status(header, b"bad") == 403

    def test_shapes(self, world: Storing) -> None:
        """400, before the epoch is looked at."""
        header = attrs.evolve(world.header(P3, write=True), epoch=EPOCH + 1)
        for wrong in ({"id": request_id(1)}, {"cursor": 1}):
            assert (
                world.driver.status(attrs.evolve(header, **wrong), self.payload())
                == 400
            )
        for payload in (
            self.payload()[:-1],
            self.payload() + b"\0",
            b"\1",
            self.payload(schema=0),
            self.payload(schema=2),
            self.payload(action=0),
            self.payload(action=6),
        ):
            assert world.driver.status(header, payload) == 400

    def test_epoch_then_hold_then_revision(self, world: Storing) -> None:
        """cases L 172: 410, 429, 409, in this order; nothing changes."""
        world.device.set_hold(True)
        header = world.header(write=True)
        stale = attrs.evolve(header, epoch=EPOCH - 1)

        assert world.driver.status(stale, self.payload(revision=9)) == 410
        assert world.driver.status(header, self.payload(revision=9)) == 429
        assert world.driver.status(header, self.payload()) == 429

        world.device.set_hold(False)
        assert world.driver.status(header, self.payload(revision=0)) == 409
        assert world.driver.status(header, self.payload(revision=2)) == 409
        assert world.read() == FIRST
        assert world.take() == []

    def test_an_old_body_again(self, world: Storing) -> None:
        """cases L 172."""
        assert world.write(PAUSE, 1)[0] == 200
        assert world.write(PAUSE, 1)[0] == 409
        assert world.write(PAUSE, 2)[0] == 200

    def test_a_failed_write_changes_nothing(self, world: Storing) -> None:
        """429, and the revision is free again (D12)."""
        assert world.write(STOP, 1, saved=False) == (429, None)
        assert world.read() == FIRST
        assert world.write(PAUSE, 1)[0] == 200

    def test_nothing_shows_before_the_store_has_it(self, world: Storing) -> None:
        """D12: the reply waits, a read sees the old state, ticks change nothing."""
        world.publish(1, STOP, 1)
        for _ in range(3):
            world.driver.step()
            assert list(world.device.collect()) == []
        reply, data = world.driver.send(world.header(), channel=2)
        assert PolicyReport.unpack(data) == FIRST
        assert reply.phase == PolicyState.QUIET

        world.save()

        assert list(world.device.collect()) == [1]
        assert split_reply(world.driver.take(1))[0].phase == PolicyState.STOPPED

    def test_the_echo_of_a_late_reply(self, world: Storing) -> None:
        """It is the reply to its own request, whoever was served meanwhile."""
        world.publish(3, PAUSE, 1, P3)
        world.driver.step()
        world.driver.info()
        world.save()

        assert list(world.device.collect()) == [3]
        reply, data = split_reply(world.driver.take(3))
        assert (reply.principal, reply.status, len(data)) == (P3, 200, 160)


class TestWaiting:
    """
    Writes behind one that the store has not answered.
    """

    def replies(self, world: Storing) -> list[tuple[int, int, int]]:
        """(channel, status, revision) of what was published, in order."""
        seen = []
        for channel in world.device.collect():
            reply, data = split_reply(world.driver.take(channel))
            revision = PolicyReport.unpack(data).control_revision if data else 0
            seen.append((channel, reply.status, revision))
        return seen

    def test_in_order_of_arrival(self, world: Storing) -> None:
        """One at a time; what expected an older revision is refused on the way."""
        world.publish(5, PAUSE, 1)
        world.driver.step()
        world.publish(9, STOP, 2)
        world.driver.step()
        world.publish(11, RESUME, 1)
        world.publish(12, RESUME, 3)
        world.driver.step()
        assert self.replies(world) == []

        world.save()
        assert self.replies(world) == [(5, 200, 2)]
        world.save()
        assert self.replies(world) == [(9, 200, 3), (11, 409, 0)]
        world.save()
        assert self.replies(world) == [(12, 200, 4)]
        assert world.read().state == PolicyState.QUIET

    def test_after_a_failure(self, world: Storing) -> None:
        """The next one meets the old revision."""
        world.publish(1, STOP, 1)
        world.driver.step()
        world.publish(2, PAUSE, 1)
        world.driver.step()

        world.save(False)
        assert self.replies(world) == [(1, 429, 0)]
        world.save()
        assert self.replies(world) == [(2, 200, 2)]
        assert world.read().state == PolicyState.PAUSED

    def test_all_channels_at_once(self, world: Storing) -> None:
        """As many as there are mailboxes, again and again: the queue goes round."""
        for turn in range(3):
            world.driver.step()
            for channel in range(1, SMALL.channels):
                world.publish(channel, PAUSE, turn + 1)
            seen = []
            for _ in range(5):
                world.driver.step()
                seen += self.replies(world)
                world.save()
                seen += self.replies(world)
            assert sorted(status for _, status, _ in seen) == [200] + [409] * 14

    def test_grants_are_judged_again(self, world: Storing) -> None:
        """A writer that was revoked while it waited is refused."""
        world.publish(1, PAUSE, 1)
        world.driver.step()
        world.publish(2, STOP, 2)
        world.driver.step()
        assert world.driver.install(grant(P1, actions=1)) == 200

        world.save()

        assert self.replies(world) == [(1, 200, 2), (2, 403, 0)]

    def test_hold_is_judged_again(self, world: Storing) -> None:
        """A write that failed brings the hold."""
        world.publish(1, PAUSE, 1)
        world.driver.step()
        world.publish(2, STOP, 1)
        world.driver.step()
        world.device.set_hold(True)

        world.save(False)

        assert self.replies(world) == [(1, 429, 0), (2, 429, 0)]

    def test_what_is_wrong_does_not_wait(self, world: Storing) -> None:
        world.publish(1, PAUSE, 1)
        world.driver.step()
        header = world.header(P2, write=True)
        data = PolicyWrite(action=1, control_revision=1).pack()

        world.driver.publish(2, join(header, data))
        world.driver.step()

        assert self.replies(world) == [(2, 403, 0)]


class TestRestart:
    """
    What a start takes over, and a state that cannot be used.
    """

    STORED = StoredPolicy(
        control=ControlRecord(
            control_revision=7, review=True, paused=True, stopped=True
        ),
        frontier=4099,
        saved_generation=65,
        ledger=(
            LedgerRow(
                principal=P1,
                model_sha256=bytes(range(32)),
                requests=4099,
                prompt_tokens=2**63,
                sampled_tokens=5,
            ),
        ),
    )

    def test_restored(self) -> None:
        """cases L 173: controls, frontier, generation; other counters from 0."""
        world = started()
        world.device.restore_policy(self.STORED)
        granted(world)

        assert world.read() == PolicyReport(
            state=PolicyState.STOPPED,
            review_enabled=1,
            control_revision=7,
            source_frontier=4099,
            saved_generation=65,
            reason=PolicyReason.PAUSED,
        )
        status, report = world.write(RESUME, 7)
        assert status == 200
        assert report is not None
        assert (report.state, report.control_revision) == (PolicyState.QUIET, 8)
        world.device.free()

    @pytest.mark.parametrize("revision", [2**64 - 2, 2**64 - 1])
    def test_a_revision_at_its_maximum(self, revision: int) -> None:
        """409: it cannot go up."""
        world = started()
        control = attrs.evolve(self.STORED.control, control_revision=revision)
        world.device.restore_policy(attrs.evolve(self.STORED, control=control))
        granted(world)

        if revision < 2**64 - 1:
            assert world.write(PAUSE, revision)[0] == 200
        assert world.read().control_revision == 2**64 - 1
        assert world.write(PAUSE, 2**64 - 1)[0] == 409
        world.device.free()

    def test_state_error(self) -> None:
        """cases L 172: only pause and stop are accepted, the state stays error."""
        world = started()
        world.device.break_policy()
        granted(world)

        assert world.read() == attrs.evolve(FIRST, state=PolicyState.ERROR)
        revision = 1
        for action in (RESUME, ON, OFF):
            assert world.write(action, revision)[0] == 409
        for action in (PAUSE, STOP):
            status, report = world.write(action, revision)
            assert status == 200
            assert report is not None
            assert report.state == PolicyState.ERROR
            revision += 1
        assert world.device.stats().policy_state == PolicyState.ERROR
        world.device.free()

    @pytest.mark.parametrize("field", ["frontier", "saved_generation"])
    def test_numbers_that_no_device_counts_to(self, field: str) -> None:
        """2^63 is unusable, one less is not."""
        for value, state in (
            (2**63, PolicyState.ERROR),
            (2**63 - 1, PolicyState.STOPPED),
        ):
            world = started()
            numbers: dict[str, Any] = {field: value}
            world.device.restore_policy(attrs.evolve(self.STORED, **numbers))
            granted(world)
            assert world.read().state == state
            world.device.free()
