"""
The whole program on a virtual clock, seed after seed: `--seconds N`, `--first SEED`.

Prints what happened over all seeds; a seed with a fault is told with what is wrong, and
ends nothing.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import sys
import time

from tests.simulation.seeds import commit, for_seconds, tally

#: Where fresh seeds begin: far above those that every check runs.
_FRESH = range(10**6, 10**9)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bin/soak simulation")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--first", type=int)
    options = parser.parse_args(arguments)
    first = options.first
    if first is None:
        first = _FRESH[secrets.randbelow(len(_FRESH))]
    sys.stdout.write(f"from seed {first}, commit {commit()}\n")
    sys.stdout.flush()
    began = time.monotonic()
    found = tally(itertools.count(first), for_seconds(options.seconds))
    sys.stdout.write(f"{found}\n")
    sys.stdout.write(
        f"{found.seeds} seeds in {time.monotonic() - began:.0f} s, "
        f"{len(found.failures)} of them with faults\n"
    )
    raise SystemExit(bool(found.failures))
