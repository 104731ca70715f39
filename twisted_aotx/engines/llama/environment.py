"""
What the processes of this engine find in their environment.
"""

from __future__ import annotations

import os
import sys
from typing import Final

#: How often a thread of llama.cpp looks whether the others are done before it sleeps: a
#: few microseconds, less than to be woken takes (docs/models.md).
SPIN_COUNT: Final = 300


def child_environment() -> dict[str, str]:
    """
    The runtime's own, with its import path, and what llama.cpp reads at its start.
    """
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # Threads that wait soon sleep: spinning, they steal others' time.
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": str(SPIN_COUNT),
        # A failed assertion would call a debugger.
        "GGML_NO_BACKTRACE": "1",
    }
