"""
A place for models, and pip without any index but a folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.commands import pip_environment


def set_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str | None]
) -> None:
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models are fetched to; not made yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/aotx/models"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder that pip looks into."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    set_environment(
        monkeypatch, pip_environment(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder))
    )
    return folder
