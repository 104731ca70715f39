"""
What the state store keeps, and when it refuses (`device.md` §11; D10, D11, D12).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.records import (
    Pool,
    batch,
    control,
    open_store,
    removal,
    row,
    stored,
)
from twisted_aotx.journal.errors import PolicyUnusable, StoreFull, StoreUnusable
from twisted_aotx.journal.schema import PART_BYTES
from twisted_aotx.journal.store import RESERVE_BYTES, Store
from twisted_aotx.orders import StoredPolicy

MAXIMUM = 2**64 - 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as store:
        yield store


def reopened(store: Store) -> Store:
    store.close()
    return open_store(store.path.parent)


# --- sources --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 1])
def test_a_source_comes_back_as_it_was(store: Store, size: int) -> None:
    pool = Pool()
    source = pool.source(bytes(n % 251 for n in range(size)))

    store.save(source, pool.read)

    assert max(pool.reads) <= PART_BYTES
    with reopened(store) as again:
        assert list(again.sources()) == [stored(source, pool)]


def test_sources_come_back_in_the_order_saved(store: Store) -> None:
    pool = Pool()
    sources = [
        pool.source(b"%d" % n, owner=owner, transfer=n)
        for n, owner in ((3, 2), (1, 1), (2, 1), (3, 1))
    ]
    for source in sources:
        store.save(source, pool.read)

    store.save(removal(owner=1, transfer=1), pool.read)

    with reopened(store) as again:
        left = [sources[0], *sources[2:]]
        assert list(again.sources()) == [stored(each, pool) for each in left]


def test_a_source_that_is_there_is_kept_as_it_is(store: Store) -> None:
    pool = Pool()
    source = pool.source(b"abc")
    store.save(source, pool.read)
    pool.reads.clear()

    store.save(source, pool.read)

    assert pool.reads == []
    assert list(store.sources()) == [stored(source, pool)]


def test_a_transfer_id_that_comes_again_has_its_new_content(store: Store) -> None:
    pool = Pool()
    store.save(pool.source(b"abc"), pool.read)
    new = pool.source(b"abcd")

    store.save(new, pool.read)

    assert list(store.sources()) == [stored(new, pool)]


def test_a_removal_of_nothing_changes_nothing(store: Store) -> None:
    pool = Pool()
    source = pool.source(b"abc", owner=1, transfer=1)
    store.save(source, pool.read)

    store.save(removal(owner=2, transfer=1), pool.read)
    store.save(removal(owner=1, transfer=2), pool.read)

    assert list(store.sources()) == [stored(source, pool)]


def test_a_removed_source_gives_its_pages_back(store: Store) -> None:
    pool = Pool()
    before = store.used_bytes()
    store.save(pool.source(bytes(3 * PART_BYTES)), pool.read)
    assert store.used_bytes() > 3 * PART_BYTES

    store.save(removal(), pool.read)

    assert store.used_bytes() == before


def test_a_source_whose_part_is_missing_is_not_given_back(store: Store) -> None:
    pool = Pool()
    store.save(pool.source(bytes(2 * PART_BYTES)), pool.read)
    store._connection.execute("DELETE FROM parts WHERE number = 1")

    with pytest.raises(StoreUnusable, match=r"state\.sqlite3: is damaged"):
        list(store.sources())


# --- policy and ledger ----------------------------------------------------------------


def test_a_new_store_has_no_policy(store: Store) -> None:
    assert store.policy() is None
    with reopened(store) as again:
        assert again.policy() is None


def test_the_last_control_state_comes_back(store: Store) -> None:
    store.save(control(2, review=True), Pool().read)
    last = control(MAXIMUM, review=True, paused=True, stopped=True)
    store.save(last, Pool().read)

    with reopened(store) as again:
        policy = again.policy()

    assert policy == StoredPolicy(
        control=last, frontier=0, saved_generation=0, ledger=()
    )


def test_a_batch_without_a_control_is_of_a_first_activation(store: Store) -> None:
    """`device.md` §14: control revision 1, review off, not paused, not stopped."""
    store.save(batch(1, row(), frontier=5), Pool().read)

    assert store.policy() == StoredPolicy(
        control=control(1), frontier=5, saved_generation=1, ledger=(row(),)
    )


def test_a_control_leaves_the_ledger_alone(store: Store) -> None:
    store.save(batch(1, row(), frontier=5), Pool().read)

    store.save(control(2, paused=True), Pool().read)

    assert store.policy() == StoredPolicy(
        control=control(2, paused=True),
        frontier=5,
        saved_generation=1,
        ledger=(row(),),
    )


def test_batches_add_up_per_principal_and_model(store: Store) -> None:
    store.save(batch(1, row(1, 1, (2, 20, 4)), row(0, 0, (1, 1, 1))), Pool().read)
    store.save(batch(2, row(1, 2, (1, 7, 0)), row(1, 1, (1, 0, 3))), Pool().read)
    store.save(batch(3, row(2, 1, (5, 5, 5)), frontier=99), Pool().read)

    with reopened(store) as again:
        policy = again.policy()

    assert policy is not None
    assert (policy.frontier, policy.saved_generation) == (99, 3)
    assert policy.ledger == (
        row(0, 0, (1, 1, 1)),
        row(1, 1, (3, 20, 7)),
        row(1, 2, (1, 7, 0)),
        row(2, 1, (5, 5, 5)),
    )


@pytest.mark.parametrize("value", [2**63 - 1, 2**63, MAXIMUM])
def test_every_u64_comes_back_exactly(store: Store, value: int) -> None:
    record = batch(value, row(1, 1, (value, value, value)), frontier=value)
    store.save(record, Pool().read)

    assert store.policy() == StoredPolicy(
        control=control(1),
        frontier=value,
        saved_generation=value,
        ledger=record.rows,
    )


def test_a_total_stands_at_its_maximum(store: Store) -> None:
    store.save(batch(1, row(1, 1, (1, MAXIMUM, MAXIMUM - 1))), Pool().read)
    store.save(batch(2, row(1, 1, (1, 1, 1))), Pool().read)

    policy = store.policy()

    assert policy is not None
    assert policy.ledger == (row(1, 1, (2, MAXIMUM, MAXIMUM)),)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE policy SET review = 2",
        "UPDATE policy SET paused = -1",
        "UPDATE policy SET stopped = 'no'",
        "UPDATE policy SET control_revision = 0",
        "UPDATE policy SET control_revision = 'x'",
        "UPDATE policy SET frontier = x'00'",
        "UPDATE policy SET saved_generation = 1.5",
        "UPDATE ledger SET requests = 'many'",
        "DELETE FROM policy",
    ],
)
def test_a_policy_that_cannot_be_is_unusable_and_stays_as_it_is(
    store: Store, damage: str
) -> None:
    """`device.md` §14, error: left after the operator restored the state."""
    pool = Pool()
    store.save(batch(1, row()), pool.read)
    store._connection.execute(damage)
    before = store._connection.execute("SELECT * FROM policy").fetchall()

    with pytest.raises(PolicyUnusable, match=r"state\.sqlite3: "):
        store.policy()

    store.save(control(7, paused=True), pool.read)
    store.save(batch(2, row()), pool.read)
    source = pool.source(b"abc")
    store.save(source, pool.read)
    assert store._connection.execute("SELECT * FROM policy").fetchall() == before
    with reopened(store) as again:
        with pytest.raises(PolicyUnusable):
            again.policy()
        assert list(again.sources()) == [stored(source, pool)]


def test_the_operator_may_remove_the_policy_state(store: Store) -> None:
    store.save(batch(1, row()), Pool().read)
    store._connection.execute("UPDATE policy SET review = 2")
    for table in ("policy", "ledger"):
        store._connection.execute(f"DELETE FROM {table}")

    with reopened(store) as again:
        assert again.policy() is None


# --- several records at once ----------------------------------------------------------


def test_records_that_are_saved_together_are_saved_all_or_none(tmp_path: Path) -> None:
    pool = Pool()
    cap = 4 << 20
    with open_store(tmp_path, cap) as store:
        with pytest.raises(StoreFull):
            store.save_together(
                [pool.source(b"abc"), control(2), pool.source(bytes(cap), transfer=2)],
                pool.read,
            )
        assert list(store.sources()) == []
        assert store.policy() is None

        source = pool.source(b"abc")
        store.save_together([source, control(2), removal(transfer=9)], pool.read)
        assert list(store.sources()) == [stored(source, pool)]


# --- the cap --------------------------------------------------------------------------


def filled(store: Store, pool: Pool, room: int) -> None:
    """Save sources of *room* bytes until one more does not fit."""
    for transfer in range(100, 10_000):
        try:
            store.save(pool.source(bytes(room), transfer=transfer), pool.read)
        except StoreFull:
            return
    raise AssertionError("it never was full")


@pytest.mark.parametrize("missing", [0, 1])
def test_a_source_fits_up_to_the_reserve_and_not_a_byte_more(
    tmp_path: Path, missing: int
) -> None:
    pool = Pool()
    source = pool.source(bytes(4 * RESERVE_BYTES))
    (tmp_path / "measured").mkdir()
    with open_store(tmp_path / "measured") as store:
        store.save(source, pool.read)
        needed = store.used_bytes()

    with open_store(tmp_path, needed + RESERVE_BYTES - missing) as store:
        empty = store.used_bytes()
        if missing:
            with pytest.raises(StoreFull, match="store_bytes"):
                store.save(source, pool.read)
            assert store.used_bytes() == empty
        else:
            store.save(source, pool.read)
            assert store.used_bytes() == needed


def test_a_store_full_of_sources_takes_controls_batches_and_removals(
    tmp_path: Path,
) -> None:
    pool = Pool()
    with open_store(tmp_path, 1 << 20) as store:
        filled(store, pool, 20_000)

        store.save(control(2), pool.read)
        store.save(batch(1, row()), pool.read)
        store.probe()
        store.save(removal(transfer=100), pool.read)
        store.save(pool.source(bytes(20_000), transfer=1), pool.read)


def test_a_store_over_its_cap_takes_removals_only(tmp_path: Path) -> None:
    pool = Pool()
    with open_store(tmp_path) as store:
        store.save(pool.source(bytes(1 << 20)), pool.read)
        used = store.used_bytes()

    with open_store(tmp_path, used - 1) as store:
        for record in (control(2), batch(1, row())):
            with pytest.raises(StoreFull):
                store.save(record, pool.read)
        with pytest.raises(StoreFull):
            store.probe()
        assert store.policy() is None

        store.save(removal(), pool.read)
        store.probe()
        store.save(control(2), pool.read)


def test_a_source_that_cannot_fit_is_not_read(tmp_path: Path) -> None:
    pool = Pool()
    with open_store(tmp_path, 1 << 20) as store, pytest.raises(StoreFull):
        store.save(pool.source(bytes(1 << 20)), pool.read)

    assert pool.reads == []


def test_a_probe_leaves_nothing(store: Store) -> None:
    pool = Pool()
    source = pool.source(b"abc")
    store.save(source, pool.read)
    used = store.used_bytes()

    store.probe()
    store.probe()

    assert store.used_bytes() == used
    assert list(store.sources()) == [stored(source, pool)]


def test_a_probe_that_was_cut_short_does_not_stop_later_ones(store: Store) -> None:
    store._connection.execute("CREATE TABLE probe (data BLOB)")

    with reopened(store) as again:
        again.probe()


def test_old_batches_make_room_and_totals_stay(tmp_path: Path) -> None:
    """A quarter of the cap holds increments; the oldest batches go as a whole."""
    rows = [row(n, 1, (1, 1, 1)) for n in range(64)]
    cap = 512 << 10
    bound = cap // 4 // 128
    with open_store(tmp_path, cap) as store:
        for generation in range(1, 40):
            store.save(batch(generation, *rows), Pool().read)

        count = store._connection.execute("SELECT count(*) FROM increments")
        assert bound - 64 <= count.fetchone()[0] <= bound
        batches = store._connection.execute(
            "SELECT saved_generation, (SELECT count(*) FROM increments "
            "WHERE batch = batches.id) FROM batches ORDER BY id"
        ).fetchall()
        assert batches == [(n, 64) for n in range(40 - bound // 64, 40)]
        policy = store.policy()
        assert policy is not None
        assert policy.ledger == tuple(row(n, 1, (39, 39, 39)) for n in range(64))
        pages = store.used_bytes()

        for generation in range(40, 80):
            store.save(batch(generation, *rows), Pool().read)
        assert store.used_bytes() <= pages + (16 << 10)
        assert pages < cap // 2
