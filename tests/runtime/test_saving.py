"""
The store's thread: order, results, groups, the hold and its end (D10, D12).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.journal.records import Pool, batch, control, removal, row, stored
from tests.runtime.doubles import PATIENCE_SECONDS, MemoryDevice
from twisted_aotx.journal.errors import StoreFailed
from twisted_aotx.journal.store import Store
from twisted_aotx.journal.writer import ReadBytes
from twisted_aotx.orders import StoreRecord
from twisted_aotx.runtime.saving import (
    GROUP_BYTES,
    GROUP_RECORDS,
    PROBE_SECONDS,
    Saver,
    groups,
)

Lines = Callable[[], list[str]]


class BrokenStore(Store):
    """
    A real store before which a disk can be put that refuses.

    Attributes:
        breaks: Whether it refuses to write.
        hides: Whether it refuses to tell how large it is.
        transactions: How many records each one had.
    """

    breaks = False
    hides = False
    transactions: list[int]

    def save_together(
        self, records: Sequence[StoreRecord], read_bytes: ReadBytes
    ) -> None:
        self.transactions.append(len(records))
        if self.breaks:
            raise StoreFailed(self.path, "disk I/O error")
        super().save_together(records, read_bytes)

    def probe(self) -> None:
        if self.breaks:
            raise StoreFailed(self.path, "disk I/O error")
        super().probe()

    def used_bytes(self) -> int:
        if self.hides:
            raise StoreFailed(self.path, "disk I/O error")
        return super().used_bytes()


class Bench:
    """
    A saver that the test turns, its device, store, pool of bytes and clock.
    """

    def __init__(self, folder: Path, store_bytes: int = 1 << 30) -> None:
        self.device = MemoryDevice()
        self.store = BrokenStore(folder, store_bytes=store_bytes, now=lambda: 1)
        self.store.transactions = []
        self.pool = Pool()
        self.now = 100.0
        self.saver = Saver(self.device, self.store, lambda: self.now)

    def publish(self, *records: StoreRecord) -> None:
        self.device.pool = self.pool.bytes
        self.device.record(*records)

    def turn(self) -> bool:
        return self.saver.turn()

    def is_held(self) -> bool:
        return self.device.held

    def close(self) -> None:
        self.store.close()
        self.saver.free()
        self.device.free()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capturedLogs() as events:
        yield lambda: [
            f"{event['log_level'].name}: {formatEvent(event)}" for event in events
        ]


def test_records_are_saved_in_order_and_finished(bench: Bench) -> None:
    sources = [bench.pool.source(b"%d" % n, transfer=n) for n in range(3)]
    bench.publish(
        *(sources[0], sources[1], removal(transfer=0), control(2)),
        *(batch(1, row()), sources[2]),
    )

    assert bench.turn()

    assert bench.device.results == [True] * 6
    assert bench.device.log == ["ring"]
    left = [stored(each, bench.pool) for each in sources[1:]]
    assert list(bench.store.sources()) == left
    policy = bench.store.policy()
    assert policy is not None
    assert (policy.control, policy.saved_generation) == (control(2), 1)
    assert not bench.turn()


@pytest.mark.parametrize("batches", [1, 3])
def test_what_is_saved_is_told_so_though_its_size_cannot_be_read(
    bench: Bench, batches: int
) -> None:
    """Told otherwise, the device would have the same usage saved once more."""
    bench.store.hides = True
    bench.publish(*(batch(n, row(counts=(1, 10, 5))) for n in range(1, batches + 1)))

    bench.turn()

    assert bench.device.results == [True] * batches
    assert bench.store.transactions == [batches]
    assert not bench.is_held()
    policy = bench.store.policy()
    assert policy is not None
    assert policy.ledger == (row(counts=(batches, 10 * batches, 5 * batches)),)


def test_records_that_wait_together_share_a_transaction(bench: Bench) -> None:
    bench.publish(*(control(n) for n in range(2, 2 + GROUP_RECORDS + 1)))

    bench.turn()

    assert bench.store.transactions == [GROUP_RECORDS, 1]
    assert bench.saver.state.saved == GROUP_RECORDS + 1


def test_groups_end_at_their_bounds() -> None:
    pool = Pool()
    half = pool.source(bytes(GROUP_BYTES // 2))
    more = pool.source(bytes(GROUP_BYTES // 2 + 1))
    large = pool.source(bytes(GROUP_BYTES + 1))
    small = control(2)

    def cut(*records: StoreRecord) -> list[int]:
        return [len(group) for group in groups(records)]

    assert cut() == []
    assert cut(half, half, small) == [3]
    assert cut(half, small, more) == [2, 1]
    assert cut(large) == [1]
    assert cut(small, large, small) == [1, 1, 1]
    assert cut(*[small] * GROUP_RECORDS) == [GROUP_RECORDS]
    assert cut(*[small] * (GROUP_RECORDS + 1)) == [GROUP_RECORDS, 1]


def test_each_record_of_a_group_that_fails_has_its_own_result(tmp_path: Path) -> None:
    """One source is over the cap: the others are saved, in order."""
    bench = Bench(tmp_path, 1 << 20)
    large = bench.pool.source(bytes(1 << 20), transfer=7)
    small = bench.pool.source(b"abc", transfer=8)
    bench.publish(control(2), large, small, removal(transfer=9))

    bench.turn()

    assert bench.device.results == [True, False, True, True]
    assert bench.store.transactions == [4, 1, 1, 1, 1]
    assert list(bench.store.sources()) == [stored(small, bench.pool)]
    assert bench.is_held()
    state = bench.saver.state
    assert (state.saved, state.failed) == (3, 1)
    assert state.store_bytes == bench.store.used_bytes()
    bench.close()


def test_the_hold_is_set_before_the_result_is_there(bench: Bench) -> None:
    bench.store.breaks = True
    seen: list[bool] = []
    bench.device.finish_record = (  # type: ignore[method-assign]
        lambda saved: seen.append(bench.device.held)
    )
    bench.publish(control(2))

    bench.turn()

    assert seen == [True]


def test_a_hold_ends_with_the_first_probe_that_works(
    bench: Bench, lines: Lines
) -> None:
    """Probes are PROBE_SECONDS apart; each change is one line, with the reason."""
    bench.store.breaks = True
    bench.publish(control(2), control(3))
    bench.turn()
    assert bench.device.results == [False, False]
    holds = [entry for entry in bench.device.log if entry.startswith("hold")]
    assert holds == ["hold True"]

    assert bench.saver.wait_ms() == PROBE_SECONDS * 1000
    bench.now += PROBE_SECONDS
    assert bench.saver.wait_ms() == 0
    bench.turn()
    assert bench.is_held()
    assert bench.saver.wait_ms() == PROBE_SECONDS * 1000

    bench.store.breaks = False
    bench.now += PROBE_SECONDS - 0.001
    bench.turn()
    assert bench.is_held()
    bench.now += 0.001
    bench.turn()

    assert not bench.is_held()
    assert bench.saver.wait_ms() is None
    assert lines() == [
        "error: the state store cannot write, what would change state is refused until "
        f"it can: {bench.store.path}: disk I/O error",
        "info: the state store writes again, after 2 s",
    ]
    bench.publish(control(4))
    bench.turn()
    assert bench.device.results == [False, False, True]


def test_a_hold_of_a_full_store_ends_as_there_is_room_for_controls(
    tmp_path: Path,
) -> None:
    """Sources leave a reserve, so that a client can remove one [D10]."""
    bench = Bench(tmp_path, 1 << 20)
    bench.publish(bench.pool.source(bytes(1 << 20)))
    bench.turn()
    assert bench.is_held()

    bench.now += PROBE_SECONDS
    bench.turn()

    assert not bench.is_held()
    bench.close()


def test_records_on_their_way_are_tried_while_held(bench: Bench) -> None:
    bench.store.breaks = True
    bench.publish(control(2))
    bench.turn()
    bench.store.breaks = False
    bench.publish(control(3))

    bench.turn()

    assert bench.device.results == [False, True]
    assert bench.is_held()


def test_the_time_of_a_transaction_is_told(bench: Bench) -> None:
    save_together = bench.store.save_together

    def slowly(records: Sequence[StoreRecord], read_bytes: ReadBytes) -> None:
        bench.now += 0.25
        save_together(records, read_bytes)

    bench.store.save_together = slowly  # type: ignore[method-assign]
    bench.publish(control(2))

    bench.turn()

    assert bench.saver.state.last_seconds == 0.25


# --- the thread -----------------------------------------------------------------------


def wait_until(reached: Callable[[], object]) -> None:
    ticks = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.002)):
        if reached():
            return
        ticks.wait(0.002)
    raise AssertionError("nothing more happened")


def test_the_thread_saves_what_the_doorbell_says_and_what_is_left_at_the_end(
    bench: Bench,
) -> None:
    thread = threading.Thread(target=bench.saver.run)
    thread.start()
    bench.publish(control(2))
    wait_until(lambda: bench.device.results == [True])

    # Published without a ring: only the end finds it.
    bench.device._records.append(control(3))
    bench.saver.stop()
    thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert bench.device.results == [True, True]
    with Store(bench.store.path.parent, store_bytes=1 << 30, now=lambda: 1) as again:
        policy = again.policy()
    assert policy is not None
    assert policy.control == control(3)


def test_a_store_that_is_full_from_the_start_is_held_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4096)
    thread = threading.Thread(target=bench.saver.run)
    thread.start()
    wait_until(lambda: bench.device.held)

    bench.saver.stop()
    thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert bench.saver.state.failed == 0
    bench.close()


def test_the_bytes_of_the_store_are_told_from_the_start(bench: Bench) -> None:
    bench.saver.probe()

    used = bench.store.used_bytes()
    assert 0 < bench.saver.state.store_bytes == used < bench.store.path.stat().st_size
