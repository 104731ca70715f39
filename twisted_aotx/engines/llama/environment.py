"""
What the processes of this engine find in their environment.
"""

from __future__ import annotations

import os
import sys


def child_environment() -> dict[str, str]:
    """
    The runtime's own, with its import path, and what llama.cpp reads at its start.
    """
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # Threads that wait for each other sleep: spinning, they steal others' time.
        "OMP_WAIT_POLICY": "passive",
        # A failed assertion would call a debugger.
        "GGML_NO_BACKTRACE": "1",
    }
