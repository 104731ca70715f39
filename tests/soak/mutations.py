"""
Deliberate faults, planted and random, that tests must catch (docs/testing.md).

    bin/soak mutations planted [WORD]           plant each fault (whose name has WORD)
    bin/soak mutations reach [FILE ...]         measure which tests run which lines
    bin/soak mutations random --count N --seed S [--results FILE] [--again]
    bin/soak mutations report [--results FILE]  what is in the results
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tests.mutations.copies import Copy
from tests.mutations.faults import planted_faults
from tests.mutations.mutants import Mutant, mutants_of
from tests.mutations.reach import (
    GROUPS,
    KEPT,
    Reach,
    changed_files,
    digest_of,
    measure,
    test_files,
)

#: Seconds that the test of a planted fault may take.
_PLANTED_SECONDS: Final = 40.0
#: Seconds of tests, as measured, that one mutant meets at most.
_TESTS_SECONDS: Final = 30.0
#: A mutant hangs when its tests take longer than that, and this many times as long.
_HANG_SECONDS: Final = 20.0
_HANG_FACTOR: Final = 4.0
#: The oracle beside the kernels, from rules: last, for every mutant of a kernel.
_MACHINE: Final = "tests/device/test_machine.py::TestDevice::runTest"
_MACHINE_SECONDS: Final = 10.0
#: How many mutants of each group there are among seven.
_SHARES: Final = {"kernels": 3, "broker": 1, "gateway": 3}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# --- planted --------------------------------------------------------------------------


def _planted(options: argparse.Namespace) -> int:
    faults = [each for each in planted_faults() if options.word in each.name]
    began = time.monotonic()
    missed = 0
    with Copy.made() as copy:
        tests = sorted({fault.test for fault in faults})
        run = copy.run(tests, cpu_seconds=_PLANTED_SECONDS * len(tests))
        if run.outcome != "passed":
            _say(f"{run.output}\nthe tests do not pass without a fault")
            return 1
        for fault in faults:
            with copy.changed(fault.file, fault.plant(copy.root)):
                run = copy.run([fault.test], cpu_seconds=_PLANTED_SECONDS)
            failure = run.failure
            caught = failure is not None and failure["asserted"]
            how = run.outcome if failure is None else failure["kind"]
            missed += not caught
            _say(f"{'caught' if caught else 'MISSED'}  {fault.name}: {how}")
            if not caught:
                _say(run.output)
    seconds = time.monotonic() - began
    _say(f"{len(faults) - missed} of {len(faults)} faults caught in {seconds:.0f} s")
    return 1 if missed else 0


# --- random ---------------------------------------------------------------------------


def _draws(seed: int, root: Path) -> Iterator[tuple[str, Mutant]]:
    """
    Mutants without end, each once: a group by its share, then a kind, then any place.
    """
    chance = random.Random(seed)
    kinds: dict[str, dict[str, list[Mutant]]] = {}
    for group in GROUPS:
        found = kinds.setdefault(group, {})
        for file in changed_files(group):
            for mutant in mutants_of(file, (root / file).read_text()):
                found.setdefault(mutant.kind, []).append(mutant)
    seen = set()
    while True:
        group = chance.choices(list(_SHARES), list(_SHARES.values()))[0]
        kind = chance.choice(sorted(kinds[group]))
        mutant = chance.choice(kinds[group][kind])
        if mutant not in seen:
            seen.add(mutant)
            yield group, mutant


def _key(mutant: Mutant, source: str) -> str:
    """The same as long as the file is."""
    return digest_of(f"{attrs.asdict(mutant)}{digest_of(source)}")


def _read(results: Path) -> dict[str, dict[str, Any]]:
    """The last result of each mutant."""
    if not results.exists():
        return {}
    rows = map(json.loads, results.read_text().splitlines())
    return {row["key"]: row for row in rows}


def _within(reach: Reach, tests: Sequence[str]) -> list[str]:
    """The first of *tests* whose seconds fit."""
    chosen: list[str] = []
    total = 0.0
    for name in tests:
        total += reach.seconds[name]
        if chosen and total > _TESTS_SECONDS:
            break
        chosen.append(name)
    return chosen


def _rounds(reach: Reach, group: str, mutant: Mutant, source: str) -> list[list[str]]:
    """The tests that *mutant* meets: round by round, until one fails."""
    rounds = [_within(reach, reach.tests_of(mutant, source))]
    if group == "kernels":
        # It runs nearly every line, so its lines would say nothing.
        rounds.append([_MACHINE])
        reach.seconds.setdefault(_MACHINE, _MACHINE_SECONDS)
    return rounds


def _judge(
    copy: Copy, reach: Reach, mutant: Mutant, rounds: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """What becomes of *mutant*: `caught`, `hang`, `survived`."""
    began = time.monotonic()
    source = (copy.root / mutant.file).read_text()
    with copy.changed(mutant.file, mutant.text(source)):
        for tests in rounds:
            files = sorted({name.partition("::")[0] for name in tests})
            seconds = sum(reach.seconds[name] for name in tests)
            allowed = _HANG_SECONDS + _HANG_FACTOR * seconds
            run = copy.run(files, cpu_seconds=allowed, order=tests)
            if run.outcome != "passed":
                break
    outcome = {"passed": "survived", "hang": "hang"}.get(run.outcome, "caught")
    failure = run.failure or {}
    return {
        "outcome": outcome,
        "by": failure.get("test", ""),
        "how": failure.get("kind", run.outcome),
        "tests": sum(map(len, rounds)),
        "seconds": round(time.monotonic() - began, 1),
    }


def _random(options: argparse.Namespace) -> int:
    _say(f"seed {options.seed}")
    known = _read(options.results)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    groups = [options.group] if options.group else list(GROUPS)
    reaches = {group: Reach(test_files(group)) for group in groups}
    ends = time.monotonic() + options.seconds
    with Copy.made() as copy:
        drawn = _draws(options.seed, copy.root)
        for number in range(options.count):
            group, mutant = next(drawn)
            source = (copy.root / mutant.file).read_text()
            key = _key(mutant, source)
            before = known.get(key)
            if number < options.first or options.group not in (None, group):
                continue
            if before and not (options.again and before["outcome"] == "survived"):
                continue
            if time.monotonic() > ends:
                break
            reach = reaches[group]
            rounds = _rounds(reach, group, mutant, source)
            row = {
                "key": key,
                "seed": options.seed,
                "number": number,
                "group": group,
                "file": mutant.file,
                "line": mutant.start[0],
                "kind": mutant.kind,
                "diff": mutant.diff(source),
                **_judge(copy, reach, mutant, rounds),
            }
            with options.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            _say(
                f"{number} {row['outcome']} {mutant.file}:{mutant.start[0]} "
                f"{mutant.kind} {row['seconds']} s {row['how']} {row['by']}"
            )
            if row["outcome"] == "survived":
                _say(row["diff"])
    return _report(options)


def _report(options: argparse.Namespace) -> int:
    """The last results, and every survivor as a diff."""
    rows = list(_read(options.results).values())
    for row in rows:
        if row["outcome"] == "survived":
            _say(f"\nseed {row['seed']}, number {row['number']}, {row['kind']}")
            _say(row["diff"])
    for group in GROUPS:
        count = Counter(row["outcome"] for row in rows if row["group"] == group)
        _say(f"{group}: " + ", ".join(f"{n} {what}" for what, n in count.items()))
    caught = sum(row["outcome"] != "survived" for row in rows)
    seconds = sum(row["seconds"] for row in rows)
    share = 100 * caught / max(1, len(rows))
    _say(f"{caught} of {len(rows)} caught ({share:.1f} %), {seconds:.0f} s")
    return 0


# --- reach ----------------------------------------------------------------------------


def _reach(options: argparse.Namespace) -> int:
    files = options.files or sorted({f for g in GROUPS for f in test_files(g)})
    with Copy.made() as copy:
        for folder in sorted({str(Path(file).parent) for file in files}):
            began = time.monotonic()
            inside = [file for file in files if str(Path(file).parent) == folder]
            passed, failed = measure(copy, inside)
            seconds = time.monotonic() - began
            _say(f"{folder}: {passed} passed, {failed} not, {seconds:.0f} s")
    return 0


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bin/soak mutations")
    commands = parser.add_subparsers(required=True)
    planted = commands.add_parser("planted", help="plant the faults of planted.toml")
    planted.add_argument("word", nargs="?", default="")
    planted.set_defaults(run=_planted)
    reach = commands.add_parser("reach", help="measure which tests run which lines")
    reach.add_argument("files", nargs="*")
    reach.set_defaults(run=_reach)
    chance = commands.add_parser("random", help="try random mutants")
    chance.add_argument("--count", type=int, default=200)
    chance.add_argument("--first", type=int, default=0, help="number to begin with")
    chance.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chance.add_argument("--seconds", type=float, default=float("inf"))
    chance.add_argument("--group", choices=GROUPS, help="of these only")
    chance.add_argument("--again", action="store_true", help="survivors too")
    chance.set_defaults(run=_random)
    report = commands.add_parser("report", help="what is in the results")
    report.set_defaults(run=_report)
    for each in (chance, report):
        each.add_argument("--results", type=Path, default=KEPT / "results.jsonl")
    options = parser.parse_args(arguments)
    raise SystemExit(options.run(options))
