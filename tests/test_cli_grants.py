"""
`aotx grants --reload` before a runtime that the test plays (`http.md` §10).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.processes import edit
from tests.test_cli import aotx, mode_of
from twisted_aotx import cli_grants
from twisted_aotx.config.initial import First, make_state_directory
from twisted_aotx.errors import ConfigErrors
from twisted_aotx.grants_state import GrantsState
from twisted_aotx.statedir import StateDirectory


class Played:
    """
    A runtime that holds the lock in this process and does what the test says on SIGHUP.
    """

    def __init__(self, state: Path) -> None:
        self.path = state
        self.grants = state / "grants"
        self.directory = StateDirectory(state)
        self.directory.lock()
        self.said = GrantsState(
            pid=os.getpid(),
            grants=self.grants,
            reloads=0,
            revision=1,
            digest=self.digest(),
        )
        self.said.write(state)
        self.hangups = 0
        self.on_hangup: Callable[[], None] = lambda: None

    def digest(self) -> bytes:
        return hashlib.sha256(self.grants.read_bytes()).digest()

    def say(self, **changes: Any) -> None:
        changes = {"reloads": self.said.reloads + 1, **changes}
        self.said = attrs.evolve(self.said, **changes)
        self.said.write(self.path)

    def accept(self) -> None:
        self.say(revision=2, digest=self.digest(), judged=self.digest(), reasons=())

    def hung_up(self, _number: int, _frame: object) -> None:
        self.hangups += 1
        self.on_hangup()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Played]:
    state = tmp_path / "var"
    make_state_directory(state, First(host="127.0.0.1", port=8081, now=1))
    runtime = Played(state)
    before = signal.signal(signal.SIGHUP, runtime.hung_up)
    runtime.on_hangup = runtime.accept
    yield runtime
    signal.signal(signal.SIGHUP, before)
    runtime.directory.unlock()


def raise_revision(runtime: Played, revision: int = 2) -> None:
    edit(runtime.path / "gateway.json", revision=str(revision))


def test_writes_signals_waits_and_says_what_is_in_force(runtime: Played) -> None:
    raise_revision(runtime)

    result = aotx("grants", "--reload", runtime.path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{runtime.grants}: revision 2 is in force, 1 principal(s)\n"
    )
    assert runtime.hangups == 1
    assert mode_of(runtime.grants) == 0o600


def test_another_configuration_for_the_same_runtime(
    runtime: Played, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text((runtime.path / "gateway.json").read_text())
    other.chmod(0o600)
    edit(other, revision="2", principals=[])

    result = aotx("grants", "--reload", runtime.path, "--config", other)

    assert result.exit_code == 0
    assert "revision 2 is in force, 0 principal(s)" in result.stdout


def test_the_table_lies_where_the_runtime_reads_it(
    runtime: Played, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(runtime.grants.read_bytes())
    runtime.grants = elsewhere
    runtime.say(grants=elsewhere, reloads=0)
    raise_revision(runtime)

    assert aotx("grants", "--reload", runtime.path).exit_code == 0
    assert elsewhere.read_bytes() != (runtime.path / "grants").read_bytes()


def test_a_refusal_is_its_reasons_and_exit_1(runtime: Played) -> None:
    raise_revision(runtime)
    runtime.on_hangup = lambda: runtime.say(
        judged=runtime.digest(), reasons=("the device refused it, status 400",)
    )

    result = aotx("grants", "--reload", runtime.path)

    assert (result.exit_code, result.stdout) == (1, "")
    first, second = result.stderr.splitlines()
    assert first == "the device refused it, status 400"
    assert second.startswith("revision 1 stays in force; ")


def test_a_file_that_the_runtime_could_not_read_is_a_refusal(runtime: Played) -> None:
    raise_revision(runtime)
    runtime.on_hangup = lambda: runtime.say(reasons=("belongs to another user",))

    result = aotx("grants", "--reload", runtime.path)

    assert result.exit_code == 1
    assert result.stderr.startswith("belongs to another user\n")


def test_a_table_in_force_with_a_configuration_that_is_not(runtime: Played) -> None:
    raise_revision(runtime)

    def accept_half() -> None:
        runtime.accept()
        runtime.say(reasons=("key: cannot be read",))

    runtime.on_hangup = accept_half
    result = aotx("grants", "--reload", runtime.path)

    assert result.exit_code == 1
    assert "revision 2 is in force" in result.stdout
    assert result.stderr == "key: cannot be read\n"


def test_the_end_of_an_earlier_reload_is_not_taken_for_ours(
    runtime: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_revision(runtime)
    looks: list[float] = []
    runtime.on_hangup = lambda: runtime.say(
        judged=b"o" * 32, reasons=("the other was refused",)
    )

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            runtime.accept()

    monkeypatch.setattr(time, "sleep", sleep)
    result = aotx("grants", "--reload", runtime.path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert len(looks) == 3


def test_a_table_in_force_is_written_and_asked_for_again(runtime: Played) -> None:
    # In one process with a gateway, its configuration may be another.
    runtime.on_hangup = lambda: runtime.say(judged=runtime.digest())

    result = aotx("grants", "--reload", runtime.path)

    assert result.exit_code == 0
    assert "revision 1 is in force" in result.stdout
    assert runtime.hangups == 1


def refused_before_anything(runtime: Played) -> str:
    before = runtime.grants.read_bytes()

    result = aotx("grants", "--reload", runtime.path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert runtime.hangups == 0
    assert runtime.grants.read_bytes() == before
    (line,) = result.stderr.splitlines()
    return line


def test_a_revision_that_was_not_raised_is_told_before(runtime: Played) -> None:
    edit(runtime.path / "gateway.json", principals=[])

    line = refused_before_anything(runtime)

    assert line.endswith("revision: 1 is not above 1, which is in force; raise it")


def test_a_bad_configuration_changes_nothing(runtime: Played) -> None:
    raise_revision(runtime, 0)

    assert "revision: must be" in refused_before_anything(runtime)


@pytest.mark.parametrize("left", ["the lock file", "a pid", "nothing"])
def test_no_runtime(runtime: Played, left: str) -> None:
    """A lock that nobody holds is none, whatever a killed runtime left in it."""
    raise_revision(runtime)
    runtime.directory.unlock()
    lock = runtime.path / "service.lock"
    if left == "a pid":
        lock.write_text(f"{os.getpid()}\n")
    elif left == "nothing":
        lock.unlink()

    assert refused_before_anything(runtime) == (
        f"{runtime.path}: no runtime runs on this state directory"
    )


def test_a_runtime_that_is_starting(runtime: Played) -> None:
    raise_revision(runtime)
    GrantsState.remove(runtime.path)
    assert "has not started yet" in refused_before_anything(runtime)

    # What one that was killed before has left says nothing of this one.
    attrs.evolve(runtime.said, pid=runtime.said.pid + 1).write(runtime.path)
    assert "has not started yet" in refused_before_anything(runtime)


def test_a_runtime_that_ends_meanwhile(runtime: Played) -> None:
    raise_revision(runtime)
    runtime.on_hangup = runtime.directory.unlock

    result = aotx("grants", "--reload", runtime.path)

    assert result.exit_code == 1
    assert "no runtime runs" in result.stderr


def test_no_result_in_time(runtime: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_revision(runtime)
    runtime.on_hangup = lambda: None
    monkeypatch.setattr(cli_grants, "_WAIT_SECONDS", 0.1)

    result = aotx("grants", "--reload", runtime.path)

    assert result.exit_code == 1
    assert "no result within" in result.stderr


@pytest.mark.parametrize(
    "words", [["--reload", "var", "--output", "x"], ["--reload"], []]
)
def test_usage_errors(words: list[str]) -> None:
    assert aotx("grants", *words).exit_code == 2


# --- the file -------------------------------------------------------------------------


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    said = GrantsState(
        pid=7,
        grants=Path("/x/grants"),
        reloads=3,
        revision=2**64 - 1,
        digest=b"d" * 32,
        judged=b"j" * 32,
        reasons=("one", "two"),
    )
    said.write(tmp_path)

    assert GrantsState.read(tmp_path) == said
    assert mode_of(tmp_path / "grants.state") == 0o600
    GrantsState.remove(tmp_path)
    GrantsState.remove(tmp_path)
    assert GrantsState.read(tmp_path) is None


def test_reasons_are_bounded(runtime: Played) -> None:
    runtime.say(reasons=tuple("é" * 10_000 for _ in range(1000)))

    said = GrantsState.read(runtime.path)

    assert said is not None
    assert [len(reason) for reason in said.reasons] == [400] * 32


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": "7"},
        {"pid": True},
        {"reloads": -1},
        {"revision": 1},
        {"revision": "0"},
        {"sha256": "00"},
        {"judged_sha256": "zz"},
        {"reasons": [1]},
        {"reasons": None},
        {"grants": None},
    ],
)
def test_what_no_runtime_wrote_is_refused(
    runtime: Played, changes: dict[str, Any]
) -> None:
    edit(runtime.path / "grants.state", **changes)

    with pytest.raises(ConfigErrors, match="was not written by a runtime"):
        GrantsState.read(runtime.path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "{", "x" * 70_000])
def test_other_content_is_refused(runtime: Played, content: str) -> None:
    (runtime.path / "grants.state").write_text(content)

    with pytest.raises(ConfigErrors):
        GrantsState.read(runtime.path)


def test_a_file_that_others_can_write_is_not_trusted(runtime: Played) -> None:
    (runtime.path / "grants.state").chmod(0o620)

    with pytest.raises(ConfigErrors, match=r"grants\.state is writable by group"):
        GrantsState.read(runtime.path)


def test_it_holds_no_principal_and_no_token(runtime: Played) -> None:
    text = (runtime.path / "grants.state").read_text()
    gateway = json.loads((runtime.path / "gateway.json").read_text())
    (principal,) = gateway["principals"]

    assert principal["id"] not in text
    assert principal["token_sha256"][0] not in text
    assert (runtime.path / "token").read_text().strip() not in text
