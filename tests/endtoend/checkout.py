"""
A copy of the checkout, as a clone is, and its `bin/run`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import PATIENCE, Process
from tests.sources import ROOT

READY = "aotx is ready: "
#: What bin/run prints last.
PRINTED = "Ctrl-C stops it."


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def copy_checkout(folder: Path) -> Path:
    """`clone` in *folder*: what a clone holds, as far as bin/run needs it."""
    clone = folder / "clone"
    clone.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    for name in ("twisted_aotx", "plugins", "bin"):
        ignored = shutil.ignore_patterns("__pycache__", "dropin.cache")
        shutil.copytree(ROOT / name, clone / name, ignore=ignored)
    return clone


@contextmanager
def bin_run(clone: Path, *words: str, **variables: str) -> Iterator[Process]:
    """
    `bin/run WORDS` with a cache of its own; killed at the end if it still runs.

    It is started beside the clone, and has no variables of Python's.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON")
    }
    cache = {"XDG_CACHE_HOME": str(clone / "cache")}
    log = clone.parent / f"run-{len(list(clone.parent.glob('*.log')))}.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [clone / "bin/run", *words],
            env={**inherited, **cache, **variables},
            cwd=clone.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Process(popen, log)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(PATIENCE)
