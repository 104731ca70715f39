"""
`python -m tests.simulation SEED [TEXT]`: plays one seed again and prints its history,
or the events in which *TEXT* stands, and what is wrong.
"""

from __future__ import annotations

import sys

from tests.simulation.simulation import draw_profile, run


def main(arguments: list[str]) -> int:
    seed = int(arguments[0])
    text = arguments[1] if len(arguments) > 1 else ""
    outcome = run(seed)
    lines = [str(event) for event in outcome.history.events]
    lines = [line for line in lines if text in line]
    for (group, name), count in sorted(outcome.history.counts.items()):
        lines.append(f"{count:6} {group}: {name}")
    lines += [f"digest {outcome.history.digest()}", str(draw_profile(seed))]
    lines += [f"WRONG: {fault}" for fault in outcome.faults]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
