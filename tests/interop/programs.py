"""
Programs of others, run beside the reactor.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import attrs
import pytest
from twisted.internet.threads import deferToThread


@attrs.frozen
class Ran:
    """
    What a program left.
    """

    code: int
    out: str
    err: str


def need(*programs: str) -> None:
    """
    Skip the test, with the reason, where a program is missing.
    """
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


async def run(
    *words: str, sent: str = "", seconds: float = 120, folder: Path | None = None
) -> Ran:
    """
    Run a program to its end, in *folder*.
    """

    def work() -> Ran:
        done = subprocess.run(
            words,
            input=sent,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=folder,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return await deferToThread(work)
