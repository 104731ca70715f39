"""
The file in which a source waits until it is whole.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_aotx.errors import Problem
from twisted_aotx.gateway.media_spool import BLOCK_BYTES, LARGE_BYTES, Spool


@given(st.lists(st.binary(max_size=3 * BLOCK_BYTES), max_size=5))
def test_what_was_written_is_read_in_blocks(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    with Spool() as spool:
        for piece in pieces:
            spool.write(piece)

        assert spool.size == len(whole)
        assert spool.sha256 == hashlib.sha256(whole).digest()
        blocks = list(spool.blocks())

    assert b"".join(blocks) == whole
    assert all(len(block) == BLOCK_BYTES for block in blocks[:-1])
    assert all(1 <= len(block) <= BLOCK_BYTES for block in blocks)


def test_its_file_has_no_name_and_is_its_owner_s_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Spool() as spool:
        spool.write(bytes(2 * BLOCK_BYTES))

        assert list(tmp_path.iterdir()) == []
        assert spool._file is not None
        assert os.fstat(spool._file.fileno()).st_mode & 0o777 == 0o600


def test_there_is_no_file_before_there_is_a_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")

    with Spool() as spool:
        assert list(spool.blocks()) == []


@pytest.mark.parametrize("size", [LARGE_BYTES - 1, LARGE_BYTES])
def test_a_large_file_is_closed_by_a_thread(size: int) -> None:
    closed: list[str] = []

    class Watched(io.BytesIO):
        def close(self) -> None:
            closed.append(threading.current_thread().name)
            super().close()

    with Spool() as spool:
        spool._file = Watched()
        spool.write(bytes(size))
    for thread in threading.enumerate():
        if thread.name == "aotx-spool":
            thread.join()
    spool.close()

    here = threading.current_thread().name
    assert closed == [here if size < LARGE_BYTES else "aotx-spool"]


def test_no_place_for_files_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")

    with pytest.raises(Problem) as caught:
        fill(1)

    assert (caught.value.status, caught.value.code) == (429, "transport_limit")


def full_disk(buffering: int) -> Any:
    return open("/dev/full", "w+b", buffering=buffering)


@pytest.mark.parametrize("size", [1, BLOCK_BYTES + 1])
def test_a_full_disk_is_a_limit(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """
    Told when it is written, or at the latest when it is read.
    """
    monkeypatch.setattr(tempfile, "TemporaryFile", full_disk)

    with pytest.raises(Problem) as caught:
        fill(size)

    assert (caught.value.status, caught.value.code) == (429, "transport_limit")


def fill(size: int) -> None:
    with Spool() as spool:
        spool.write(bytes(size))
        list(spool.blocks())
