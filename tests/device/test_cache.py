"""
What was compiled once is not compiled again: `cache` and `locator`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core import config

from tests.device.capacities import SMALL
from tests.device.making import new_device
from tests.sources import PACKAGE
from twisted_aotx.device import entries
from twisted_aotx.device.cache import one_at_a_time
from twisted_aotx.orders import ControlRecord, LedgerRow, StoredPolicy, StoredSource
from twisted_aotx.wire.numbers import MediaFormat

numba_config: Any = config

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


def test_one_process_compiles_at_a_time() -> None:
    """Whoever comes meanwhile waits, but not for ever: the other may be stopped."""
    with one_at_a_time() as first, one_at_a_time(0.2) as second:
        assert (first, second) == (True, False)
    with one_at_a_time(0.0) as afterwards:
        assert afterwards


def test_without_a_directory_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    with one_at_a_time() as alone:
        assert alone
        assert not (tmp_path / "none").exists()


@pytest.mark.skipif(numba_config.DISABLE_JIT, reason="of the compiler")
def test_what_a_restart_needs_is_compiled_before_it() -> None:
    """A start that finds something in the state store compiles nothing of its own."""
    device = new_device(SMALL, ())
    device.warm_up()
    restores = (
        entries.restore_source,
        entries.read_restored,
        entries.restore_control,
        entries.restore_ledger,
        entries.break_policy,
    )
    before = [len(entry.signatures) for entry in restores]
    used = LedgerRow(
        principal=b"\1" * 16,
        model_sha256=b"\2" * 32,
        requests=1,
        prompt_tokens=2,
        sampled_tokens=3,
    )
    control = ControlRecord(
        control_revision=1, review=False, paused=False, stopped=False
    )
    policy = StoredPolicy(
        control=control, frontier=0, saved_generation=0, ledger=(used,)
    )

    device.restore_policy(policy)
    device.restore_source(
        StoredSource(
            owner=b"\1" * 16,
            transfer_id=b"\3" * 16,
            sha256=hashlib.sha256(b"x").digest(),
            format=MediaFormat.JPEG,
            data=b"x",
        )
    )
    device.break_policy()
    device.free()

    assert before == [1] * len(restores)
    assert [len(entry.signatures) for entry in restores] == before
