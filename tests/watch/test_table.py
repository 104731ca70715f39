"""
Who is told of what: the rules, and that nobody who waits is forgotten.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from twisted_aotx.devices import Progress
from twisted_aotx.limits import WATCHES_MAX
from twisted_aotx.watch.table import WatchTable
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wire.watch import Notice, Watch

EPOCH = 7
PRINCIPAL = b"p" * 16


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def watch(
    number: int, total: int = 0, phase: int = Phase.QUEUED, **other: Any
) -> Watch:
    fields = {"principal": PRINCIPAL, "epoch": EPOCH, **other}
    return Watch(id=id_of(number), total_bytes=total, phase=phase, **fields)


def progress(number: int, total: int, phase: int = Phase.RUNNING) -> Progress:
    return Progress(PRINCIPAL, id_of(number), total, phase)


def stands(notice: Notice | None) -> tuple[int, int] | None:
    return None if notice is None else (notice.total_bytes, notice.phase)


@pytest.fixture
def table() -> WatchTable[str]:
    return WatchTable(EPOCH)


def test_a_new_watch_is_answered_at_once(table: WatchTable[str]) -> None:
    """With nothing: the table has heard of the request no more than that."""
    assert stands(table.watch("a", watch(1, 10, Phase.RUNNING))) == (0, 0)
    assert table.watch("a", watch(1, 10, Phase.RUNNING)) is None
    assert len(table) == 1


@pytest.mark.parametrize(
    ("total", "phase"), [(11, Phase.RUNNING), (10, Phase.COMPLETED), (11, Phase.FAILED)]
)
def test_an_armed_watch_is_told_once(
    table: WatchTable[str], total: int, phase: int
) -> None:
    for _ in range(2):
        table.watch("a", watch(1, 10, Phase.RUNNING))

    ((peer, notice),) = table.progressed(progress(1, total, phase))

    assert (peer, notice) == (
        "a",
        Notice(PRINCIPAL, id_of(1), EPOCH, total, phase),
    )
    assert list(table.progressed(progress(1, total + 1, phase))) == []


def test_what_a_peer_knows_already_is_not_told(table: WatchTable[str]) -> None:
    """A notice may come later than the READ that saw the same."""
    for _ in range(2):
        table.watch("a", watch(1, 10, Phase.RUNNING))

    assert list(table.progressed(progress(1, 0, Phase.PREPARING))) == []
    assert list(table.progressed(progress(1, 10, Phase.RUNNING))) == []
    assert len(list(table.progressed(progress(1, 11, Phase.RUNNING)))) == 1


def test_news_between_two_watches_answers_the_second_at_once(
    table: WatchTable[str],
) -> None:
    table.watch("a", watch(1))
    assert list(table.progressed(progress(1, 5))) == []

    assert stands(table.watch("a", watch(1))) == (5, Phase.RUNNING)
    assert table.watch("a", watch(1, 5, Phase.RUNNING)) is None


def test_every_peer_of_a_request_is_told_and_nobody_else(
    table: WatchTable[str],
) -> None:
    for peer, number in (("a", 1), ("b", 1), ("c", 2)):
        table.watch(peer, watch(number))
        table.watch(peer, watch(number))

    assert [peer for peer, _ in table.progressed(progress(1, 1))] == ["a", "b"]


def test_another_principals_request_is_another(table: WatchTable[str]) -> None:
    for _ in range(2):
        table.watch("a", watch(1, principal=b"q" * 16))

    assert list(table.progressed(progress(1, 1))) == []


def test_a_request_of_another_epoch_is_answered_and_not_kept(
    table: WatchTable[str],
) -> None:
    """The READ that follows says 410."""
    assert stands(table.watch("a", watch(1, epoch=EPOCH - 1))) == (0, 0)
    assert stands(table.watch("a", watch(1, epoch=EPOCH - 1))) == (0, 0)
    assert len(table) == 0


def test_lost_notices_are_made_up_for(table: WatchTable[str]) -> None:
    """Who waits is told, who does not is answered at once; each once."""
    table.watch("armed", watch(1))
    table.watch("armed", watch(1))
    table.watch("told", watch(1))

    assert [peer for peer, _ in table.lost()] == ["armed"]
    assert table.watch("armed", watch(1)) is None
    assert table.watch("told", watch(1)) is not None
    assert table.watch("told", watch(1)) is None


def test_a_peer_has_the_most_watches_and_not_one_more(table: WatchTable[str]) -> None:
    """The one that was renewed first is over; it is new when it is renewed."""
    for number in range(WATCHES_MAX):
        assert table.make_room("a", (PRINCIPAL, id_of(number))) is None
        table.watch("a", watch(number))
    table.watch("a", watch(0))

    assert table.make_room("a", (PRINCIPAL, id_of(0))) is None
    assert table.make_room("b", (PRINCIPAL, id_of(WATCHES_MAX))) is None
    one_more = PRINCIPAL, id_of(WATCHES_MAX)
    assert table.make_room("a", one_more) == (PRINCIPAL, id_of(1))

    table.watch("a", watch(WATCHES_MAX))
    assert len(table) == WATCHES_MAX
    assert table.watch("a", watch(0)) is None


def test_what_is_over_leaves_nothing_behind(table: WatchTable[str]) -> None:
    table.watch("a", watch(1))
    table.watch("b", watch(1))
    table.watch("b", watch(2))

    table.forget("a", (PRINCIPAL, id_of(1)))
    table.forget("a", (PRINCIPAL, id_of(1)))
    assert len(table) == 2
    assert table.forget_peer("b") == [(PRINCIPAL, id_of(1)), (PRINCIPAL, id_of(2))]
    assert table.forget_peer("b") == []

    assert len(table) == 0
    assert table._of_peer == {}


class Waiting(RuleBasedStateMachine):
    """
    A device that makes progress, and a peer that reads, watches and waits for it as the
    gateway does, with everything on the way late.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table: WatchTable[str] = WatchTable(EPOCH)
        self.total = 0
        #: What the device has told and the table has not heard.
        self.told: list[Progress | None] = []
        #: What the peer knows by its last READ; whether it waits, and for what.
        self.known = 0
        self.waits = False
        self.notices = 0

    @rule()
    def progresses(self) -> None:
        self.total += 1
        if len(self.table):
            self.told.append(progress(1, self.total))

    @precondition(lambda self: self.told)
    @rule()
    def hears(self) -> None:
        told = self.told.pop(0)
        if told is None:
            self.notices += len(list(self.table.lost()))
        else:
            self.notices += len(list(self.table.progressed(told)))

    @precondition(lambda self: len(self.told) > 1)
    @rule(kept=st.integers(0, 3))
    def loses(self, kept: int) -> None:
        """The ring overflows: whatever was in it is gone, and that is told."""
        self.told = [*self.told[:kept], None]

    @precondition(lambda self: not self.waits)
    @rule()
    def reads_and_waits(self) -> None:
        self.known = self.total
        self.waits = True
        found = self.table.watch("a", watch(1, self.known, Phase.RUNNING))
        self.notices += found is not None

    @precondition(lambda self: self.waits and self.notices)
    @rule()
    def is_told(self) -> None:
        self.notices -= 1
        self.waits = False

    @invariant()
    def nobody_waits_for_what_has_happened(self) -> None:
        """Once everything told was heard, who waits with old knowledge has a notice."""
        if self.waits and self.known < self.total and not self.told:
            assert self.notices

    @invariant()
    def a_watch_has_one_notice_at_most(self) -> None:
        assert self.notices <= 1


TestWaiting = Waiting.TestCase
