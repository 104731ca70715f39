"""
Which tests run which lines, measured once, so that a mutant meets only those that can
see it, the quick ones first.

Kept in `.venv/mutations/reach`, one file per test file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from coverage import CoverageData

from tests.mutations.copies import Copy
from tests.mutations.mutants import Mutant
from tests.sources import ROOT, name_of, python_files

KEPT: Final = ROOT / ".venv" / "mutations"
#: Seconds that one test file may take while it is measured.
FILE_SECONDS: Final = 300.0
#: Tests that compile, or start processes that nobody looks into, or load a model.
MARKS: Final = (
    "not slow and not ptx and not simulator and not e2e and not model and not fuzz"
)

#: By group: the files that are changed, and where their tests are.
GROUPS: Final = {
    "kernels": (("device",), ("device",)),
    "broker": (
        ("broker", "seqpacket"),
        ("broker", "seqpacket", "client", "watch"),
    ),
    "gateway": (("gateway", "client"), ("gateway", "client")),
}
#: What plain Python does not run.
_NOT_RUN: Final = {
    f"twisted_aotx/device/{name}.py"
    for name in ("backend", "cache", "gpu", "gpu_words", "locator", "parts")
}


def changed_files(group: str) -> list[str]:
    """The files of *group* that mutants are made of."""
    folders = [f"twisted_aotx/{name}" for name in GROUPS[group][0]]
    names = map(name_of, python_files(*folders))
    return [name for name in names if name not in _NOT_RUN]


def test_files(group: str) -> list[str]:
    """The test files that can see *group*."""
    folders = [f"tests/{name}" for name in GROUPS[group][1]]
    return [
        name_of(path)
        for path in python_files(*folders)
        if path.stem.startswith("test_")
    ]


class Reach:
    """
    What was measured of test files.

    Attributes:
        seconds: of each test that passes on the tree as it is.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.seconds: dict[str, float] = {}
        #: By test file: its tests, and by file and line their numbers.
        self._kept: list[tuple[list[str], dict[str, dict[str, list[int]]]]] = []
        self._digests: dict[str, set[str]] = {}
        for path in map(_kept, files):
            if path.exists():
                kept = json.loads(path.read_text())
                self.seconds |= kept["seconds"]
                self._kept.append((list(kept["seconds"]), kept["lines"]))
                for file, digest in kept["digests"].items():
                    self._digests.setdefault(file, set()).add(digest)

    def tests_of(self, mutant: Mutant, source: str) -> list[str]:
        """
        The tests that may see *mutant*: those of its subject first, then the quickest.

        Those that run its lines, and those in a file of its name. If none runs its
        lines, which is so when they run at import, or if the file has changed since:
        those that run its file; all, if there are none.
        """
        first, last = mutant.lines
        found: set[str] = set()
        if self._digests.get(mutant.file) == {digest_of(source)}:
            found = self._running(mutant.file, {str(n) for n in range(first, last + 1)})
        found = found or self._running(mutant.file, None) or set(self.seconds)
        subject = Path(mutant.file).stem
        # Some files are run when the file of their tests is imported.
        found |= {name for name in self.seconds if _is_about(name, subject)}

        def rank(name: str) -> tuple[bool, float]:
            return not _is_about(name, subject), self.seconds[name]

        return sorted(found, key=rank)

    def _running(self, file: str, lines: set[str] | None) -> set[str]:
        """The tests that run one of *lines* of *file*, or any."""
        return {
            names[number]
            for names, measured in self._kept
            for line, numbers in measured.get(file, {}).items()
            if lines is None or line in lines
            for number in numbers
        }


def _is_about(test: str, subject: str) -> bool:
    """Whether the file of *test* is named after the file *subject*."""
    stem = Path(test.partition("::")[0]).stem.removeprefix("test_")
    return stem.startswith(subject) or subject.startswith(stem)


def digest_of(source: str) -> str:
    """Of a file's text."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _kept(file: str) -> Path:
    return KEPT / "reach" / f"{file.replace('/', '-')}.json"


def measure(copy: Copy, files: Sequence[str]) -> tuple[int, int]:
    """Run and keep the test files *files*; how many tests passed and did not."""
    lines = copy.root.parent / "lines"
    lines.unlink(missing_ok=True)
    run = copy.run(
        files,
        # The oracle alone runs nothing of the package.
        *("--maxfail=100000", "-m", MARKS, "-k", "not oracle"),
        cpu_seconds=FILE_SECONDS * len(files),
        lines=lines,
    )
    failed = {each["test"] for each in run.observed if each["outcome"] == "failed"}
    passed = {
        each["test"]: each["seconds"]
        for each in run.observed
        if each["outcome"] == "passed" and each["test"] not in failed
    }
    (KEPT / "reach").mkdir(parents=True, exist_ok=True)
    found, digests = _lines(copy, lines)
    for file in files:
        seconds = {
            name: passed[name] for name in passed if name.startswith(f"{file}::")
        }
        kept = {
            "seconds": seconds,
            "lines": _numbered(found, list(seconds)),
            "digests": digests,
        }
        _kept(file).write_text(json.dumps(kept))
    return len(passed), len(failed)


#: By file and line, the tests that run it.
_Lines = dict[str, dict[int, list[str]]]


def _lines(copy: Copy, lines: Path) -> tuple[_Lines, dict[str, str]]:
    """What coverage wrote to *lines*, and the digests of the files."""
    if not lines.exists():
        return {}, {}
    data = CoverageData(str(lines))
    data.read()
    found: _Lines = {}
    digests: dict[str, str] = {}
    for measured in data.measured_files():
        path = Path(measured)
        file = str(path.relative_to(copy.root))
        found[file] = data.contexts_by_lineno(measured)
        digests[file] = digest_of(path.read_text())
    return found, digests


def _numbered(found: _Lines, names: Sequence[str]) -> dict[str, dict[int, list[int]]]:
    """*found* as far as it is of *names*, by their numbers."""
    number = {name: n for n, name in enumerate(names)}
    numbered = {
        file: {
            line: sorted(number[name] for name in tests if name in number)
            for line, tests in by_line.items()
        }
        for file, by_line in found.items()
    }
    return {
        file: {line: tests for line, tests in by_line.items() if tests}
        for file, by_line in numbered.items()
    }
