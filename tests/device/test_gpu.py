"""
A machine without a card: the CUDA backend and its check say so.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from numba import cuda

from tests.device.capacities import SMALL
from tests.device.making import new_device
from tests.sources import ROOT
from twisted_aotx.errors import ConfigError

pytestmark = pytest.mark.skipif(cuda.is_available(), reason="there is a card")


def test_the_backend_does_not_start() -> None:
    with pytest.raises(ConfigError) as caught:
        new_device(SMALL, backend="cuda")
    assert caught.value.path == "device.backend"
    assert "GPU" in caught.value.reason


def test_gpu_check_exits_with_2() -> None:
    done = subprocess.run(
        [ROOT / "bin" / "gpu-check"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpu-check: no usable card")
