"""
The `aotx` command: exit codes, files, modes, one line per error (`http.md` §10).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from twisted_aotx import cli
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.initial import ACTIONS
from twisted_aotx.config.runtime import load_runtime
from twisted_aotx.wire.grants import GrantTable

FILES = ["gateway.json", "grants", "runtime.json", "token"]


def aotx(*words: str | Path) -> Result:
    result = CliRunner().invoke(cli.run, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    assert aotx("init", tmp_path / "var").exit_code == 0
    return tmp_path / "var"


def edit(path: Path, **keys: Any) -> None:
    value = json.loads(path.read_text())
    value.update(keys)
    path.write_text(json.dumps(value))


# --- init -----------------------------------------------------------------------------


def test_init_makes_private_files_that_load(state: Path) -> None:
    assert sorted(path.name for path in state.iterdir()) == FILES
    assert mode_of(state) == 0o700
    assert {mode_of(path) for path in state.iterdir()} == {0o600}

    settings = load_gateway(state / "gateway.json").settings
    assert (settings.host, settings.port, settings.revision) == ("127.0.0.1", 8081, 1)
    assert settings.socket == str(state / "service.sock")
    assert [(model.alias, model.role) for model in settings.models] == [
        ("reference", 2)
    ]
    runtime = load_runtime(state / "runtime.json")
    assert runtime.capacities.sequence_tokens == 131072
    assert [(m.role, m.engine) for m in runtime.models] == [(2, "reference")]


def test_the_first_principal_has_the_whole_context_and_every_served_action(
    state: Path,
) -> None:
    (principal,) = load_gateway(state / "gateway.json").settings.principals

    assert principal.id == bytes(15) + b"\x01"
    assert (principal.pages, principal.tokens, principal.requests) == (0, 131071, 128)
    assert (principal.media, principal.media_bytes) == (128, 67108864)
    assert principal.models == ("reference",)
    assert ACTIONS == ("infer", "upload", "fetch", "telemetry", "policy_manage")
    assert principal.actions == 1 | 2 | 4 | 8 | 128


def test_the_token_file_holds_the_token_of_the_configuration(state: Path) -> None:
    text = (state / "token").read_text()
    (principal,) = load_gateway(state / "gateway.json").settings.principals

    assert text.endswith("\n")
    assert 32 <= len(text.strip()) <= 256
    assert principal.token_sha256 == (hashlib.sha256(text.strip().encode()).digest(),)
    assert text.strip() not in (state / "gateway.json").read_text()


def test_the_grants_of_init_are_those_of_its_configuration(state: Path) -> None:
    made = (state / "grants").read_bytes()

    aotx("grants", "--config", state / "gateway.json", "--output", state / "again")

    assert (state / "again").read_bytes() == made


def test_init_takes_an_address(tmp_path: Path) -> None:
    aotx("init", tmp_path / "var", "--host", "::1", "--port", "9000")

    settings = load_gateway(tmp_path / "var/gateway.json").settings
    assert (settings.host, settings.port) == ("::1", 9000)


@pytest.mark.parametrize("name", FILES)
def test_init_never_overwrites(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")

    result = aotx("init", tmp_path)

    assert result.exit_code == 1
    assert f"{name}: is there already" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_init_uses_an_empty_directory_that_is_there(tmp_path: Path) -> None:
    assert aotx("init", tmp_path).exit_code == 0


def test_init_refuses_a_directory_that_others_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    result = aotx("init", tmp_path)

    assert (result.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "writable by group or others" in result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--host", "0.0.0.0"], "host: "),
        (["--engine", "llama", "--model", "/no/a.gguf"], "/no/a.gguf: No such file"),
        (["--engine", "llama", "--model", __file__], "is no GGUF file"),
    ],
)
def test_init_says_why_it_made_nothing(
    tmp_path: Path, words: list[str], reason: str
) -> None:
    result = aotx("init", tmp_path / "var", *words)

    assert result.exit_code == 1
    assert reason in result.stderr
    assert not (tmp_path / "var").exists()


def test_init_under_a_file_is_a_resource_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = aotx("init", tmp_path / "file/var")

    assert result.exit_code == 1
    assert "Not a directory" in result.stderr


def test_init_that_fails_midway_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fails_at_the_third(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails_at_the_third)

    result = aotx("init", tmp_path / "var")

    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert not (tmp_path / "var").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["init"],
        ["init", "d", "--port", "0"],
        ["init", "d", "--port", "65536"],
        ["init", "d", "--engine", "other"],
        ["init", "d", "--model", "a.gguf"],
        ["init", "d", "--engine", "llama"],
        ["check"],
        ["grants"],
        ["grants", "--config", "gateway.json"],
        ["grants", "--output", "grants"],
        ["token", "extra"],
        ["other"],
    ],
)
def test_usage_errors_exit_with_2(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # cases L 175: grants without --output.
    monkeypatch.chdir(tmp_path)

    assert aotx(*words).exit_code == 2
    assert list(tmp_path.iterdir()) == []


# --- token ----------------------------------------------------------------------------


def test_token_prints_a_new_token_and_its_hash_every_time() -> None:
    token, digest = aotx("token").stdout.split()

    assert digest == hashlib.sha256(token.encode()).hexdigest()
    assert 32 <= len(token) <= 256
    assert aotx("token").stdout.split()[0] != token


# --- check ----------------------------------------------------------------------------


def test_check_loads_and_writes_nothing(state: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in state.iterdir()}

    result = aotx("check", "--config", state / "gateway.json")

    assert (result.exit_code, result.stderr) == (0, "")
    assert {path.name: path.stat().st_mtime_ns for path in state.iterdir()} == before


def test_check_prints_one_line_per_error_with_key_path_and_reason(state: Path) -> None:
    path = state / "gateway.json"
    edit(path, port=0, surprise=1)

    result = aotx("check", "--config", path)

    assert (result.exit_code, result.stdout) == (1, "")
    first, second = result.stderr.splitlines()
    assert first.startswith(f"{path}: surprise: unknown key")
    assert second == f"{path}: port: must be 1 .. 65535, not 0"


def test_check_warns_of_what_gives_nothing(state: Path) -> None:
    path = state / "gateway.json"
    principal = json.loads(path.read_text())["principals"][0]
    edit(path, principals=[{**principal, "actions": ["infer", "affect_manage"]}])

    result = aotx("check", "--config", path)

    assert result.exit_code == 0
    assert "warning: principals[0].actions: affect_manage" in result.stderr


def test_check_reads_the_tls_files_as_the_gateway_would(state: Path) -> None:
    path = state / "gateway.json"
    edit(path, certificate="none.pem", key="none.key")

    result = aotx("check", "--config", path)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"{path}: key: {state}/none.key cannot be read")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "holds no certificate in PEM form"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "holds no certificate in PEM form",
        ),
    ],
)
def test_check_reads_the_authorities_of_imports(
    state: Path, content: bytes | None, reason: str
) -> None:
    path = state / "gateway.json"
    edit(path, urls={"ca_file": "ca.pem"})
    if content is not None:
        (state / "ca.pem").write_bytes(content)

    result = aotx("check", "--config", path)

    assert result.exit_code == 1
    assert result.stderr == f"{path}: urls.ca_file: {state}/ca.pem {reason}\n"


def test_authorities_that_can_be_used_are_good(state: Path, pems: Path) -> None:
    path = state / "gateway.json"
    edit(path, urls={"ca_file": str(pems / "a.pem")})

    assert aotx("check", "--config", path).exit_code == 0


def test_check_of_a_missing_file_is_a_resource_failure(tmp_path: Path) -> None:
    result = aotx("check", "--config", tmp_path / "none.json")

    assert result.exit_code == 1
    assert result.stderr == (
        f"{tmp_path / 'none.json'}: cannot be opened: No such file or directory\n"
    )


# --- grants ---------------------------------------------------------------------------


def test_grants_are_byte_exact(state: Path) -> None:
    # cases L 175, wire.md §6
    config, output = state / "gateway.json", state / "table"
    gateway = json.loads(config.read_text())
    second = {
        "id": "ff" * 16,
        "token_sha256": ["ab" * 32],
        "models": ["q", "a"],
        "actions": ["telemetry", "upload", "fetch", "policy_manage"],
        "pages": 3,
        "tokens": 5,
        "requests": 7,
        "media": 0,
        "media_bytes": 2**40,
    }
    gateway["revision"] = "258"
    gateway["models"] |= {
        "q": {"role": "language-q4", "published_at": 0},
        "a": {"role": "language-audio", "published_at": 0},
    }
    gateway["principals"].append(second)
    edit(config, **gateway)

    assert aotx("grants", "--config", config, "--output", output).exit_code == 0

    header = b"AOTXAPI1" + u32(1) + bytes(20) + u64(258) + bytes(36)
    header += u32(2) + bytes(8) + u32(128) + bytes(36)
    rows = bytes(15) + b"\x01" + u64(258) + u32(143) + u32(4) + u32(0) + u32(131071)
    rows += u32(128) + u32(128) + u64(67108864) + bytes(8)
    rows += b"\xff" * 16 + u64(258) + u32(8 | 2 | 4 | 128) + u32(8 | 16) + u32(3)
    rows += u32(5) + u32(7) + u32(0) + u64(2**40) + bytes(8)
    assert output.read_bytes() == header + rows
    assert mode_of(output) == 0o600


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def test_grants_replace_the_file_at_once_and_durably(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # cases L 175: parent fsync, atomic replace.
    synced: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append("folder" if name == str(state) else "file")
        real_fsync(descriptor)

    def replace(source: str, target: Path) -> None:
        assert Path(source).parent == target.parent == state
        assert mode_of(Path(source)) == 0o600
        synced.append("replace")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    (state / "grants").chmod(0o644)
    inode = (state / "grants").stat().st_ino

    aotx("grants", "--config", state / "gateway.json", "--output", state / "grants")

    assert synced == ["file", "replace", "folder"]
    assert (state / "grants").stat().st_ino != inode
    assert mode_of(state / "grants") == 0o600
    assert sorted(path.name for path in state.iterdir()) == FILES


def test_grants_that_cannot_be_written_leave_the_old_table(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (state / "grants").read_bytes()
    edit(state / "gateway.json", revision="2")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    result = aotx(
        "grants", "--config", state / "gateway.json", "--output", state / "grants"
    )

    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert (state / "grants").read_bytes() == before
    assert sorted(path.name for path in state.iterdir()) == FILES


def test_grants_of_a_bad_configuration_write_nothing(state: Path) -> None:
    edit(state / "gateway.json", revision="0")

    result = aotx(
        "grants", "--config", state / "gateway.json", "--output", state / "table"
    )

    assert result.exit_code == 1
    assert "revision: " in result.stderr
    assert not (state / "table").exists()


def test_grants_into_a_missing_folder_are_a_resource_failure(state: Path) -> None:
    result = aotx(
        "grants", "--config", state / "gateway.json", "--output", state / "no/table"
    )

    assert result.exit_code == 1
    assert "No such file" in result.stderr


def test_an_empty_principal_list_makes_a_table_without_rows(state: Path) -> None:
    edit(state / "gateway.json", principals=[])

    aotx("grants", "--config", state / "gateway.json", "--output", state / "table")

    assert GrantTable.unpack((state / "table").read_bytes()) == GrantTable(1, ())
