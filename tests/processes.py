"""
Real twistd processes for tests: started, watched through their log, ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from twisted_aotx.config.initial import First, make_state_directory

ROOT: Final = Path(__file__).parent.parent
#: Seconds that a process may take for anything but compiling kernels.
PATIENCE: Final = 30.0
#: Seconds that a first start may take, with others compiling beside it.
COMPILE_PATIENCE: Final = 560.0


@attrs.define
class Process:
    """
    One running command; its log, standard error included, is a file.
    """

    popen: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        """Until the log holds *text*; fails with the log if it never does."""
        deadline = time.monotonic() + seconds
        while text not in self.text():
            alive = self.popen.poll() is None
            assert alive or text in self.text(), f"it ended without {text!r}: {self}"
            assert time.monotonic() < deadline, f"no {text!r} in time: {self}"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def code(self, seconds: float = PATIENCE) -> int:
        """The exit code; a process that does not end is a failure."""
        return self.popen.wait(seconds)

    def lines(self, level: str) -> list[str]:
        """What was logged with *level*, without time and place."""
        mark = f"#{level}] "
        return [
            line.split(mark, 1)[1] for line in self.text().splitlines() if mark in line
        ]

    def __str__(self) -> str:
        return f"exit {self.popen.poll()}\n{self.text()}"


def environment() -> dict[str, str]:
    """As the tests' own, finding the package and its plugins in this checkout."""
    paths = [str(ROOT), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@contextmanager
def twistd(folder: Path, *words: str | Path) -> Iterator[Process]:
    """`twistd -n --pidfile= WORDS` in *folder*, killed at the end if it still runs."""
    log = folder / f"{words[0]}-{len(list(folder.glob('*.log')))}.log"
    run = "from twisted.scripts.twistd import run; run()"
    # As on a terminal; what is said later wins.
    options = ["-n", "--pidfile=", str(words[0]), "--log-format=text"]
    command = [sys.executable, "-c", run, *options, *map(str, words[1:])]
    with log.open("wb") as output:
        popen = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    process = Process(popen, log)
    try:
        yield process
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(PATIENCE)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def make_state(folder: Path, **gateway: Any) -> Path:
    """A state directory as `aotx init` makes it, on a free port."""
    state = folder / "var"
    make_state_directory(state, First(host="127.0.0.1", port=free_port(), now=1))
    edit(state / "gateway.json", **gateway)
    return state


def edit(path: Path, **keys: Any) -> dict[str, Any]:
    """Change top-level keys of a JSON file; what it holds now."""
    value: dict[str, Any] = json.loads(path.read_text())
    value.update(keys)
    path.write_text(json.dumps(value))
    return value


def address(config: Path) -> str:
    """Where the gateway of *config* listens."""
    value = json.loads(config.read_text())
    scheme = "https" if value.get("certificate") else "http"
    return f"{scheme}://{value['host']}:{value['port']}"
