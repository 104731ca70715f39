"""
A process that is killed while it writes: what it said is done, is done (D12).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.journal.busy import content
from tests.journal.records import open_store
from tests.processes import PATIENCE, ROOT, environment

#: Processes that are killed. By hand: `AOTX_STORE_KILLS=200`, another seed.
KILLS = int(os.environ.get("AOTX_STORE_KILLS", "6"))
SEED = int(os.environ.get("AOTX_SEED", "1"))
#: Records told of, begun and done, after which the kill comes, at most.
LINES_MAX = 60


def killed(folder: Path, seed: int, lines: int) -> list[str]:
    """What a process told until it was killed after *lines* lines."""
    command = [sys.executable, "-m", "tests.journal.busy", str(folder), str(seed)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        told += process.stdout.readlines()
        process.wait(PATIENCE)
    assert all(line.endswith(("begun\n", "done\n")) for line in told)
    return told


def test_what_was_done_outlives_every_kill(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    there: set[str] = set()
    for life in range(KILLS):
        unsure = None
        for line in killed(
            tmp_path, chance.getrandbits(32), chance.randint(1, LINES_MAX)
        ):
            sign, name, what = line.split()
            if what == "begun":
                unsure = name
                there.discard(name)
                continue
            unsure = None
            if sign == "+":
                there.add(name)

        with open_store(tmp_path) as store:
            found = {source.transfer_id.hex(): source for source in store.sources()}
        maybe = set() if unsure is None else {unsure}
        assert there <= found.keys() <= there | maybe, f"life {life}"
        for source in found.values():
            assert source.data == content(source.transfer_id)
        there = set(found)
