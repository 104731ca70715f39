"""
Every fuzzer on its corpus, and on as many drawn inputs as there is time for; the same
ones each time. `bin/soak fuzz` draws others.
"""

from __future__ import annotations

import hashlib
import os

import pytest

from tests.fuzz.harness import CORPUS, run
from tests.fuzz.targets import TARGETS

#: The quick profile draws a part of what the other does.
_PART = 1 if os.environ.get("AOTX_HYPOTHESIS") == "ci" else 8


def test_the_corpus_is_small_and_holds_nothing_twice() -> None:
    files = [path for path in CORPUS.glob("*/*") if path.is_file()]

    assert {path.parent.name for path in files} == set(TARGETS)
    for path in files:
        data = path.read_bytes()
        assert path.name == hashlib.sha256(data).hexdigest()[:16]
        assert len(data) <= 4096


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_promise(name: str) -> None:
    target = TARGETS[name]()
    try:
        report = run(target, "0", count=target.count // _PART, failures=None)
    finally:
        target.close()

    assert report.inputs > target.count // _PART
