"""
Who may have written a configuration file, and what JSON it may hold (`http.md` §9, §3).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from twisted_aotx.config.files import FILE_BYTES_MAX, read_object
from twisted_aotx.errors import ConfigErrors


def write(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def reason_of(path: Path) -> str:
    with pytest.raises(ConfigErrors) as caught:
        read_object(path)
    (error,) = caught.value.errors
    assert error.path == ""
    return error.reason


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o644, 0o755])
def test_a_file_that_only_its_owner_can_write_is_read(
    tmp_path: Path, mode: int
) -> None:
    path = write(tmp_path / "a.json", b'{"a": [1, "\xc3\xa9"]}', mode)

    assert read_object(path) == {"a": [1, "é"]}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "a.json", b"{}", mode)

    assert "writable by group or others" in reason_of(path)


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.json", b"{}")
    link = tmp_path / "b.json"
    link.symlink_to("a.json")

    assert "symbolic link" in reason_of(link)


def test_a_missing_file_is_named_as_missing(tmp_path: Path) -> None:
    assert "No such file" in reason_of(tmp_path / "none.json")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "not a regular file" in reason_of(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)

    assert "not a regular file" in reason_of(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", b"{}")
    os.chown(path, 65534, -1)

    assert "owned by uid 65534" in reason_of(path)


def test_the_size_limit_is_exact(tmp_path: Path) -> None:
    full = b"{}" + b" " * (FILE_BYTES_MAX - 2)

    assert read_object(write(tmp_path / "a.json", full)) == {}
    assert "larger than 1048576" in reason_of(write(tmp_path / "b.json", full + b" "))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":1}}',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'{"a":' * 8 + b"{}" + b"}" * 8,
    ],
)
def test_what_is_not_strict_json_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "not strict JSON" in reason_of(write(tmp_path / "a.json", data))
