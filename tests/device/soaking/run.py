"""
Examples one after another until the time is up, and one of them again.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

from tests.device.soaking.example import Example
from tests.device.soaking.tally import Tally


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def soak(
    seed: int,
    *,
    steps: int,
    until: float,
    totals: Path | None,
    goal: int,
    told_seconds: float,
) -> int | None:
    """
    Run examples until the monotonic clock says *until*; the number of one that failed.
    """
    _tell(f"seed {seed}")
    tally, total = Tally(), Tally()
    if totals is not None:
        total.load(totals)
    began = told = time.monotonic()
    failed = None
    number = 0
    while failed is None and (now := time.monotonic()) < until:
        if now - told >= told_seconds:
            told = now
            _tell(_progress(tally, number, now - began))
        failure = Example(seed, number).run(range(steps), tally)
        if failure is not None:
            failed = number
            _tell(f"example {number} failed in step {failure.step}: {failure.error}")
        number += 1
    tally.counts["seconds"] += round(time.monotonic() - began)
    total.add(tally)
    if totals is not None:
        total.save(totals)
    for line in total.lines(goal):
        _tell(line)
    for line in total.unlisted():
        _tell(f"stands in no table: {line}")
    _tell(_progress(tally, number, time.monotonic() - began))
    return failed


def _progress(tally: Tally, examples: int, seconds: float) -> str:
    steps = tally.counts["steps"]
    return f"{steps} steps, {examples} examples, {seconds:.0f} s"


def replay(seed: int, number: int, steps: int, runs_max: int) -> None:
    """
    Run one example again; if it fails, show the fewest of its steps that still do.

    Raises:
        SystemExit: it fails.
    """
    example = Example(seed, number)
    _tell(f"seed {seed}, example {number}: {example.machine.__name__}")
    failure = example.run(range(steps), Tally())
    if failure is None:
        _tell("nothing fails")
        return
    short = example.shortest(range(min(steps, failure.step + 1)), runs_max)
    shown = example.run(short, Tally(), shown=True)
    failure = shown or failure
    traceback.print_exception(failure.error, file=sys.stdout)
    _tell(f"again: bin/soak device --seed {seed} --example {number}")
    raise SystemExit(1)
