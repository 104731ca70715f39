"""
The database file: whose it may be, and what a disk that refuses does to it (D10, D12).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journal.records import Pool, batch, control, open_store, removal, row, stored
from twisted_aotx.journal.database import FILE_NAME
from twisted_aotx.journal.errors import (
    StoreError,
    StoreFailed,
    StoreFull,
    StoreUnusable,
)
from twisted_aotx.journal.schema import APPLICATION_ID, VERSION
from twisted_aotx.journal.store import Store
from twisted_aotx.orders import SourceRecord


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


def refused(path: Path, kind: type[StoreError], reason: str) -> None:
    with pytest.raises(kind) as caught:
        open_store(path.parent)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


# --- the file -------------------------------------------------------------------------


def test_a_new_file_is_for_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        with open_store(path.parent) as store:
            store.save(control(), Pool().read)
            modes = {
                each.name: stat.S_IMODE(each.stat().st_mode)
                for each in path.parent.iterdir()
            }
    finally:
        os.umask(before)

    names = {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
    assert modes == dict.fromkeys(names, 0o600)


def test_a_file_that_others_could_read_no_longer_is(path: Path) -> None:
    open_store(path.parent).close()
    path.chmod(0o644)

    open_store(path.parent).close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_could_write_is_refused(path: Path, mode: int) -> None:
    open_store(path.parent).close()
    path.chmod(mode)

    refused(path, StoreFailed, "is writable by group or others")


def test_a_symbolic_link_is_refused(path: Path) -> None:
    path.symlink_to(path.with_name("other"))

    refused(path, StoreFailed, "is a symbolic link")
    assert not path.with_name("other").exists()


def test_what_is_no_file_is_refused(path: Path) -> None:
    path.mkdir()

    refused(path, StoreFailed, "directory")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(path: Path) -> None:
    open_store(path.parent).close()
    os.chown(path, 12345, -1)

    refused(path, StoreFailed, "is owned by uid 12345")


# --- its content ----------------------------------------------------------------------


def test_its_numbers_say_what_it_is(path: Path) -> None:
    open_store(path.parent).close()

    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_commit_waits_for_the_disk(path: Path) -> None:
    """2 is FULL: after each commit the log is synchronised (D12)."""
    with open_store(path.parent) as store:
        found = store._connection.execute("PRAGMA synchronous").fetchone()

    assert found == (2,)


def test_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    open_store(path.parent).close()
    sql(path, f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()

    refused(path, StoreUnusable, f"newer version: it has schema {VERSION + 1}")
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    sql(path, "CREATE TABLE songs (title TEXT)")
    before = path.read_bytes()

    refused(path, StoreUnusable, "another program")
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, but longer than its header is: " * 100)

    refused(path, StoreUnusable, "is damaged")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch(0o600)

    with open_store(path.parent) as store:
        assert list(store.sources()) == []


def test_a_damaged_page_refuses_the_start(path: Path) -> None:
    with open_store(path.parent) as store:
        pool = Pool()
        for transfer in range(40):
            store.save(pool.source(bytes(3000), transfer=transfer), pool.read)
    whole, page = path.read_bytes(), 4096
    pages = range(page, len(whole), page)

    reasons = []
    for at in pages:
        path.write_bytes(whole[:at] + b"\xff" * page + whole[at + page :])
        reasons.append(reason_of_refusal(path))

    assert len(pages) > 40
    assert set(reasons) == {"is damaged"}


def reason_of_refusal(path: Path) -> str:
    try:
        with open_store(path.parent) as store:
            list(store.sources())
    except StoreUnusable as error:
        return error.reason.split(" (")[0]
    return ""


def test_a_file_that_was_cut_refuses_the_start(path: Path) -> None:
    with open_store(path.parent) as store:
        pool = Pool()
        store.save(pool.source(bytes(50_000)), pool.read)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)

    refused(path, StoreUnusable, "is damaged")


# --- the disk -------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB; unmounted in the end, whatever happens."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root and the right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_refuses_and_nothing_that_was_saved_is_lost(
    small_disk: Path,
) -> None:
    pool = Pool()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(5 << 20))
    with open_store(small_disk) as store:
        saved = save_until_full(store, pool)
        assert saved
        # Room that the log has kept is used up, too.
        probe_until_full(store, small_disk / "filler")
        assert list(store.sources()) == [stored(each, pool) for each in saved]

        ballast.unlink()
        store.probe()
        store.save(removal(transfer=0), pool.read)
        store.save(control(2), pool.read)
        store.save(batch(1, row()), pool.read)

    with open_store(small_disk) as store:
        assert list(store.sources()) == [stored(each, pool) for each in saved[1:]]
        policy = store.policy()
        assert policy is not None
        assert policy.ledger == (row(),)


def save_until_full(store: Store, pool: Pool) -> list[SourceRecord]:
    """What was saved before the disk was full."""
    saved: list[SourceRecord] = []
    while len(saved) < 1000:
        source = pool.source(os.urandom(50_000), transfer=len(saved))
        try:
            store.save(source, pool.read)
        except StoreFull:
            return saved
        saved.append(source)
    raise AssertionError("the disk never was full")


def probe_until_full(store: Store, filler: Path) -> None:
    for _ in range(100):
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        try:
            store.probe()
        except StoreFull:
            return
    raise AssertionError("a full disk was never seen")


def test_a_disk_that_became_read_only_refuses(small_disk: Path) -> None:
    pool = Pool()
    source = pool.source(b"abc")
    with open_store(small_disk) as store:
        store.save(source, pool.read)
    remount(small_disk, "ro")

    refused(small_disk / FILE_NAME, StoreFailed, "Read-only file system")

    remount(small_disk, "rw")
    with open_store(small_disk) as store:
        assert list(store.sources()) == [stored(source, pool)]


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def test_a_store_that_somebody_else_locks_refuses_and_goes_on_later(path: Path) -> None:
    with open_store(path.parent) as store:
        # An operator's shell with an open transaction.
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store._connection.execute("PRAGMA busy_timeout = 1")

        with pytest.raises(StoreFailed, match="locked"):
            store.save(control(), Pool().read)
        with pytest.raises(StoreFailed, match="locked"):
            store.probe()

        other.execute("ROLLBACK")
        other.close()
        store.probe()
        store.save(control(), Pool().read)


def test_bytes_that_cannot_be_read_leave_the_store_as_it_was(path: Path) -> None:
    pool = Pool()

    def read(record: SourceRecord, start: int, size: int) -> bytes:
        if start:
            raise OSError(5, "Input/output error")
        return bytes(size)

    with open_store(path.parent) as store:
        with pytest.raises(StoreFailed, match="Input/output error"):
            store.save(pool.source(bytes(3 << 20)), read)
        assert list(store.sources()) == []
