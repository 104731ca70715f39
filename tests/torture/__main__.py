"""
`bin/torture`: real processes under fire, for as long as you like.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from tests.torture.battle import Battle, Plan

#: Seconds between two lines.
TELL_SECONDS: Final = 10.0
#: `device.requests`. With its default results of who stands still are displaced, which
#: is judged, too; any other number compiles kernels of its own.
REQUESTS: Final = 128


def _plan() -> Plan:
    parser = argparse.ArgumentParser(prog="bin/torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="about so long")
    parser.add_argument("--seed", type=int, help="of what is done, and when")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument(
        "--flood", type=int, default=10_000, help="idle connections at the end"
    )
    parser.add_argument(
        "--requests", type=int, default=REQUESTS, help="device.requests"
    )
    told = parser.parse_args()
    return Plan(
        clients=told.clients,
        seconds=told.seconds,
        seed=secrets.randbelow(1 << 32) if told.seed is None else told.seed,
        requests=told.requests,
        flood=told.flood,
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _tell(battle: Battle, began: float, over: threading.Event) -> None:
    while not over.wait(TELL_SECONDS):
        counts = dict(battle.book.counts)
        fires = sum(n for name, n in counts.items() if name.startswith("fires: "))
        _say(
            f"{time.monotonic() - began:6.0f} s  {battle.part:9}"
            f"  {battle.book.done} requests, {fires} fires,"
            f" {counts.get('streams resumed', 0)} streams resumed,"
            f" {counts.get('uploads acknowledged', 0)} uploads,"
            f" {len(battle.book.faults)} faults"
        )


def report(battle: Battle) -> str:
    """What happened, as a table."""
    counts = dict(sorted(battle.book.counts.items()))
    rows = [(name, str(count)) for name, count in counts.items()]
    for (what, how), count in sorted(battle.fleet.ends.items()):
        rows.append((f"{what} ended by {how}", str(count)))
    for name, level in battle.levels.items():
        after = battle.last_levels.get(name)
        rows.append((f"{name}, in calm weather", str(level)))
        rows.append((f"{name}, at last", str(after or "not looked at")))
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"  {name:<{width}}  {value}" for name, value in rows]
    return "\n".join(lines)


def main() -> int:
    """Run it; 1 if something was wrong."""
    plan = _plan()
    _say(f"seed {plan.seed}, {plan.clients} clients, {plan.seconds:.0f} s")
    folder = Path(tempfile.mkdtemp(prefix="aotx-torture-"))
    battle = Battle(folder, plan)
    over = threading.Event()
    teller = threading.Thread(
        target=_tell, args=(battle, time.monotonic(), over), daemon=True
    )
    teller.start()
    # What ends this process from outside ends its processes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        battle.run()
    finally:
        battle.fleet.end()
        over.set()
    _say(report(battle))
    if battle.book.faults:
        _say(f"seed {plan.seed}: {len(battle.book.faults)} faults")
        for fault in battle.book.faults:
            _say(f"  {fault}")
        _say(f"logs and state: {folder}")
        return 1
    _say("leaks: none; every history verified")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
