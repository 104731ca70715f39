"""
docs/log.md has every line that can stand in the log, under its level, and no other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.sources import PACKAGE, ROOT, python_files

LEVELS = ("critical", "error", "warn", "info")
#: A failure has level critical.
_NAMES = {**{level: level for level in (*LEVELS, "debug")}, "failure": "critical"}
_FIELD = re.compile(r"\{\w+(?:![rs])?(?::[^}]*)?\}")


def logged() -> Iterator[tuple[str, str]]:
    """Level and text of every log call, `…` for its fields."""
    for path in python_files(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            if not isinstance(function, ast.Attribute) or function.attr not in _NAMES:
                continue
            if ast.unparse(function.value).rpartition(".")[2] != "_log":
                continue
            (text, *_) = node.args
            assert isinstance(text, ast.Constant), f"{path}:{node.lineno}"
            assert isinstance(text.value, str)
            yield _NAMES[function.attr], _FIELD.sub("…", text.value)


LINES = sorted(set(logged()))


def told() -> Iterator[tuple[str, str]]:
    """What stands in the first cells of each section's table."""
    page = (ROOT / "docs/log.md").read_text()
    for section in page.split("\n## ")[1:]:
        head, _, body = section.partition("\n")
        levels = re.findall(r"\w+", head.partition(":")[0])
        for row in re.findall(r"^\| (`.*?) \|", body, re.MULTILINE):
            for text in re.findall(r"`([^`]+)`", row):
                yield from ((level, text) for level in levels)


TOLD = set(told())


def test_lines_are_found() -> None:
    assert len(LINES) > 60
    assert {level for level, _ in LINES} == {*LEVELS, "debug"}


@pytest.mark.parametrize(("level", "text"), LINES)
def test_every_line_is_on_the_page(level: str, text: str) -> None:
    if level == "debug":
        assert f"`{text}`" in (ROOT / "docs/log.md").read_text()
    else:
        assert (level, text) in TOLD


def test_the_page_tells_of_no_other_line() -> None:
    known = {text for _, text in LINES}

    assert {text for _, text in TOLD} - known == set()
