"""
systemd understands the units in etc/.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sources import ROOT

UNITS = ("aotx.service", "aotx-runtime.service", "aotx-gateway.service")

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)


def verified(folder: Path, **changed: str) -> str:
    """What systemd says of all units; they name no program or user that is not here."""
    for name in UNITS:
        text = (ROOT / "etc" / name).read_text()
        settings = {"ExecStart": "/bin/true", "User": "root", **changed}
        for key, value in settings.items():
            text, count = re.subn(f"^{key}=.*$", f"{key}={value}", text, flags=re.M)
            assert count == 1, (name, key)
        (folder / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *UNITS],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def test_nothing_is_misspelt(tmp_path: Path) -> None:
    assert verified(tmp_path) == ""


def test_it_would_be_told(tmp_path: Path) -> None:
    told = verified(tmp_path, KillMode="mixd", ProtectSystem="strictly")

    assert told.count("mixd") + told.count("kill mode") >= len(UNITS)
    assert told.count("strictly") == len(UNITS)
