"""
The project's style, where a machine can hold it (docs/contributing.md).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.sources import (
    PACKAGE,
    PLUGINS,
    ROOT,
    TESTS,
    files,
    inside,
    module_of,
    name_of,
    python_files,
    tree_of,
)

CODE = python_files(PACKAGE, PLUGINS)
ALL = python_files(PACKAGE, PLUGINS, TESTS)

COLUMNS_MAX = 88
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 300
#: Tables of cases make some tests long.
TEST_LINES_MAX = 500

#: Names that tell nothing of what lives in a file.
NAMELESS = {"utils", "util", "common", "base", "helpers", "misc", "tools"}


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_lines_are_at_most_88_columns() -> None:
    scripts = [path for path in files("bin", ".ci") if path.suffix != ".md"]
    long = [
        f"{name_of(path)}:{number}"
        for path in [*ALL, *scripts]
        for number, line in enumerate(lines_of(path), 1)
        if len(line) > COLUMNS_MAX
    ]

    assert not long, "\n".join(long)


def test_functions_are_at_most_70_lines() -> None:
    long = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in ALL
        for node, _ in inside(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert not long, "\n".join(long)


def test_files_are_at_most_300_lines() -> None:
    long = [
        f"{name_of(path)}: {len(lines_of(path))}"
        for path in ALL
        if len(lines_of(path))
        > (TEST_LINES_MAX if path.is_relative_to(TESTS) else FILE_LINES_MAX)
    ]

    assert not long, "\n".join(long)


def test_file_names_say_what_is_inside() -> None:
    assert not [name_of(path) for path in ALL if path.stem in NAMELESS]


def calls(path: Path) -> set[str]:
    return {
        ast.unparse(node.func)
        for node, _ in inside(tree_of(path))
        if isinstance(node, ast.Call)
    }


def imports(path: Path, *, top_only: bool = False) -> set[str]:
    found = set()
    for node, above in inside(tree_of(path)):
        if top_only and any(
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in above
        ):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_nothing_of_the_package_prints() -> None:
    assert not [name_of(path) for path in CODE if "print" in calls(path)]


def test_no_test_double_is_made_up_on_the_spot() -> None:
    """Doubles are classes of ours that pass the tests of the real thing."""
    banned = re.compile(r"^(unittest\.)?mock\b|\bMagicMock\b|pytest_mock")
    assert not [name_of(path) for path in ALL if any(map(banned.search, imports(path)))]


def test_no_module_takes_the_reactor_when_it_is_imported() -> None:
    assert not [
        name_of(path)
        for path in CODE
        if "twisted.internet.reactor" in imports(path, top_only=True)
    ]


def test_numbers_of_the_wire_are_written_out() -> None:
    banned = {"auto", "enum.auto"}
    assert not [
        name_of(path) for path in python_files(PACKAGE / "wire") if calls(path) & banned
    ]


def test_later_work_names_its_issue() -> None:
    loose = re.compile(r"\b(TODO|FIXME|XXX)\b(?! ?\(?#\d+)")
    assert not [
        f"{name_of(path)}:{number}"
        for path in ALL
        if path != Path(__file__)
        for number, line in enumerate(lines_of(path), 1)
        if loose.search(line)
    ]


def test_every_module_is_used() -> None:
    """A module that nobody names, in an import or as a string, is a dead one."""
    modules = {module_of(path) for path in python_files(PACKAGE)}
    used = {"twisted_aotx.cli"}
    for path in ALL:
        shipped = not path.is_relative_to(TESTS)
        found = {
            module
            for name in imports(path)
            for module in (name, name.rpartition(".")[0])
            # A test alone keeps no module alive, but for the doubles.
            if shipped or module.startswith("twisted_aotx.testing")
        }
        if shipped:
            found |= {
                node.value
                for node, _ in inside(tree_of(path))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
        if path.is_relative_to(PACKAGE):
            found.discard(module_of(path))
        used |= found
    packages = {module.rpartition(".")[0] for module in modules & used}

    dead = sorted(modules - used - packages)
    assert not dead, "\n".join(dead)


#: Words and paths that belong to some machine or to how the project is made, not to it.
FOREIGN = re.compile(
    r"(?<![\w.])/(?:work|farm|root|home)/|/tmp/\w"
    r"|\bsub-?[a]gents?\b|\b[h]elper session|\b[i]ndex-url\b|\b[p]ypi\.org\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in files(
            "twisted_aotx",
            "plugins",
            "tests",
            "bin",
            ".ci",
            "docs",
            "etc",
            "newsfragments",
            "README.md",
            "setup.cfg",
            "pyproject.toml",
        )
        if path != Path(__file__) and path.suffix not in {".pyc", ".npy"}
    ],
    ids=name_of,
)
def test_the_project_speaks_of_itself_alone(path: Path) -> None:
    lines = path.read_text(errors="replace").splitlines()

    assert not [
        f"{number}: {line.strip()[:60]}"
        for number, line in enumerate(lines, 1)
        if FOREIGN.search(line)
    ]


def test_every_test_file_is_collected() -> None:
    """pytest takes `test_*.py`; what is named almost so is never run."""
    almost = re.compile(r"^tests?[-_].*|.*_tests?$")
    assert not [
        name_of(path)
        for path in python_files(TESTS)
        if almost.match(path.stem) and not path.stem.startswith("test_")
    ]


def test_the_project_is_where_these_tests_look() -> None:
    assert len(CODE) > 30
    assert (ROOT / "setup.cfg").is_file()
