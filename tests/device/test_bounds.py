"""
No kernel reads or writes beside an array: the scenario with checked indexes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.device.capacities import SMALL
from tests.device.scenario.play import play
from tests.device.scenario.player import make_device
from tests.device.target import run_target

CHECKED = {"NUMBA_BOUNDSCHECK": "1"}
#: Sets bit 70 of a bitmap that has room for 64.
_BESIDE = """
import numpy
from twisted_aotx.device.bits import bitmap_set
bitmap_set(numpy.zeros(1, numpy.uint64), 70)
"""


@pytest.mark.slow
def test_indexes_stay_inside() -> None:
    """Nothing raises, and the checked kernels do what the others do."""
    checked = run_target(CHECKED)
    assert checked["trace"] == play(make_device(SMALL, "cpu"), SMALL).trace


def test_checks_are_compiled_in() -> None:
    """The same flag makes a write beside an array an IndexError."""
    done = subprocess.run(
        [sys.executable, "-c", _BESIDE],
        env={**os.environ, **CHECKED},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert "IndexError" in done.stderr
