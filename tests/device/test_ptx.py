"""
Every kernel that CUDA launches compiles for the oldest and the newest card we serve,
without a card, and together they reach every device function.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.device.ptx_report import missing
from tests.device.sources import (
    call_sites,
    device_functions,
    host_roots,
    kernel_roots,
    reachable,
)

ARCHITECTURES = ("7.5", "9.0")
KERNELS = (
    "tick",
    "configure",
    "configure_role",
    "configure_control",
    "restore_control",
    "restore_ledger",
    "break_policy",
    "load_reference",
    "restore_source",
)
#: Bytes of local memory that one thread may have.
STACK_BYTES_MAX = 256
#: Bytes that one thread may spill: the tick is near the 255 registers that a thread
#: has, and which side of them it lands on differs by architecture.
SPILL_BYTES_MAX = 16
#: Threads of the block that runs a tick.
TICK_THREADS_MIN = 256


def _report(architecture: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.device.ptx_report", architecture],
        capture_output=True,
        check=False,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def reports() -> dict[str, Any]:
    """What the compilers said, both architectures side by side."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return dict(zip(ARCHITECTURES, pool.map(_report, ARCHITECTURES), strict=True))


@pytest.mark.ptx
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(
    reports: dict[str, Any], architecture: str, tell: Callable[[str], None]
) -> None:
    """No doubles, hardly a spill or local memory, every ordered access there."""
    report = reports[architecture]
    assert tuple(report) == KERNELS
    card = "sm_" + architecture.replace(".", "")
    for name, kernel in report.items():
        tell(
            f"{card} {name}: {kernel['registers']} registers, "
            f"{kernel['stack']} bytes of stack, {kernel['stores']} spilled, "
            f"{kernel['seconds']} s"
        )
        assert kernel["f64"] == 0
        assert max(kernel["stores"], kernel["loads"]) <= SPILL_BYTES_MAX
        assert kernel["stack"] <= STACK_BYTES_MAX
    tick = report["tick"]
    assert tick["threads"] >= TICK_THREADS_MIN
    used = reachable(k for k in kernel_roots() if k.name == "tick_kernel")
    assert tick["acquires"] >= call_sites(used, "load_acquire") > 0
    assert tick["releases"] >= call_sites(used, "store_release") > 0
    assert tick["barriers"] == call_sites(used, "barrier") > 0


def test_kernels_reach_every_device_function(tell: Callable[[str], None]) -> None:
    """
    All but the host's side of the mailboxes, which never sees device memory.
    """
    every = device_functions()
    by_kernels = reachable(kernel_roots()) & every
    by_host = reachable(host_roots()) - by_kernels
    tell(
        f"kernels reach {len(by_kernels)} of {len(every)} device functions, "
        f"the host's side has {len(by_host)}"
    )
    assert by_kernels | by_host == every
    entries = {"entries", "loop", "tick"}
    for function in by_host:
        assert function.module in entries or "D" not in function.parameters
