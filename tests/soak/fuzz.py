"""
Made-up bytes against parsers and live sockets: `fuzz [TARGET...] --seconds N`.

Without a target each one has its share of the time. What fails is printed with its
input, and kept as a file of the corpus. `--replay` tries one input again.
"""

from __future__ import annotations

import argparse
import base64
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.harness import Finding, corpus_of, keep, run
from tests.fuzz.targets import TARGETS


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bin/soak fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", choices=[*TARGETS, []])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", default=None, help="a fresh one if none is named")
    parser.add_argument(
        "--keep",
        type=int,
        default=0,
        metavar="BYTES",
        help="make inputs of so many bytes at most that did something new part of "
        "the corpus",
    )
    parser.add_argument(
        "--replay",
        metavar="INPUT",
        help="try this input only: a file, or base64 as a failure shows it",
    )
    options = parser.parse_args(arguments)
    if options.replay:
        if len(options.target) != 1:
            parser.error("--replay needs one target")
        _replay(options.target[0], options.replay)
        return
    seed = options.seed or secrets.token_hex(8)
    names = options.target or list(TARGETS)
    failed = False
    for name in names:
        sys.stdout.write(f"fuzz {name}: seed {seed}\n")
        sys.stdout.flush()
        failed |= not _run(name, seed, options.seconds / len(names), options.keep)
    raise SystemExit(int(failed))


def _replay(name: str, told: str) -> None:
    path = Path(told)
    is_file = len(told) < 4096 and path.is_file()
    data = path.read_bytes() if is_file else base64.b64decode(told, validate=True)
    target = TARGETS[name]()
    try:
        features = target.judge(data)
    finally:
        target.close()
    sys.stdout.write("".join(f"{each}\n" for each in sorted(map(repr, features))))


def _run(name: str, seed: str, seconds: float, kept_bytes: int) -> bool:
    target = TARGETS[name]()
    try:
        report = run(target, seed, seconds=seconds)
    except Finding as finding:
        sys.stdout.write(f"{finding}\n")
        return False
    finally:
        target.close()
    known = set(corpus_of(name))
    for data in report.kept:
        if len(data) <= kept_bytes and data not in known:
            keep(name, data)
    sys.stdout.write(f"{report}\n")
    sys.stdout.flush()
    return True
