"""
What the tests of the device measured, shown after the run.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

_FACTS = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Show a line after the run, whether or not its test passes."""
    return pytestconfig.stash.setdefault(_FACTS, []).append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    facts = config.stash.get(_FACTS, [])
    if facts:
        terminalreporter.section("kernels")
        for fact in facts:
            terminalreporter.write_line(fact)
