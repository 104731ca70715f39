"""
The project's own files, for the tests that look at them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "twisted_aotx"
PLUGINS = ROOT / "plugins"
TESTS = ROOT / "tests"

#: What tools make; never part of the project.
_MADE = {"__pycache__", "dropin.cache"}


def files(*folders: str | Path, suffix: str = "") -> list[Path]:
    """
    Every file of the project under *folders*, in order.
    """
    found = []
    for folder in folders:
        path = ROOT / folder
        inside = [path] if path.is_file() else path.rglob("*")
        found += [
            each
            for each in inside
            if each.is_file()
            and each.name.endswith(suffix)
            and not _MADE.intersection(each.parts)
        ]
    return sorted(found)


def python_files(*folders: str | Path) -> list[Path]:
    """
    Every Python file under *folders*.
    """
    return files(*folders, suffix=".py")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """
    The syntax tree of a file.
    """
    return ast.parse(path.read_text(), str(path))


def module_of(path: Path) -> str:
    """
    The dotted name of a module of the package.
    """
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def name_of(path: Path) -> str:
    """
    The path within the project.
    """
    return str(path.relative_to(ROOT))


def short(path: Path) -> str:
    """
    The path within the package.
    """
    return str(path.relative_to(PACKAGE))


def inside(
    node: ast.AST, above: tuple[ast.AST, ...] = ()
) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """
    Every node below *node* with those that it stands in, outermost first.
    """
    for child in ast.iter_child_nodes(node):
        yield child, above
        yield from inside(child, (*above, child))
