"""
Grants replaced under a client, on the compiled device (`device.md` §2).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.broker.bench import failure_of
from tests.broker.whole import EPOCH, REVISION, SUBMISSION, Whole, caller, row
from tests.client.bench import Call
from tests.device.capacities import SMALL
from twisted_aotx.broker.errors import GrantsRefused
from twisted_aotx.client import Caller
from twisted_aotx.errors import ConnectFailed, DeviceRefused, PoolFull
from twisted_aotx.wire.grants import GrantRow
from twisted_aotx.wire.numbers import Phase

ACTIVE = (Phase.QUEUED, Phase.PREPARING, Phase.RUNNING)
LONG = attrs.evolve(SUBMISSION, limit=100)


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    whole = Whole(tmp_path, row(1), row(2), rate=20)
    started = whole.broker.start()
    whole.step()
    assert started.called
    yield whole
    assert whole.device.invariants() == []
    whole.close()


def request_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def submit(whole: Whole, who: Caller, number: int) -> Call:
    return whole.call(whole.client.submit(who, EPOCH, request_id(number), LONG))


def read(whole: Whole, who: Caller, number: int) -> Call:
    return whole.call(whole.client.read(who, EPOCH, request_id(number), 0))


def status_of(call: Call) -> int:
    assert call.is_done
    if call.failure is None:
        reply = getattr(call.result, "reply", call.result)
        return int(reply.status)
    assert isinstance(call.failure, DeviceRefused), call.failure
    return call.failure.status


def replace(whole: Whole, revision: int, *rows: GrantRow) -> None:
    replacing = whole.replace(revision, *rows)
    whole.step()
    assert replacing.called
    assert whole.broker.table is not None
    assert whole.broker.table.revision == revision


def phases(whole: Whole) -> dict[int, tuple[int, int]]:
    """Phase and failure status of every entry in use, by the number of its id."""
    D = whole.device.snapshot()
    found = {}
    for entry in range(SMALL.requests):
        if int(D["r_phase"][entry]) != Phase.FREE:
            # Two little-endian words of the id's sixteen bytes.
            number = int.from_bytes(D["r_id"][entry].tobytes(), "big")
            found[number] = int(D["r_phase"][entry]), int(D["r_status"][entry])
    return found


def test_new_revision_is_known_at_once_and_the_old_one_no_more(whole: Whole) -> None:
    """`device.md` §2: frames of the old revision 403; connections come back."""
    replace(whole, 4, row(1), row(2))

    for number in (1, 2):
        assert status_of(submit(whole, caller(number), 1)) == 403
        assert status_of(submit(whole, caller(number, 4), 1)) == 202


def test_active_requests_end_as_cancelled_403(whole: Whole) -> None:
    """`device.md` §2: running and queued ones, of principals that stay as well."""
    for number in range(1, 9):
        assert status_of(submit(whole, caller(1 + number % 2), number)) == 202
    whole.step(ticks=3)
    before = phases(whole)
    assert {phase for phase, _ in before.values()} == {Phase.RUNNING, Phase.QUEUED}

    replace(whole, 4, row(1))
    whole.step(ticks=3)

    assert phases(whole) == dict.fromkeys(before, (Phase.CANCELLED, 403))
    for number in before:
        for revision in (3, 4):
            who = caller(1 + number % 2, revision)
            status = status_of(read(whole, who, number))
            # Only the first principal has a grant now.
            assert status == (404 if who == caller(1, 4) else 403)
    # Every slot is free again: as many as there are run at once.
    for number in range(11, 15):
        assert status_of(submit(whole, caller(1, 4), number)) == 202
    whole.step(ticks=3)
    assert [phases(whole)[number] for number in range(11, 15)] == [
        (Phase.RUNNING, 0)
    ] * 4


def test_same_ids_under_a_higher_revision(whole: Whole) -> None:
    """cases B 28: an empty table, then a full one; old results stay lost, untouched."""
    submit(whole, caller(1), 1)
    whole.call(whole.client.cancel(caller(1), EPOCH, request_id(1)))
    whole.step(ticks=3)
    assert status_of(read(whole, caller(1), 1)) == 200
    replace(whole, 4)
    assert status_of(submit(whole, caller(1, 4), 2)) == 403
    replace(whole, 5, row(1), row(2))
    before = phases(whole)

    assert status_of(read(whole, caller(1, 5), 1)) == 404
    cancelling = whole.client.cancel(caller(1, 5), EPOCH, request_id(1))
    assert status_of(whole.call(cancelling)) == 404
    assert phases(whole) == before
    assert status_of(submit(whole, caller(1, 5), 2)) == 202


def test_identical_grant_brings_nothing_back(whole: Whole) -> None:
    """`device.md` §2: 404 for good, even if an identical grant returns."""
    submit(whole, caller(1), 1)
    replace(whole, 4, row(1))
    for revision in (5, 6, 7):
        replace(whole, revision, row(1), row(2))
        assert status_of(read(whole, caller(1, revision), 1)) == 404


def test_role_is_no_longer_granted(whole: Whole) -> None:
    """cases B 29: SUBMIT and READ → 404, for as long as the model bit is gone."""
    submit(whole, caller(1), 1)
    replace(whole, 4, row(1, models=1 << 3), row(2))

    assert status_of(submit(whole, caller(1, 4), 2)) == 404
    assert status_of(read(whole, caller(1, 4), 1)) == 404
    assert status_of(submit(whole, caller(2, 4), 2)) == 202


def test_quotas_are_those_of_the_new_table(whole: Whole) -> None:
    """`device.md` §2: active requests count by principal, whatever their revision."""
    for number in range(4):
        submit(whole, caller(1), number + 1)
    assert status_of(submit(whole, caller(1), 5)) == 429

    replace(whole, 4, row(1, requests=2))
    whole.step(ticks=3)

    assert [status_of(submit(whole, caller(1, 4), n)) for n in (6, 7, 8)] == [
        *(202, 202, 429)
    ]
    replace(whole, 5, row(1, requests=3, tokens=99))
    assert status_of(submit(whole, caller(1, 5), 9)) == 400


def test_replacement_during_a_hold(whole: Whole) -> None:
    """cases B 31: accepted at once; what it revokes is cancelled after the hold."""
    for number in range(1, 9):
        assert status_of(submit(whole, caller(1 + number % 2), number)) == 202
    whole.step(ticks=3)
    whole.device.set_hold(True)
    whole.step()
    before = phases(whole)
    assert {phase for phase, _ in before.values()} == {Phase.RUNNING, Phase.QUEUED}

    replace(whole, 4, row(1))
    whole.step(ticks=5)

    assert phases(whole) == before
    assert status_of(submit(whole, caller(1), 9)) == 403
    assert status_of(submit(whole, caller(1, 4), 9)) == 429
    whole.device.set_hold(False)
    whole.step(ticks=3)
    assert phases(whole) == dict.fromkeys(before, (Phase.CANCELLED, 403))


def test_refused_table_disturbs_nobody(whole: Whole) -> None:
    """`device.md` §16: an old revision, and quotas beyond the capacities."""
    submit(whole, caller(1), 1)
    whole.step()
    for revision, grant in ((2, row(1)), (4, row(1, tokens=SMALL.sequence_tokens))):
        refused = whole.replace(revision, grant)
        whole.step()
        failure = failure_of(refused)
        assert isinstance(failure, GrantsRefused)
        assert failure.status == 400

        assert status_of(read(whole, caller(1), 1)) == 200
        assert phases(whole)[1] == (Phase.RUNNING, 0)


class Client:
    """
    One of many: submits, reads and cancels under the revision that it knows.

    Notes the revision of every admission, with the newest that was acknowledged then.
    """

    def __init__(self, whole: Whole, index: int) -> None:
        self.whole = whole
        self.random = random.Random(index)
        self.principal = 1 + index % 12
        self.numbers = iter(range(1000 * (index + 1), 1000 * (index + 2)))
        self.revision = REVISION
        self.call: Call | None = None
        self.last: int | None = None
        self.submitted_at = (0, 0)
        self.admitted: list[tuple[int, int]] = []
        self.statuses: dict[object, int] = {}

    def step(self, acknowledged: int) -> None:
        """Take an answer, if there is one; then ask for something."""
        if self.call is not None:
            if not self.call.is_done:
                return
            self._answered(self.call)
        if self.random.random() < 0.3:
            self.revision = acknowledged
        who = caller(self.principal, self.revision)
        client = self.whole.client
        kind = self.random.choice(("submit", "read", "cancel"))
        if kind == "submit" or self.last is None:
            number = next(self.numbers)
            self.last = number
            self.submitted_at = self.revision, acknowledged
            self.call = Call(client.submit(who, EPOCH, request_id(number), LONG))
        elif kind == "read":
            self.call = Call(client.read(who, EPOCH, request_id(self.last), 0))
        else:
            self.call = Call(client.cancel(who, EPOCH, request_id(self.last)))

    def _answered(self, call: Call) -> None:
        failure = call.failure
        kind: object
        if failure is None:
            kind = getattr(call.result, "status", 200)
            if kind == 202:
                self.admitted.append(self.submitted_at)
        elif isinstance(failure, DeviceRefused):
            kind = failure.status
        else:
            # Dropped with all peers, or too many wait for a connection.
            assert isinstance(failure, ConnectFailed | PoolFull), failure
            kind = type(failure)
        self.statuses[kind] = self.statuses.get(kind, 0) + 1


def random_rows(chance: random.Random) -> list[GrantRow]:
    """Principals that come and go, with a model or without, with other quotas."""
    return [
        row(
            number,
            requests=chance.randint(1, 4),
            tokens=chance.choice((99, 100, 200)),
            models=chance.choice((1 << 2, 1 << 2, 1 << 2, 1 << 3)),
        )
        for number in range(1, 13)
        if chance.random() < 0.8
    ]


@pytest.mark.parametrize("seed", range(2))
def test_many_replacements_under_load(tmp_path: Path, seed: int) -> None:
    """
    64 clients, 20 replacements: nothing is admitted under a revision once its
    replacement was acknowledged, nothing leaks, and the last quotas hold exactly.
    """
    chance = random.Random(seed)
    whole = Whole(tmp_path, *random_rows(chance), rate=200)
    started = whole.broker.start()
    whole.step()
    assert started.called
    clients = [Client(whole, 100 * seed + index) for index in range(64)]
    acknowledged = REVISION
    for _ in range(20):
        for _ in range(chance.randint(5, 40)):
            for client in clients:
                client.step(acknowledged)
            whole.step()
        replacing = whole.replace(acknowledged + 1, *random_rows(chance))
        whole.step()
        assert replacing.called
        acknowledged += 1
        assert whole.device.invariants() == []
        old = acknowledged - 1
        D = whole.device.snapshot()
        for entry in range(SMALL.requests):
            if (
                int(D["r_phase"][entry]) in ACTIVE
                and int(D["r_revision"][entry]) <= old
            ):
                assert int(D["r_status"][entry]) == 403
    # A client that submitted after the acknowledgement knew at least that revision.
    admitted = [pair for client in clients for pair in client.admitted]
    assert len(admitted) > 50
    assert all(revision == newest for revision, newest in admitted)
    statuses = {kind for client in clients for kind in client.statuses}
    assert {200, 202, 403, 404, 429, ConnectFailed} <= statuses

    for client in clients:
        while client.call is not None and not client.call.is_done:
            whole.step()
    last = [row(number, requests=number % 4 + 1) for number in range(1, 5)]
    replace(whole, acknowledged + 1, *last)
    whole.step(ticks=3)
    assert whole.device.invariants() == []
    assert {phase for phase, _ in phases(whole).values()}.isdisjoint(ACTIVE)
    for number, grant in enumerate(last, start=1):
        who = caller(number, acknowledged + 1)
        answers = [
            status_of(submit(whole, who, 10**6 * number + nth))
            for nth in range(grant.requests + 1)
        ]
        assert answers == [202] * grant.requests + [429]
    whole.step(ticks=3)
    found = [phase for phase, _ in phases(whole).values() if phase in ACTIVE]
    total = sum(grant.requests for grant in last)
    assert sorted(found) == [Phase.QUEUED] * (total - 7) + [Phase.RUNNING] * 7
    assert whole.device.invariants() == []
    whole.close()
