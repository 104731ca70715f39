"""
Every fuzzer on its corpus, and on as many drawn inputs as there is time for; the same
ones each time. `bin/soak fuzz` draws others.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.harness import run
from tests.fuzz.targets import TARGETS

#: The quick profile draws a part of what the other does.
_PART = 1 if os.environ.get("AOTX_HYPOTHESIS") == "ci" else 8


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_promise(name: str) -> None:
    target = TARGETS[name]()
    try:
        report = run(target, "0", count=target.count // _PART, failures=None)
    finally:
        target.close()

    assert report.inputs > target.count // _PART
