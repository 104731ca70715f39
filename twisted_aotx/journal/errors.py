"""
What goes wrong with the state store. No text here holds a byte or an id of a client.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from twisted_aotx.errors import AOTXError


@attrs.define(slots=False)
class StoreError(AOTXError):
    """
    The state store cannot do what was asked; it holds what it held. Never raised
    directly.
    """

    #: The database file.
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class StoreFull(StoreError):
    """
    The disk is full, or the store would be larger than its cap [D10].
    """


class StoreFailed(StoreError):
    """
    The disk or the file system refused.
    """


class StoreUnusable(StoreError):
    """
    The file is damaged, is something else, or was written by a newer version.
    """


class PolicyUnusable(StoreError):
    """
    The saved policy state cannot be used; the rest of the store can (`device.md` §14).
    """


#: Primary result codes of SQLite that say that the file itself is broken.
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
#: The low byte of an extended result code is the primary one.
_PRIMARY: Final = 0xFF


@contextmanager
def told_of(path: Path) -> Iterator[None]:
    """Turn what SQLite or the system raises about *path* into a `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _store_error(path, error) from None
    except OSError as error:
        raise StoreFailed(path, error.strerror or str(error)) from None


def _store_error(path: Path, error: sqlite3.Error) -> StoreError:
    # What is not an answer of SQLite, a programming error say, has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code in _DAMAGED:
        return StoreUnusable(path, f"is damaged ({error})")
    kind = StoreFull if code == sqlite3.SQLITE_FULL else StoreFailed
    return kind(path, f"{error} ({name})")
