"""
The checks of the grants file (`device.md` §16).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests.broker.bench import grants
from twisted_aotx.broker.errors import GrantsFileError
from twisted_aotx.broker.grantsfile import read_grants
from twisted_aotx.wire.packet import PACKET_BYTES_MAX


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "grants"
    path.write_bytes(grants(2))
    path.chmod(0o600)
    return path


def _refusal(path: Path) -> str:
    with pytest.raises(GrantsFileError) as caught:
        read_grants(str(path))
    assert caught.value.path == str(path)
    assert str(caught.value) == f"grants file {path}: {caught.value.reason}"
    return caught.value.reason


def _changed(offset: int, value: bytes) -> bytes:
    good = grants(2)
    return good[:offset] + value + good[offset + len(value) :]


@pytest.mark.parametrize("rows", [0, 1, 2, 1022])
def test_good_file(path: Path, rows: int) -> None:
    """The packet is the file, from no row to the most that fit."""
    path.write_bytes(grants(rows))

    assert read_grants(str(path)) == grants(rows)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o644, 0o755])
def test_others_may_read(path: Path, mode: int) -> None:
    path.chmod(mode)

    assert read_grants(str(path))


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_others_may_not_write(path: Path, mode: int) -> None:
    path.chmod(mode)

    assert _refusal(path) == "writable by group or others"


def test_missing(path: Path) -> None:
    path.unlink()

    assert _refusal(path) == "No such file or directory"


def test_link(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)

    assert _refusal(link)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_not_a_file(path: Path, kind: str) -> None:
    """A directory, and a pipe that nobody writes to, are refused at once."""
    path.unlink()
    if kind == "folder":
        path.mkdir(0o700)
    else:
        os.mkfifo(path, 0o600)

    assert _refusal(path) == "not a regular file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_foreign(path: Path) -> None:
    os.chown(path, 12345, 12345)

    assert _refusal(path) == "belongs to another user"


@pytest.mark.parametrize("size", [0, 127, PACKET_BYTES_MAX + 1, 1 << 20])
def test_size(path: Path, size: int) -> None:
    path.write_bytes(grants(2).ljust(size, b"\0")[:size])

    assert "128..65536" in _refusal(path)


@pytest.mark.parametrize(
    ("written", "named"),
    [
        pytest.param(_changed(0, b"aotxapi1"), "magic", id="magic"),
        pytest.param(_changed(8, b"\2"), "operation 2", id="operation"),
        pytest.param(
            _changed(88, b"\x7f"), "127 bytes and 2 rows", id="payload length"
        ),
        pytest.param(_changed(76, b"\3"), "3 rows", id="more rows than there are"),
        pytest.param(_changed(76, b"\1"), "1 rows", id="fewer rows than there are"),
        pytest.param(grants(2)[:-1], "128 bytes and 2 rows", id="cut"),
        pytest.param(grants(2) + b"\0", "128 bytes and 2 rows", id="longer"),
        pytest.param(grants(2)[:200], "128 bytes and 2 rows", id="cut in a row"),
    ],
)
def test_header_and_size_must_agree(path: Path, written: bytes, named: str) -> None:
    path.write_bytes(written)

    assert named in _refusal(path)


def test_locked_by_a_writer(path: Path) -> None:
    """A file that somebody holds exclusively is not read; a shared lock is fine."""
    with path.open("r+b") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        while_locked = _refusal(path)
        fcntl.flock(writer, fcntl.LOCK_SH)
        assert read_grants(str(path))

    assert while_locked == "locked by a writer"


def test_no_descriptor_is_left(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    read_grants(str(path))
    path.chmod(0o666)
    _refusal(path)

    assert len(os.listdir("/proc/self/fd")) == before
