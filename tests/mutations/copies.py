"""
A copy of the tree in a temporary directory, in which files are changed and tests run.

Kernels run there as plain Python: nothing is compiled, so a change of a kernel costs
nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import attrs

from tests.sources import ROOT

#: What a run of tests does not need.
_LEFT_OUT = shutil.ignore_patterns(
    *(".*", "__pycache__", "build", "dist", "var", "dropin.cache", "*.egg-info")
)
_OPTIONS = (
    *("-q", "-x", "--tb=short", "-p", "no:cacheprovider"),
    *("-p", "tests.mutations.observed"),
    # Seconds that one test may wait; the quick ones take less than one.
    *("-o", "timeout=60"),
)
#: On a busy machine a run lasts so many times as long as its processor works for it.
WAIT_FACTOR: Final = 15


@attrs.frozen(kw_only=True)
class Run:
    """
    What became of tests.
    """

    #: `passed`, `failed`, `hang` (it was ended) or `error` (nothing could be run).
    outcome: str
    #: One object per test and failure; see `observed`.
    observed: Sequence[dict[str, Any]]
    output: str

    @property
    def failure(self) -> dict[str, Any] | None:
        """The first failure, if a test failed."""
        failed = [each for each in self.observed if each["outcome"] == "failed"]
        return failed[0] if failed else None


class Copy:
    """
    The copy in *folder*.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self._beside = folder
        shutil.copytree(ROOT, self.root, ignore=_LEFT_OUT)
        self._forks = subprocess.Popen(
            [sys.executable, "-m", "tests.mutations.forks"],
            cwd=self.root,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((".", "plugins")),
                "NUMBA_DISABLE_JIT": "1",
                "AOTX_HYPOTHESIS": "mutations",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Self]:
        """A copy that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="aotx-mutations-") as folder:
            copy = cls(Path(folder))
            try:
                yield copy
            finally:
                copy.close()

    def close(self) -> None:
        """End the process that runs tests."""
        with self._forks as forks:
            assert forks.stdin is not None
            forks.stdin.close()

    @contextmanager
    def changed(self, file: str, text: str) -> Iterator[None]:
        """*file* reads *text* meanwhile."""
        path = self.root / file
        before = path.read_text()
        self._write(path, text)
        try:
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Python compares seconds and sizes, and a change may keep both.
        for made in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            made.unlink()

    def run(
        self,
        tests: Sequence[str],
        *options: str,
        cpu_seconds: float,
        order: Sequence[str] = (),
        lines: Path | None = None,
    ) -> Run:
        """
        Run *tests*, names or files, up to the first failure.

        Args:
            cpu_seconds: that they may take; waiting is allowed `WAIT_FACTOR` as much.
            order: of what is found there, run these, in this order.
            lines: where to write which lines each test ran.
        """
        observed, output = self._beside / "observed.jsonl", self._beside / "output"
        observed.unlink(missing_ok=True)
        ordered = self._beside / "order.json"
        ordered.write_text(json.dumps(list(order)))
        request = {
            "arguments": [*_OPTIONS, *options, *tests],
            "environment": {
                "AOTX_OBSERVED": str(observed),
                "AOTX_ORDER": str(ordered) if order else "",
                "AOTX_LINES": str(lines or ""),
            },
            "cpu_seconds": cpu_seconds,
            "wall_seconds": cpu_seconds * WAIT_FACTOR,
            "output": str(output),
        }
        forks = self._forks
        assert forks.stdin is not None
        assert forks.stdout is not None
        forks.stdin.write(json.dumps(request) + "\n")
        forks.stdin.flush()
        code = json.loads(forks.stdout.readline())
        found = (
            [json.loads(line) for line in observed.read_text().splitlines()]
            if observed.exists()
            else []
        )
        names = {None: "hang", 0: "passed", 1: "failed"}
        return Run(
            outcome=names.get(code, "error"),
            observed=found,
            output=output.read_text(errors="replace"),
        )
