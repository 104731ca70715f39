"""
`bin/run` from a copy of the checkout: first start, second start, failing steps.

Dependencies come from the environment that runs the tests, so that no index is needed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import COMPILE_PATIENCE, PATIENCE, Process
from tests.sources import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

READY = "aotx is ready: "


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a clone holds, as far as bin/run needs it, with a bare .venv."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("twisted_aotx", "plugins", "bin"):
        ignored = shutil.ignore_patterns("__pycache__", "dropin.cache")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
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


@contextmanager
def bin_run(folder: Path, log: str, *words: str) -> Iterator[Process]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON")
    }
    environment |= {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        # pip reads it the other way round: 0 means no isolation.
        "PIP_NO_BUILD_ISOLATION": "0",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    path = folder.parent / log
    with path.open("wb") as output:
        popen = subprocess.Popen(
            [folder / "bin/run", *words],
            env=environment,
            cwd=folder.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Process(popen, path)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(PATIENCE)


@pytest.mark.skipif(is_taken(8081), reason="something listens on port 8081")
@pytest.mark.timeout(600)
def test_one_command_until_it_answers_and_again(checkout: Path) -> None:
    with bin_run(checkout, "first.log", "--engine", "reference") as process:
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
    with bin_run(checkout, "second.log") as process:
        process.wait_for("Ctrl-C stops it.")
        text = process.text()
        assert "installing" not in text
        assert "compiling kernels" not in text
        assert (checkout / "var/token").read_text() == token

        # A third one says what is in its way instead of failing late.
        with bin_run(checkout, "third.log") as third:
            assert third.code() == 1
            assert "something listens on 127.0.0.1:8081" in third.text()
        process.signal(signal.SIGTERM)
        assert process.code() == 0, process


def test_the_llama_engine_is_refused_until_it_is_there(checkout: Path) -> None:
    with bin_run(checkout, "llama.log", "--engine", "llama") as process:
        assert process.code(COMPILE_PATIENCE) == 1
    assert "no llama engine yet" in process.text()
    assert "mend what the line above says" in process.text()
    assert not (checkout / "var").exists()


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
