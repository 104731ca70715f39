"""
Plays the scenario on the target that the environment chooses and writes what came of it
as JSON: `python -m tests.device.target [--backend cuda] [--lanes N] [--lines]`.

| environment | target |
|---|---|
| – | compiled for the CPU |
| NUMBA_DISABLE_JIT=1 | plain Python |
| that and NUMBA_ENABLE_CUDASIM=1, `--backend cuda` | the CUDA simulator |
| `--backend cuda` | an NVIDIA card |
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from tests.device.capacities import SMALL
from tests.device.scenario.play import play
from tests.device.scenario.player import make_device
from tests.device.visits import count_lines

PLAIN = {"NUMBA_DISABLE_JIT": "1"}
SIMULATOR = {**PLAIN, "NUMBA_ENABLE_CUDASIM": "1"}


def run_target(environment: dict[str, str], *arguments: str) -> Any:
    """What the scenario gave in a process of its own with *environment*."""
    done = subprocess.run(
        # An overflow is a kernel that relies on one target's integers.
        [sys.executable, "-W", "error::RuntimeWarning", "-m", __name__, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--lanes", type=int, default=0)
    parser.add_argument("--lines", action="store_true")
    options = parser.parse_args()
    if options.lanes:
        # numba-cuda is needed by its backend alone.
        from twisted_aotx.device import gpu

        gpu.CUDALaunch.lanes = options.lanes
    # The simulator's lanes hand over to each other at every barrier.
    sys.setswitchinterval(1e-4)
    with count_lines(enabled=options.lines) as visits:
        device = make_device(SMALL, options.backend)
        scenario = play(device, SMALL)
    result = {
        "digest": device.digest(),
        "frames": scenario.frames,
        "rows": scenario.rows,
        "trace": scenario.trace,
        "lines": visits.by_module(),
    }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
