"""
What the llama engine takes as options and declares as facts.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.logger import capturedLogs

from tests.engines.gguf_files import CHATML_TEMPLATE
from tests.engines.llama.missing import hide_jinja2
from tests.engines.llama.test_format_file import GOOD
from tests.engines.llama.tiny import Tiny
from twisted_aotx.engines.formats import CHATML
from twisted_aotx.engines.llama import maker
from twisted_aotx.engines.llama.engine import LlamaEngine
from twisted_aotx.engines.llama.options import CAPACITY_MAX, read_options
from twisted_aotx.engines.llama.template_run import run_template
from twisted_aotx.engines.registry import engine_named, make_engine
from twisted_aotx.errors import ConfigError, EngineError
from twisted_aotx.wire.numbers import Modality, Role

SLOTS, TOKENS = 9, 1024


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Tiny(context=2048).write(tmp_path / "model.gguf")


def made(path: Path, /, **options: Any) -> Any:
    chosen = {"path": str(path), **options}
    return maker.make(Role.LANGUAGE, chosen, SLOTS, TOKENS)


def of_plugin(folder: Path, options: dict[str, Any], tokens: int = TOKENS) -> Any:
    return make_engine("llama", Role.LANGUAGE, options, SLOTS, tokens, folder)


def test_it_is_found_by_its_name(model: Path) -> None:
    engine = of_plugin(model.parent, {"path": str(model)})

    assert isinstance(engine, LlamaEngine)
    assert "GGUF" in engine_named("llama").help


def test_its_paths_are_relative_to_the_configuration(model: Path) -> None:
    """As every path of runtime.json; `~` is no more than a character."""
    folder = model.parent
    (folder / "format.json").write_text(json.dumps(GOOD))

    engine = of_plugin(folder, {"path": model.name, "format": "format.json"})

    assert engine._load.path == bytes(model)
    assert engine.facts.message_format.user_head == b"[INST]"
    with pytest.raises(ConfigError, match=f"path: {folder}/~/model.gguf: No such"):
        of_plugin(folder, {"path": "~/model.gguf"})


def test_facts(model: Path) -> None:
    facts = made(model, capacity=3).facts

    assert facts.role == Role.LANGUAGE
    assert facts.model_sha256 == hashlib.sha256(model.read_bytes()).digest()
    assert facts.modalities == Modality.TEXT
    assert (facts.capacity, facts.sequence_tokens) == (3, TOKENS)
    assert facts.message_format.assistant_tail == b"</s>\n"
    assert facts.controls == ()


def test_defaults(model: Path) -> None:
    chosen = read_options({"path": str(model)}, SLOTS)

    assert chosen.capacity == SLOTS - 1
    assert chosen.threads == len(os.sched_getaffinity(0))
    assert (chosen.context, chosen.gpu_layers, chosen.format_path) == (None, -1, None)
    assert read_options({"path": str(model)}, 1024).capacity == CAPACITY_MAX


def test_the_child_is_told_what_was_chosen(model: Path) -> None:
    engine = made(model, capacity=2, threads=3, context=2000, gpu_layers=7)

    load = engine._load
    assert (load.capacity, load.threads, load.context, load.gpu_layers) == (
        2,
        3,
        2000,
        7,
    )
    assert (load.stop, load.path) == (b"</s>\n", bytes(model))
    assert load.prefill_rows == maker.PREFILL_ROWS == 64


@pytest.mark.parametrize(
    ("options", "path", "reason"),
    [
        ({"speed": 1}, "speed", "knows only path, format, capacity, threads, "),
        ({"capacity": 0}, "capacity", "from 1 to 8"),
        ({"capacity": 9}, "capacity", "from 1 to 8"),
        ({"capacity": "2"}, "capacity", "from 1 to 8"),
        ({"capacity": True}, "capacity", "from 1 to 8"),
        ({"threads": 0}, "threads", "from 1 to 512"),
        ({"threads": 513}, "threads", "from 1 to 512"),
        ({"context": 1}, "context", "from 2 to"),
        ({"context": 2049}, "context", "made for at most 2048 tokens"),
        ({"gpu_layers": -2}, "gpu_layers", "from -1 to 4096"),
        ({"path": 1}, "path", "must be the path of a file"),
        ({"path": ""}, "path", "must be the path of a file"),
        ({"path": "a\0b"}, "path", "must be the path of a file"),
        ({"path": "/\ud800"}, "path", "surrogate"),
        ({"path": "models/a.gguf"}, "path", "absolute path, not 'models/a.gguf'"),
        ({"path": "/nowhere/a.gguf"}, "path", "/nowhere/a.gguf: No such file"),
        ({"path": "/"}, "path", "/: Is a directory"),
        ({"path": __file__}, "path", "is no GGUF file"),
        ({"format": "/nowhere/format.json"}, "format", "No such file"),
        ({"format": "format.json"}, "format", "absolute path"),
    ],
)
def test_what_cannot_be_used_is_named(
    model: Path, options: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        made(model, **options)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_a_path_is_needed() -> None:
    with pytest.raises(ConfigError, match="path: is required"):
        maker.make(Role.LANGUAGE, {}, SLOTS, TOKENS)


def test_bounds_are_inclusive(model: Path) -> None:
    engine = made(model, capacity=8, threads=512, context=2048, gpu_layers=4096)

    assert engine.facts.sequence_tokens == 2048


def test_a_model_that_is_too_short_for_the_device_is_refused(model: Path) -> None:
    with pytest.raises(EngineError, match=r"holds 2048 tokens, but .* is 2049"):
        of_plugin(model.parent, {"path": model.name}, 2049)


# --- formats -----------------------------------------------------------------------


def test_a_model_without_a_template_needs_a_file(tmp_path: Path) -> None:
    path = Tiny(template=None).write(tmp_path / "model.gguf")
    with pytest.raises(ConfigError) as caught:
        made(path)
    assert caught.value.path == "path"
    assert "has no chat template; write its format into a file" in caught.value.reason
    assert "name that in format (docs/models.md)" in caught.value.reason

    file = tmp_path / "format.json"
    file.write_text(json.dumps(GOOD))

    found = made(path, format=str(file)).facts.message_format
    assert (found.user_head, found.prefix_bytes) == (b"[INST]", 3)


def test_a_template_that_is_not_made_of_spans_needs_a_file(tmp_path: Path) -> None:
    path = Tiny(template="{{ messages[0].content }}").write(tmp_path / "model.gguf")
    with pytest.raises(ConfigError, match=r"cannot be used, .*; write its format into"):
        made(path)

    file = tmp_path / "format.json"
    file.write_text(json.dumps(GOOD))

    assert made(path, format=str(file)).facts.message_format.user_head == b"[INST]"


def test_a_template_without_an_end_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the way out, like any template that cannot be used."""
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
    path = Tiny(template=endless + "{% endfor %}").write(tmp_path / "model.gguf")
    monkeypatch.setattr(maker, "run_template", partial(run_template, seconds=0.01))

    with pytest.raises(ConfigError) as caught:
        made(path)

    assert str(caught.value) == (
        f"path: the chat template of {path} cannot be used, it takes more than 0.01 s "
        "to run; write its format into a file, and name that in format (docs/models.md)"
    )


def test_a_default_system_message_is_told_and_left_out(tmp_path: Path) -> None:
    """D9: the load's log says so."""
    default = (
        "{% if messages[0].role != 'system' %}"
        "{{ '<|im_start|>system\nBe nice.<|im_end|>\n' }}{% endif %}"
    )
    path = Tiny(template=default + CHATML_TEMPLATE).write(tmp_path / "model.gguf")
    with capturedLogs() as events:
        facts = made(path).facts

    assert facts.message_format == attrs.evolve(CHATML, think_open=b"", think_close=b"")
    (event,) = [event for event in events if "template" in event["log_format"]]
    assert event["length"] == len("<|im_start|>system\nBe nice.<|im_end|>\n")


def test_jinja_is_asked_for_by_the_extras_name(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Templates are run elsewhere: it is that process which lacks it."""
    hide_jinja2(tmp_path, monkeypatch)

    with pytest.raises(EngineError, match=r"needs jinja2: .*twisted-aotx\[llama\]"):
        made(model)


def test_a_model_for_which_there_is_no_memory_is_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, before anything is loaded (docs/models.md)."""
    monkeypatch.setattr(maker, "available", lambda: 1_000_000)

    with pytest.raises(EngineError, match=r"model\.gguf needs .* of memory, but only"):
        made(model)
