"""
The device and its oracle under every rule of the state machine, from a seed.

    bin/soak device --seconds 600             from a fresh seed, which it prints
    bin/soak device --seed N --example M      that example again, made short and shown

Every reply byte, order, record, notice and counter is compared, and every table's
invariants hold after each step. `--plain` runs the kernels as plain Python;
AOTX_BACKEND=cuda on a card. `--totals FILE` adds the counts of several runs up.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

#: Steps of one example; enough to fill every table.
STEPS = 150
#: Times an example that fails is run again, at most, to be made short.
RUNS_MAX = 300
#: How often each thing should be seen.
GOAL = 100
#: Seconds between two lines of progress.
_TOLD_SECONDS = 60


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bin/soak device")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--example", type=int)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--totals", type=Path)
    options = parser.parse_args(arguments)
    if options.plain and os.environ.get("NUMBA_DISABLE_JIT") != "1":
        # numba looks at it when it is imported.
        os.environ["NUMBA_DISABLE_JIT"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "tests.soak", *sys.argv[1:]])
    # The kernels are loaded with it.
    from tests.device.soaking.run import replay, soak

    if options.example is not None:
        replay(options.seed or 0, options.example, options.steps, RUNS_MAX)
        return
    seed = secrets.randbits(32) if options.seed is None else options.seed
    until = time.monotonic() + options.seconds
    failed = soak(
        seed,
        steps=options.steps,
        until=until,
        totals=options.totals,
        goal=GOAL,
        told_seconds=_TOLD_SECONDS,
    )
    if failed is not None:
        replay(seed, failed, options.steps, RUNS_MAX)
