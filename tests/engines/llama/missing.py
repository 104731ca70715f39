"""
A machine without a package that the engine needs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from twisted_aotx.engines.llama.template_run import run_template


def hide_jinja2(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Have the processes that run templates miss jinja2; *folder* is put on their path.
    """
    away = "raise ModuleNotFoundError('away', name='jinja2')\n"
    (folder / "jinja2.py").write_text(away)
    monkeypatch.syspath_prepend(str(folder))
    run_template.cache_clear()
