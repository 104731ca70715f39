"""
One kernel source, four targets: what the scenario does to device memory is the same
compiled, as plain Python and in the CUDA simulator with one lane and with several.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.device.capacities import SMALL
from tests.device.making import BACKEND
from tests.device.scenario.play import play
from tests.device.scenario.player import Scenario, make_device
from tests.device.sources import PACKAGE, kernel_lines, kernel_roots, reachable
from tests.device.target import PLAIN, SIMULATOR, run_target

FRAMES_MIN = 200
COVERED_MIN = 0.9
LANES = (1, 4)

_SPEC = Path(__file__).parents[2] / "docs" / "spec" / "device.md"


@pytest.fixture(scope="module")
def compiled() -> Scenario:
    """The scenario, played on kernels compiled for the CPU."""
    return play(make_device(SMALL, "cpu"), SMALL)


@pytest.fixture(scope="module")
def others() -> Iterator[dict[str, Future[Any]]]:
    """What the other targets make of it, each in a process of its own."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        runs = {"plain": pool.submit(run_target, PLAIN, "--lines")}
        for lanes in LANES:
            arguments = "--backend", "cuda", "--lanes", str(lanes)
            name = f"simulator, {lanes} lanes"
            runs[name] = pool.submit(run_target, SIMULATOR, *arguments)
        yield runs
        for run in runs.values():
            run.cancel()


def _same(scenario: Scenario, other: Any) -> None:
    for tick, (mine, theirs) in enumerate(
        zip(scenario.trace, other["trace"], strict=True)
    ):
        assert mine == theirs, f"the first difference is in tick {tick}"
    assert other["digest"] == scenario.device.digest()
    assert other["frames"] == scenario.frames


def _spec_rows() -> dict[tuple[str, str], tuple[str, str]]:
    """(from, event) → (to, status and flag) of the table in `device.md` §9."""
    table = _SPEC.read_text().split("### Request states")[1].split("\n\n")[1]
    rows: dict[tuple[str, str], tuple[str, str]] = {}
    for line in table.splitlines()[2:]:
        before, event, after, result = (cell.strip() for cell in line[1:-1].split("|"))
        events = re.split(r" / |; |, (?=`)", event.removesuffix(", then stopped"))
        for n, one in enumerate(events):
            results = result.split(" / ")
            # `403` of "409 / 403 / 504, flag 1", `finish 2` of "0, finish 1 / 2"
            if len(results) == 3:
                shown = f"{results[n].split(',')[0]}, flag 1"
            elif len(results) == 2:
                shown = f"0, finish {n + 1}"
            else:
                shown = result
            rows[before, one] = after, shown
    return rows


def test_state_table(compiled: Scenario) -> None:
    """Every row of the state table is taken as it says (`device.md` §9)."""
    spec = _spec_rows()
    taken: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for before, event, after, status, flag, finish in compiled.rows:
        key = ("terminal" if event == "anything" else before), event
        assert key in spec, f"{key} is no row"
        result = str(status)
        if spec[key][1] == "that status":
            assert 400 <= status <= 599
            result = "that status"
        if flag:
            result += ", flag 1"
        if finish:
            result += f", finish {finish}"
        taken.setdefault(key, set()).add((after, result))
    anything = taken.pop(("terminal", "anything"))
    assert anything == {("completed", "0, finish 1")}
    assert spec.pop(("terminal", "anything")) == ("no change", "")
    assert taken == {key: {row} for key, row in spec.items()}


def test_is_long_enough(compiled: Scenario) -> None:
    assert compiled.frames >= FRAMES_MIN


@pytest.mark.simulator
def test_plain_python(compiled: Scenario, others: dict[str, Future[Any]]) -> None:
    _same(compiled, others["plain"].result())


@pytest.mark.simulator
@pytest.mark.parametrize("lanes", LANES)
def test_simulator(
    compiled: Scenario, others: dict[str, Future[Any]], lanes: int
) -> None:
    _same(compiled, others[f"simulator, {lanes} lanes"].result())


@pytest.mark.skipif(BACKEND != "cuda", reason="only on a card: bin/gpu-check")
def test_card(compiled: Scenario) -> None:
    _same(compiled, run_target({}, "--backend", "cuda"))


@pytest.mark.simulator
def test_lines_of_kernels(
    others: dict[str, Future[Any]], tell: Callable[[str], None]
) -> None:
    """
    The scenario runs 90 % of the lines that kernels can reach.

    What only the host calls is no part of a kernel: its side of the mailboxes
    (`sources`), and files without kernels.
    """
    ran = others["plain"].result()["lines"]
    missed: list[str] = []
    count = 0
    for kernel in reachable(kernel_roots()).difference(kernel_roots()):
        lines = kernel_lines(kernel)
        count += len(lines)
        for line in sorted(lines.difference(ran.get(kernel.module, ()))):
            source = (PACKAGE / f"{kernel.module}.py").read_text().splitlines()
            missed.append(f"{kernel.module}.py:{line}: {source[line - 1].strip()}")
    covered = 1 - len(missed) / count
    tell(f"the scenario runs {covered:.1%} of {count} lines of kernels, but not")
    for line_of_file in sorted(missed):
        tell(f"  {line_of_file}")
    assert covered >= COVERED_MIN
