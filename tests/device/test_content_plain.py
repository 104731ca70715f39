"""
The tests of the content kernels once more as plain Python, where the pool tells of
every byte that is read beside the source.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = ("test_sha256.py", "test_jpeg.py", "test_jpeg_scans.py", "test_wav.py")


@pytest.mark.simulator
def test_no_byte_beside_a_source_is_read() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(str(HERE / name) for name in FILES),
        ],
        cwd=HERE.parents[1],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout
