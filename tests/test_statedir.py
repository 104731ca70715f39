"""
The state directory (`device.md` §11, §16; D3).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from twisted_aotx.statedir import (
    EPOCH_MAX,
    StateDirectory,
    StateDirectoryError,
    StateDirectoryLocked,
)


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    state = StateDirectory(tmp_path)
    state.lock()
    return state


def test_lock_holds_our_pid(state: StateDirectory, tmp_path: Path) -> None:
    """The lock file is private and names the process that holds it."""
    lock = tmp_path / "service.lock"

    assert lock.read_bytes() == b"%d\n" % os.getpid()
    assert lock.stat().st_mode & 0o777 == 0o600


def test_second_lock_is_refused(state: StateDirectory, tmp_path: Path) -> None:
    """A second runtime learns who is there and changes nothing."""
    with pytest.raises(StateDirectoryLocked) as caught:
        StateDirectory(tmp_path).lock()

    assert caught.value.pid == os.getpid()
    assert str(caught.value) == (
        f"{tmp_path}/service.lock: the state directory is in use by "
        f"process {os.getpid()}"
    )
    assert (tmp_path / "service.lock").read_bytes() == b"%d\n" % os.getpid()


def test_unlock_lets_the_next_one_in(state: StateDirectory, tmp_path: Path) -> None:
    """After unlock, which may be repeated, the directory can be locked again."""
    state.unlock()
    state.unlock()

    assert (tmp_path / "service.lock").read_bytes() == b""
    StateDirectory(tmp_path).lock()


def test_lock_goes_with_its_process(tmp_path: Path) -> None:
    """A killed runtime holds nothing; what it wrote is replaced."""
    script = (
        "import os, sys; from twisted_aotx.statedir import StateDirectory;"
        "StateDirectory(sys.argv[1]).lock(); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    left = (tmp_path / "service.lock").read_bytes()

    StateDirectory(tmp_path).lock()

    assert ended.returncode == -9
    assert left != b""
    assert (tmp_path / "service.lock").read_bytes() == b"%d\n" % os.getpid()


def test_longer_pid_is_replaced_whole(tmp_path: Path) -> None:
    """What stood in the file before does not show through."""
    (tmp_path / "service.lock").write_bytes(b"123456789012345\n")

    StateDirectory(tmp_path).lock()

    assert (tmp_path / "service.lock").read_bytes() == b"%d\n" % os.getpid()


@pytest.mark.parametrize("name", ["link", "folder", "pipe"])
def test_lock_file_that_is_none(tmp_path: Path, name: str) -> None:
    """A link, a directory or a pipe in its place refuses, and nobody waits."""
    lock = tmp_path / "service.lock"
    if name == "link":
        lock.symlink_to(tmp_path / "elsewhere")
    elif name == "folder":
        lock.mkdir()
    else:
        os.mkfifo(lock)

    with pytest.raises(StateDirectoryError, match=r"service\.lock"):
        StateDirectory(tmp_path).lock()

    assert not (tmp_path / "elsewhere").exists()


def test_missing_directory(tmp_path: Path) -> None:
    """A directory that is not there is not made."""
    with pytest.raises(StateDirectoryError, match="No such file or directory"):
        StateDirectory(tmp_path / "var").lock()


def test_epoch_counts_from_one(state: StateDirectory, tmp_path: Path) -> None:
    """1 at the first activation, then one more each time, as decimal and newline."""
    epochs = [state.raise_epoch() for _ in range(11)]

    assert epochs == list(range(1, 12))
    assert (tmp_path / "epoch").read_bytes() == b"11\n"
    assert (tmp_path / "epoch").stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "epoch",
        "service.lock",
    ]


def test_epoch_survives_a_restart(state: StateDirectory, tmp_path: Path) -> None:
    """The next activation goes on where this one was."""
    state.raise_epoch()
    state.unlock()
    again = StateDirectory(tmp_path)
    again.lock()

    assert again.raise_epoch() == 2


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"\n",
        b"7",
        b"07\n",
        b"-1\n",
        b"+1\n",
        b" 7\n",
        b"7 \n",
        b"7\r\n",
        b"7\n\n",
        b"7\n8\n",
        b"seven\n",
        b"1_0\n",
        "٣\n".encode(),
        b"0x7\n",
        b"18446744073709551616\n",
        b"99999999999999999999\n",
        b"9" * 100,
        b"7\n" + bytes(100),
    ],
)
def test_not_a_counter(state: StateDirectory, tmp_path: Path, written: bytes) -> None:
    """What is not a counter refuses the start and stays as it is."""
    (tmp_path / "epoch").write_bytes(written)

    with pytest.raises(StateDirectoryError, match="not a counter"):
        state.raise_epoch()

    assert (tmp_path / "epoch").read_bytes() == written


def test_last_epoch(state: StateDirectory, tmp_path: Path) -> None:
    """2^64 - 1 is reached and not passed."""
    (tmp_path / "epoch").write_bytes(b"%d\n" % (EPOCH_MAX - 1))

    assert state.raise_epoch() == 2**64 - 1
    with pytest.raises(StateDirectoryError, match="maximum"):
        state.raise_epoch()

    assert (tmp_path / "epoch").read_bytes() == b"18446744073709551615\n"


@pytest.mark.parametrize("name", ["link", "folder"])
def test_epoch_file_that_is_none(
    state: StateDirectory, tmp_path: Path, name: str
) -> None:
    """A link or a directory in its place refuses the start."""
    (tmp_path / "elsewhere").write_bytes(b"7\n")
    if name == "link":
        (tmp_path / "epoch").symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "epoch").mkdir()

    with pytest.raises(StateDirectoryError, match="epoch"):
        state.raise_epoch()

    assert (tmp_path / "elsewhere").read_bytes() == b"7\n"


def test_left_over_of_a_killed_process(state: StateDirectory, tmp_path: Path) -> None:
    """A half-written new counter is ignored and replaced."""
    (tmp_path / "epoch").write_bytes(b"41\n")
    (tmp_path / "epoch.new").write_bytes(b"4")

    assert state.raise_epoch() == 42
    assert not (tmp_path / "epoch.new").exists()


def test_disk_error(
    state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A counter that could not be made durable is not used."""
    (tmp_path / "epoch").write_bytes(b"41\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateDirectoryError, match="No space left on device"):
        state.raise_epoch()

    assert (tmp_path / "epoch").read_bytes() == b"41\n"


def test_order_of_durability(
    state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file is on the disk before it takes the name, the name before the use."""
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def traced_fsync(descriptor: int) -> None:
        steps.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def traced_rename(source: Path, target: Path) -> None:
        steps.append(f"{source.name} to {target.name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(os, "rename", traced_rename)
    state.raise_epoch()

    assert steps == ["epoch.new", "epoch.new to epoch", tmp_path.name]
