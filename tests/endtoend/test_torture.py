"""
Real processes under fire, in short: few clients, one fire of each kind, a small flood.

`bin/torture` goes on for as long as one likes (docs/testing.md).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.battle import Battle, Plan

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: By hand: another seed, or more of it.
SEED = int(os.environ.get("AOTX_SEED", "1"))
#: One of each sort; bin/torture puts some of them together.
KINDS = (
    "gateway killed",
    "gateway stopped",
    "runtime killed",
    "runtime stopped",
    "socket moved away",
    "socket removed",
    "disk full",
    "decoders killed",
)


def test_every_history_is_verified_after_a_fire_of_each_kind(tmp_path: Path) -> None:
    plan = Plan(
        clients=8,
        seed=SEED,
        requests=128,
        fires=len(KINDS),
        kinds=KINDS,
        flood=400,
        calm_seconds=5,
        still_seconds=(0.5, 1.0),
        between=(2, 4),
    )
    battle = Battle(tmp_path, plan)

    battle.run()

    assert battle.book.faults == []
    seen = battle.book.counts
    assert {f"fires: {kind}" for kind in KINDS} <= seen.keys()
    for what in ("streams resumed", "uploads acknowledged", "old handles answered 410"):
        assert seen[what] > 0, what
    assert seen["flood: closed"] + seen["flood: reset"] == plan.flood
