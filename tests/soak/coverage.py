"""
Which lines and branches of the package the tests reach, kernels as plain Python.

    bin/soak coverage                  every part below, then the report (an hour)
    bin/soak coverage PART ...         these parts again; the others stay as they were
    bin/soak coverage --report         what was measured before

Parts are folders of tests/; `plain` is tests/device with NUMBA_DISABLE_JIT=1, the one
way in which a kernel's lines are seen, `rest` the tests beside the folders, `e2e` whole
processes, each measured by itself. Data lies in .coverage.d.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.sources import ROOT

#: What the whole must reach, and below what a file is listed, in percent.
GOAL = 95.0
#: Of one part.
SECONDS_MAX = 3600

DATA = ROOT / ".coverage.d"
_PLAIN = {"NUMBA_DISABLE_JIT": "1"}
_APART = "not simulator and not ptx and not e2e and not model"
#: Compiled code alone, or processes whose kernels are: nothing of ours to be seen.
_NOT_PLAIN = (
    "test_bounds",
    "test_cache",
    "test_content_plain",
    "test_gpu",
    "test_loop",
    "test_ptx",
    "test_targets",
    "test_visits",
)
_FOLDERS = (
    "broker",
    "client",
    "engines",
    "gateway",
    "interop",
    "journal",
    "models",
    "runtime",
    "seqpacket",
    "watch",
    "wire",
)


def _pytest(marks: str, *arguments: str) -> list[str]:
    return ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, *arguments]


def parts() -> dict[str, tuple[dict[str, str], list[str]]]:
    """Environment and command line of each part, by name."""
    skipped = [f"--ignore=tests/device/{name}.py" for name in _NOT_PLAIN]
    quick = f"not slow and {_APART}"
    found: dict[str, tuple[dict[str, str], list[str]]] = {
        "plain": (_PLAIN, _pytest(quick, *skipped, "tests/device")),
        "device": ({}, _pytest(quick, "tests/device")),
    }
    for name in _FOLDERS:
        found[name] = {}, _pytest(_APART, f"tests/{name}")
    beside = sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob("tests/test_*.py")
    )
    found["rest"] = {}, _pytest(_APART, *beside)
    found["e2e"] = {}, _pytest("e2e and not model", "tests")
    return found


def _coverage(*arguments: str, data: Path | None = None) -> list[str]:
    where = [] if data is None else [f"--data-file={data}"]
    command, *more = arguments
    return [sys.executable, "-m", "coverage", command, *where, *more]


def measure(name: str) -> int:
    """Run one part; pytest's exit code."""
    environment, command = parts()[name]
    data = DATA / name
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    began = time.monotonic()
    done = subprocess.run(
        _coverage("run", *command, data=data / "part"),
        cwd=ROOT,
        env={**os.environ, "AOTX_HYPOTHESIS": "dev", **environment},
        check=False,
        timeout=SECONDS_MAX,
    )
    seconds = time.monotonic() - began
    sys.stdout.write(f"{name}: exit {done.returncode}, {seconds:.0f} s\n")
    return done.returncode


def report() -> float:
    """Print every file below the goal with what it lacks; the whole, in percent."""
    # Files of this name and a suffix are what `combine` looks for in the folders.
    whole = DATA / "part"
    folders = sorted(str(path) for path in DATA.iterdir() if path.is_dir())
    subprocess.run(
        _coverage("combine", "--keep", "--quiet", *folders, data=whole),
        cwd=ROOT,
        check=True,
    )
    subprocess.run(_coverage("report", "--skip-covered", data=whole), cwd=ROOT)
    facts = DATA / "all.json"
    subprocess.run(
        _coverage("json", "--quiet", "-o", str(facts), data=whole),
        cwd=ROOT,
        check=True,
    )
    found = json.loads(facts.read_text())
    low = {
        name: file["summary"]["percent_covered"]
        for name, file in found["files"].items()
        if file["summary"]["percent_covered"] < GOAL
    }
    for name, percent in sorted(low.items(), key=lambda pair: pair[1]):
        sys.stdout.write(f"{percent:6.1f} %  {name}\n")
    total = float(found["totals"]["percent_covered"])
    sys.stdout.write(f"{total:6.1f} %  of the lines and branches in all\n")
    return total


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bin/soak coverage")
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(parts())
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    names = [] if options.report else options.parts or list(parts())
    failed = [name for name in names if measure(name) != 0]
    total = report()
    for name in failed:
        sys.stdout.write(f"tests of {name} failed\n")
    if failed or total < GOAL:
        raise SystemExit(1)
