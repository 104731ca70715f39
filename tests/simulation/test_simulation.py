"""
Every promise holds in runs of many seeds; the seeds visit what they should; a seed is
the same run wherever it is played.

`AOTX_SIMULATION_SECONDS` is for how long seeds are run, 60 by default; `bin/soak
simulation` is for more.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from tests.simulation.chaos import DEEDS
from tests.simulation.seeds import Tally, for_seconds, tally
from tests.simulation.simulation import run
from tests.sources import ROOT

pytestmark = pytest.mark.simulation

#: Seeds that are run however long they take, and the most that are.
LEAST, MOST = 100, 1000
SECONDS = float(os.environ.get("AOTX_SIMULATION_SECONDS", "60"))


@pytest.fixture(scope="module")
def runs() -> Tally:
    goes_on = for_seconds(SECONDS, least=LEAST, most=MOST)
    found = tally(itertools.count(1), goes_on)
    sys.stderr.write(f"\n{found}\n")
    return found


@pytest.mark.timeout(1800)
def test_every_promise_holds_whatever_the_seed(runs: Tally) -> None:
    assert runs.seeds >= LEAST
    assert not runs.failures, "\n".join(runs.failures)


@pytest.mark.parametrize("deed", DEEDS)
def test_the_seeds_do_every_deed(runs: Tally, deed: str) -> None:
    assert runs.counts["deed", deed]


@pytest.mark.parametrize(
    "fault",
    [
        *(
            "delay",
            "doorbell dropped",
            "device stalls",
            "store error",
            "store slow",
            "engine crash",
        ),
        *("client left", "peer left", "engine silent", "engine refused"),
        *("engine failed", "engine large", "engine too much", "engine opened twice"),
        *("engine emit first", "send EAGAIN", "send EPIPE", "send ENOBUFS"),
        *("receive EAGAIN", "receive ECONNRESET", "receive ENOBUFS"),
        *("accept ECONNABORTED", "connect EAGAIN"),
    ],
)
def test_the_seeds_have_every_fault(runs: Tally, fault: str) -> None:
    assert runs.counts["fault", fault]


@pytest.mark.parametrize(
    "seen",
    [
        *("queued 0", "preparing 0", "preparing 409", "running 0", "running 409"),
        *("completed 0", "failed 400", "failed 503", "cancelled 409"),
        *("cancelled 413", "cancelled 503", "cancelled 504"),
    ],
)
def test_the_seeds_see_every_state(runs: Tally, seen: str) -> None:
    assert runs.counts["seen", seen]


@pytest.mark.parametrize(
    "outcome",
    [
        *("completion whole", "completion cut", "stream resumed", "cancel accepted"),
        *("submission without an answer", "upload without an answer"),
        *("source ready", "removal 204", "removal 404", "policy 200", "policy 409"),
        *("peer was closed", "peer found nobody"),
    ],
)
def test_the_seeds_come_to_every_outcome(runs: Tally, outcome: str) -> None:
    assert runs.counts["outcome", outcome]


@pytest.mark.parametrize("seed", [3, 17])
def test_a_seed_is_the_same_run_again(seed: int) -> None:
    assert run(seed).history.digest() == run(seed).history.digest()


def test_other_seeds_are_other_runs() -> None:
    assert run(3).history.digest() != run(4).history.digest()


def test_a_seed_is_the_same_run_in_another_process() -> None:
    """Neither the order of hashes nor that of addresses decides anything."""
    said = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "17"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": ".:plugins"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert f"digest {run(17).history.digest()}" in said.stdout.splitlines()
