"""
Numbers of the database, and a step to a newer version that cannot be done.
"""

from __future__ import annotations

import sqlite3

import pytest

from twisted_aotx.journal.schema import VERSION, migrate, read_u64, stored

EDGES = (0, 1, 2**63 - 1, 2**63, 2**64 - 1)


@pytest.mark.parametrize("value", EDGES)
def test_every_u64_comes_back(value: int) -> None:
    assert -(2**63) <= stored(value) < 2**63
    assert read_u64(stored(value)) == value


@pytest.mark.parametrize("value", [-1, 2**64])
def test_what_is_no_u64_is_not_stored(value: int) -> None:
    with pytest.raises(ValueError, match="is no u64"):
        stored(value)


@pytest.mark.parametrize("column", [None, "1", b"1", 1.0])
def test_what_is_no_number_is_not_read(column: object) -> None:
    with pytest.raises(ValueError, match="is no number"):
        read_u64(column)


def test_a_migration_that_fails_leaves_the_database_as_it_was() -> None:
    """One of its tables is there already, whoever made it."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE ledger (whose INTEGER)")
    tables = "SELECT name, sql FROM sqlite_master ORDER BY name"
    before = connection.execute(tables).fetchall()

    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, 0)

    assert connection.execute(tables).fetchall() == before
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.execute("DROP TABLE ledger")
    migrate(connection, 0)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()
