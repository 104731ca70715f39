"""
Every promise of docs/guarantees.md names the tests that hold it, and they are there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import ROOT, TESTS, tree_of

PAGE = ROOT / "docs" / "guarantees.md"
_TEST = re.compile(r"`([\w/.]+\.py)((?:::\w+)+)`")


def sections() -> dict[str, str]:
    """By heading."""
    _, *parts = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def promises() -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """Each promise with its tests: a file, and the names down to the function."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells != ["promise", "test"]:
            sentence, tests = cells
            found = [
                (path, names.split("::")[1:]) for path, names in _TEST.findall(tests)
            ]
            yield sentence, found


PROMISES = list(promises())


def exists(path: Path, names: list[str]) -> bool:
    """Whether *path* has the function, in the classes named before it."""
    inside: list[ast.stmt] = tree_of(path).body
    for name in names:
        here = [each for each in inside if name in names_of(each)]
        if not here:
            return False
        inside = getattr(here[0], "body", [])
    return True


def names_of(statement: ast.stmt) -> list[str]:
    """What a statement defines; a state machine's test case is assigned."""
    if isinstance(statement, ast.Assign):
        return [each.id for each in statement.targets if isinstance(each, ast.Name)]
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [statement.name] if isinstance(statement, kinds) else []


def test_there_are_promises() -> None:
    """They are read as they stand."""
    assert len(PROMISES) > 50


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[0][:60])
def test_a_promise_is_a_sentence_with_tests(
    promise: tuple[str, list[tuple[str, list[str]]]],
) -> None:
    """One sentence, at least one test, and every one of them exists."""
    sentence, tests = promise

    assert sentence[0].isupper()
    assert re.fullmatch(r"[^.]*(\.\w[^.]*)*\.", sentence), "one sentence"
    assert tests, "no test is named"
    for path, names in tests:
        assert (TESTS / path).is_file(), path
        assert names[-1].startswith("test_") or names[-1].startswith("Test")
        assert exists(TESTS / path, names), f"{path}: {names}"


@pytest.mark.parametrize("heading", sections())
def test_every_section_says_what_is_not_promised(heading: str) -> None:
    """Behind its table."""
    assert re.search(r"^Not promised: ", sections()[heading], re.MULTILINE)


def test_a_test_that_is_not_there_is_noticed() -> None:
    """In a file, in a class, and a class that is none."""
    here = Path(__file__)

    assert exists(here, ["test_there_are_promises"])
    assert not exists(here, ["test_there_are_none"])
    assert not exists(here, ["TestNone", "test_there_are_promises"])
