"""
Counts the lines that kernels execute as plain Python, by file and line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import attrs

from tests.device.sources import PACKAGE, functions, kernel_lines, module_names


@attrs.define
class Visits:
    """
    How often each line of a kernel ran: (module, line) → times.
    """

    counts: Counter[tuple[str, int]] = attrs.field(factory=Counter)

    def by_module(self) -> dict[str, list[int]]:
        """The lines that ran, without how often."""
        lines: dict[str, list[int]] = {}
        for module, line in sorted(self.counts):
            lines.setdefault(module, []).append(line)
        return lines


@cache
def _wanted() -> dict[str, set[int]]:
    """The lines of each module's kernels; compiling them all takes half a second."""
    return {
        name: set[int]().union(*map(kernel_lines, functions(name)))
        for name in module_names()
    }


@contextmanager
def count_lines(*, enabled: bool = True) -> Iterator[Visits]:
    """Count the kernels' lines while the block runs, on this thread."""
    visits = Visits()
    modules = {str(PACKAGE / f"{name}.py"): name for name in module_names()}
    wanted = _wanted()

    def local(module: str) -> Any:
        lines, counts = wanted[module], visits.counts

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line" and frame.f_lineno in lines:
                counts[module, frame.f_lineno] += 1
            return trace

        return trace

    tracers = {name: local(name) for name in wanted}

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        module = modules.get(frame.f_code.co_filename)
        return None if module is None else tracers[module]

    before = sys.gettrace()
    if enabled:
        sys.settrace(enter)
    try:
        yield visits
    finally:
        if enabled:
            sys.settrace(before)


def from_plain_python(module: str, *arguments: object) -> Any:
    """The JSON that *module* writes when it is run with the compiler off."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
