"""
Opening `state.sqlite3`: whose it is, whether it can be trusted, how it is written.

Rules: a regular file, no symlink, of the effective user, not writable by others; its
mode becomes 0600, and so does that of SQLite's own files beside it. What is damaged,
belongs to another program or to a newer version is not touched.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

from twisted_aotx.journal.errors import StoreFailed, StoreUnusable, told_of
from twisted_aotx.journal.schema import APPLICATION_ID, VERSION, migrate

#: Name of the database in the state directory (`device.md` §16).
FILE_NAME: Final = "state.sqlite3"
#: Seconds that another connection's lock is waited for; a reader never takes one that
#: a writer must wait for.
LOCK_SECONDS: Final = 1.0
#: Bytes of the write-ahead log that are kept after a checkpoint.
LOG_BYTES_KEPT: Final = 4 << 20
_MODE_FORBIDDEN: Final = 0o022
_PRIVATE: Final = 0o600


def open_database(path: Path) -> sqlite3.Connection:
    """
    The database at *path* for its one writer, made if there is none.

    Raises:
        StoreUnusable: it is damaged, foreign or newer.
        StoreFailed: it cannot be opened or written.
    """
    with told_of(path):
        _check_file(path, os.O_RDWR | os.O_CREAT)
        connection = _connect(path, "rw")
        try:
            version = _version(path, connection)
            _prepare(path, connection)
            if version < VERSION:
                migrate(connection, version)
            _sync_folder(path.parent)
            _check_pages(path, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """
    The database at *path* for somebody who only reads, also while it is written.

    Raises:
        StoreUnusable: it is damaged, foreign, newer or older.
        StoreFailed: it cannot be opened.
    """
    with told_of(path):
        _check_file(path, os.O_RDONLY)
        connection = _connect(path, "ro")
        try:
            connection.execute("PRAGMA query_only = ON")
            if _version(path, connection) < VERSION:
                raise StoreUnusable(path, "no runtime of this version has used it yet")
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=LOCK_SECONDS,
        # Transactions are ours.
        isolation_level=None,
        # The thread that opens it reads it; another one writes it afterwards.
        check_same_thread=False,
    )


def _check_file(path: Path, how: int) -> None:
    """Before SQLite has it: closing the file would drop the locks of SQLite."""
    flags = how | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    if path.is_symlink():
        raise StoreFailed(path, "is a symbolic link; name the file itself")
    descriptor = os.open(path, flags, _PRIVATE)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StoreFailed(path, "is not a regular file")
        if status.st_uid != os.geteuid():
            owner, ours = status.st_uid, os.geteuid()
            raise StoreFailed(path, f"is owned by uid {owner}, not by uid {ours}")
        if status.st_mode & _MODE_FORBIDDEN:
            raise StoreFailed(path, "is writable by group or others; chmod go-rwx it")
        if how & os.O_RDWR:
            os.fchmod(descriptor, _PRIVATE)
    finally:
        os.close(descriptor)


def _version(path: Path, connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 for a file without any."""
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    if application == 0 and version == 0 and tables == 0:
        return 0
    if application != APPLICATION_ID:
        raise StoreUnusable(path, "is a database of another program")
    if version > VERSION:
        raise StoreUnusable(
            path,
            f"was written by a newer version: it has schema {version}, this version "
            f"knows {VERSION}",
        )
    return version


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreFailed(path, "its file system has no shared memory for SQLite")
    # A commit is on the disk before it returns.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")


def _check_pages(path: Path, connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreUnusable(path, f"is damaged ({found})")


def _number(connection: sqlite3.Connection, query: str) -> int:
    value: int
    (value,) = connection.execute(query).fetchone()
    return value


def _sync_folder(folder: Path) -> None:
    """Make the new file's name survive a crash, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
