"""
A pytest plugin for runs on a copy of the tree (`-p tests.mutations.observed`): which
tests are run and in which order, what became of each, and which lines it ran.

| environment | |
|---|---|
| AOTX_OBSERVED | where to append one JSON object per test and failure |
| AOTX_ORDER | a JSON list of tests: these, in this order, and no other |
| AOTX_LINES | where to write which lines of the package each test ran |

Hypothesis makes the same examples in every run (profile `mutations`), and shrinks none.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "mutations",
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

_OBSERVED = os.environ.get("AOTX_OBSERVED")
_ORDER = os.environ.get("AOTX_ORDER")
_LINES = os.environ.get("AOTX_LINES")

#: Before anything of the package is imported.
_coverage = (
    Coverage(
        data_file=_LINES,
        source=["twisted_aotx"],
        concurrency=["thread", "greenlet"],
        config_file=False,
    )
    if _LINES
    else None
)
if _coverage is not None:
    _coverage.start()


#: Seconds that the processor worked for a test.
_TOOK = pytest.StashKey[float]()


def _note(**what: object) -> None:
    if _OBSERVED:
        with Path(_OBSERVED).open("a") as file:
            file.write(json.dumps(what) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if not _ORDER:
        return
    order: list[str] = json.loads(Path(_ORDER).read_text())
    rank = {name: number for number, name in enumerate(order)}
    others = [item for item in items if item.nodeid not in rank]
    items[:] = sorted(
        (item for item in items if item.nodeid in rank),
        key=lambda item: rank[item.nodeid],
    )
    config.hook.pytest_deselected(items=others)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if _coverage is not None:
        _coverage.switch_context(item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    began = time.process_time()
    try:
        return (yield)
    finally:
        item.stash[_TOOK] = time.process_time() - began


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        assert call.excinfo is not None
        error = call.excinfo.value
        _note(
            test=item.nodeid,
            outcome="failed",
            when=report.when,
            kind=type(error).__name__,
            # What a test says itself, not what it stumbled over.
            asserted=isinstance(error, AssertionError | pytest.fail.Exception),
        )
    elif report.when == "call":
        _note(test=item.nodeid, outcome=report.outcome, seconds=item.stash[_TOOK])
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    if _coverage is not None:
        _coverage.stop()
        _coverage.save()
