"""
A copy of the tree in a temporary directory, in which files are changed and tests run.

Kernels run there as plain Python: nothing is compiled, so a change of a kernel costs
nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import attrs

from tests.sources import ROOT

#: What a run of tests does not need.
_LEFT_OUT = shutil.ignore_patterns(
    *(".*", "__pycache__", "build", "dist", "var", "dropin.cache", "*.egg-info")
)
_OPTIONS = ("-q", "-x", "--tb=short", "-p", "no:cacheprovider")


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

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Self]:
        """A copy that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="aotx-mutations-") as folder:
            yield cls(Path(folder))

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
        seconds: float,
        order: Sequence[str] = (),
        lines: Path | None = None,
    ) -> Run:
        """
        Run *tests*, names or files, for *seconds* at most, up to the first failure.

        Args:
            order: of what is found there, run these, in this order.
            lines: where to write which lines each test ran.
        """
        observed = self._beside / "observed.jsonl"
        observed.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((".", "plugins")),
            "NUMBA_DISABLE_JIT": "1",
            "AOTX_HYPOTHESIS": "mutations",
            "AOTX_OBSERVED": str(observed),
            "AOTX_LINES": str(lines or ""),
        }
        if order:
            ordered = self._beside / "order.json"
            ordered.write_text(json.dumps(list(order)))
            environment["AOTX_ORDER"] = str(ordered)
        command = [sys.executable, "-m", "pytest", "-p", "tests.mutations.observed"]
        code, output = self._outcome(
            [*command, *_OPTIONS, *options, *tests], environment, seconds
        )
        found = (
            [json.loads(line) for line in observed.read_text().splitlines()]
            if observed.exists()
            else []
        )
        names = {None: "hang", 0: "passed", 1: "failed"}
        return Run(outcome=names.get(code, "error"), observed=found, output=output)

    def _outcome(
        self, command: Sequence[str], environment: dict[str, str], seconds: float
    ) -> tuple[int | None, str]:
        output = self._beside / "output"
        with (
            output.open("wb") as file,
            subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                code: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # Whatever the tests have left behind, too.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return code, output.read_text(errors="replace")
