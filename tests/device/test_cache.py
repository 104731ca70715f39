"""
What was compiled once is not compiled again: `cache` and `locator`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.sources import PACKAGE

_PROGRAM = """
import numpy
from twisted_aotx.device.bits import trailing_zeros
assert trailing_zeros(numpy.uint64(8)) == 3
stats = trailing_zeros.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run_in(checkout: Path, cache: Path, *, added: str = "") -> str:
    """
    Cache hits and misses of one kernel function in a copy of the package, to whose
    source something is *added*.
    """
    shutil.copytree(PACKAGE, checkout / PACKAGE.name)
    source = checkout / PACKAGE.name / "device" / "bits.py"
    source.write_text(source.read_text() + added)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=checkout,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_checkouts_share_what_is_compiled(tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    assert run_in(tmp_path / "one", cache) == "0 1"
    assert run_in(tmp_path / "two", cache) == "1 0"
    assert not list((tmp_path / "two").rglob("*.nbi"))


def test_other_kernels_share_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    assert run_in(tmp_path / "one", cache) == "0 1"
    assert run_in(tmp_path / "two", cache, added="\n# changed\n") == "0 1"
