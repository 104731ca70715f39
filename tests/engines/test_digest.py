"""
Digests of model files, and the cache that saves hashing them again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from twisted_aotx.engines import digest
from twisted_aotx.engines.digest import (
    file_sha256,
    models_directory,
    remember_sha256,
)
from twisted_aotx.engines.gguf import ModelFileError

DATA = b"weights"
DIGEST = hashlib.sha256(DATA).digest()
#: What a cache says that was tampered with, so that using it shows.
OTHER = hashlib.sha256(b"other").digest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/aotx/models/digests"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(DATA)
    return path


def entry(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


def test_the_digest_of_a_file(model: Path) -> None:
    assert file_sha256(model) == DIGEST
    assert file_sha256(model) == DIGEST


def test_a_known_file_is_not_read_again(model: Path) -> None:
    remember_sha256(model, OTHER)

    assert file_sha256(model) == OTHER


def test_a_name_is_nothing_and_the_file_everything(model: Path) -> None:
    remember_sha256(model, OTHER)
    other = model.with_name("other.gguf")
    model.rename(other)
    model.write_bytes(DATA)

    assert file_sha256(other) == OTHER
    assert file_sha256(model) == DIGEST


def test_another_size_is_another_file(model: Path) -> None:
    remember_sha256(model, OTHER)
    status = model.stat()
    model.write_bytes(DATA * 2)
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert file_sha256(model) == hashlib.sha256(DATA * 2).digest()


def test_another_time_of_change_is_another_file(model: Path) -> None:
    remember_sha256(model, OTHER)
    status = model.stat()
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns + 1))

    assert file_sha256(model) == DIGEST


def test_one_entry_for_a_file_however_often_it_changes(
    model: Path, cache: Path
) -> None:
    for size in range(5):
        model.write_bytes(DATA * size)
        file_sha256(model)

    assert entry(cache).name == f"{model.stat().st_dev:x}-{model.stat().st_ino:x}"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: b"",
        lambda text: text[:-2],
        lambda text: text + b"x",
        lambda text: text * 2,
        lambda text: text.replace(b" ", b"  "),
        lambda text: text.upper(),
        lambda text: b"\xff" * len(text),
        lambda text: b"0" * 1_000_000 + text,
    ],
)
def test_a_corrupt_entry_is_ignored_and_replaced(
    model: Path, cache: Path, spoil: Any
) -> None:
    remember_sha256(model, OTHER)
    path = entry(cache)
    good = path.read_bytes()
    path.write_bytes(spoil(good))

    assert file_sha256(model) == DIGEST
    assert path.read_bytes() == good.replace(
        OTHER.hex().encode(), DIGEST.hex().encode()
    )


def test_a_cache_that_cannot_be_made_is_done_without(
    model: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("in the way")

    assert file_sha256(model) == DIGEST
    assert (tmp_path / "cache").read_text() == "in the way"


def test_a_write_that_fails_leaves_nothing(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)

    assert file_sha256(model) == DIGEST
    assert list(cache.iterdir()) == []


def test_a_file_that_changes_while_it_is_read_has_no_digest(
    model: Path, cache: Path
) -> None:
    def change(_done: int, _whole: int) -> None:
        with model.open("ab") as other:
            other.write(b"more")

    with pytest.raises(ModelFileError, match="written to while it was read"):
        file_sha256(model, change)
    assert not cache.exists()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_sha256(tmp_path / "none.gguf")


def test_without_a_variable_the_cache_is_in_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in (None, ""):
        if value is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert models_directory() == tmp_path / ".cache/aotx/models"


def test_progress_is_told_for_each_part_of_a_large_file(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "PROGRESS_BYTES", 4)
    monkeypatch.setattr(digest, "_READ_BYTES", 2)
    told: list[tuple[int, int]] = []

    found = file_sha256(model, lambda done, whole: told.append((done, whole)))
    file_sha256(model, lambda done, whole: told.append((done, whole)))

    assert found == DIGEST
    assert told == [(0, 7), (4, 7)], "a known file is not read again"
