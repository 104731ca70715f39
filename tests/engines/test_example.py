"""
The example engine of docs/engines.md, installed as the package of somebody else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from twisted_aotx.interfaces import EngineFacts
from twisted_aotx.orders import OpenOrder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "engines.md"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip has installed the example into, without network."""
    folder = tmp_path_factory.mktemp("example")
    # setuptools builds beside the sources.
    source = shutil.copytree(ROOT / "docs" / "example_engine", folder / "source")
    target = folder / "site"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet"),
            *("--no-index", "--no-deps", "--no-build-isolation"),
            *("--disable-pip-version-check", "--target", str(target), str(source)),
        ],
        check=True,
        timeout=240,
    )
    return target


def exercised(installed: Path, *arguments: str) -> Any:
    """What `example_exercise` writes where the example is installed."""
    path = os.pathsep.join(map(str, (installed, ROOT, ROOT / "plugins")))
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.example_exercise", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(installed: Path) -> dict[str, Any]:
    """Its leases on a clock that stands."""
    found: dict[str, Any] = exercised(installed)
    return found


def test_it_is_found_through_its_plugin(
    installed: Path, results: dict[str, Any]
) -> None:
    """By its name, from where pip put it; the plugin folders hold no `__init__.py`."""
    assert results["help"] == "Says the last message of the user, backwards."
    assert Path(results["file"]).is_relative_to(installed)
    assert not list((installed / "twisted").rglob("__init__.py"))


def test_it_answers_backwards(results: dict[str, Any]) -> None:
    """A byte a token, then the end token; prompt tokens are the rendered bytes."""
    whole = results["whole"]

    assert whole["output"] == "eßürG"
    assert whole["events"] == ["OPENED", *["EMIT"] * 8, "DONE"]
    assert (whole["tokens"], whole["last"], whole["fault"]) == (8, 1, None)
    assert whole["opened"] > len("Grüße".encode())


@pytest.mark.parametrize(
    ("case", "output", "tokens", "finish"),
    [
        ("empty", "", 1, 1),
        ("limit", "fed", 3, 2),
        ("end_at_limit", "fedcba", 7, 1),
    ],
)
def test_it_keeps_the_limit(
    results: dict[str, Any], case: str, output: str, tokens: int, finish: int
) -> None:
    """Nothing to say, cut at the limit, the end token exactly at the limit."""
    made = results[case]

    assert (made["output"], made["tokens"]) == (output, tokens)
    assert (made["events"][-1], made["last"]) == ("DONE", finish)
    assert made["fault"] is None


def test_its_rate_is_kept(results: dict[str, Any]) -> None:
    """10 tokens a second: one at once, two more in 0.2 s."""
    assert results["early"]["output"] == "fed"
    assert "DONE" not in results["early"]["events"]


def test_stop_ends_one_lease_only(results: dict[str, Any]) -> None:
    """The other one goes on to its end."""
    assert results["two"]["stopped"]["output"] == "fe"
    assert results["two"]["stopped"]["events"] == ["OPENED", "EMIT", "EMIT"]
    assert results["two"]["other"]["output"] == "fedcba"
    assert results["two"]["other"]["events"][-1] == "DONE"


def test_it_refuses_what_it_does_not_know(results: dict[str, Any]) -> None:
    """The option is named."""
    assert results["refused"] == ["", "", "rate", "rate", "rate", "speed"]


@pytest.mark.slow
def test_it_serves_on_the_device(installed: Path) -> None:
    """A request through mailboxes, kernels, the runtime and the engine."""
    assert exercised(installed, "--live") == "dlrow ,olleH"


def test_the_page_tells_every_field() -> None:
    """Whoever writes an engine finds each fact and each field of an order there."""
    page = PAGE.read_text()
    for record in (EngineFacts, OpenOrder):
        for field in attrs.fields(record):
            assert f"`{field.name}`" in page, field.name


def test_the_page_shows_code_that_compiles() -> None:
    """Each Python block; setup.cfg is as the page says."""
    page = PAGE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        compile(block, "engines.md", "exec")
    setup = (ROOT / "docs" / "example_engine" / "setup.cfg").read_text()
    assert "mode = strict" in setup
    assert "    twisted.plugins\n" in setup
