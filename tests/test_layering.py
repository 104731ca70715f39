"""
Who may import whom (docs/architecture.md).

Rules:
1. A part imports only the parts of its row in `PARTS`, and of other people's modules
   only what the row names; what its row forbids of the standard library, never.
2. Imports stand at the top of a file, except those in `LATE`.
3. No module imports itself through others.
4. Outside `device/` there are no arrays; `test_device_memory` looks inside.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import attrs
import pytest

from tests.layers import DECODER_CHILD, IO, LATE, PARTS, SANS_IO
from tests.sources import (
    PACKAGE,
    inside,
    module_of,
    name_of,
    python_files,
    short,
    tree_of,
)

FILES = python_files(PACKAGE)


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


@attrs.frozen
class Import:
    """
    One module that a file imports.
    """

    module: str
    #: As the statement names it: `a` of `from a import b`.
    written: str
    line: int
    #: Inside a function.
    late: bool
    typing: bool


def imports_of(path: Path) -> list[Import]:
    found = []
    for node, above in inside(tree_of(path)):
        if isinstance(node, ast.Import):
            modules = [(alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            assert node.module is not None
            # `from package import module` imports the module.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [
                (name if is_module(name) else node.module, node.module)
                for name in names
            ]
        else:
            continue
        late = any(
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in above
        )
        typing = any(
            isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test)
            for each in above
        )
        found += [
            Import(module, written, node.lineno, late, typing)
            for module, written in modules
        ]
    return found


def is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def covered(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in allowed)


@pytest.mark.parametrize("path", FILES, ids=short)
def test_imports_follow_the_table(path: Path) -> None:
    part = part_of(module_of(path))
    if part == "__init__":
        assert imports_of(path) == []
        return
    row = PARTS[part]
    wrong = []
    for each in imports_of(path):
        root = each.module.split(".")[0]
        if root == "twisted_aotx":
            ours = each.module.removeprefix("twisted_aotx.")
            allowed = row.ours + (row.typing if each.typing else ())
            if row.ours == ("*",):
                fine = not covered(ours, ("testing",))
            else:
                fine = covered(ours, allowed) or ours == "twisted_aotx"
        elif root in sys.stdlib_module_names:
            fine = root not in row.never
        else:
            fine = covered(each.module, row.others) or each.module == "twisted"
        if not fine:
            wrong.append(f"line {each.line}: {each.module}")
    assert not wrong, f"{name_of(path)} may not import: {'; '.join(wrong)}"


def test_every_row_is_of_a_part_that_exists_or_will() -> None:
    parts = {part_of(module_of(path)) for path in FILES} - {"__init__"}

    assert parts <= set(PARTS), "a part without a row in the table"


def test_imports_stand_at_the_top() -> None:
    late = {
        (short(path), each.written)
        for path in FILES
        for each in imports_of(path)
        if each.late
    }

    assert late - LATE == set(), "imported inside a function"
    assert LATE - late == set(), "named in LATE, but no longer there"


def test_no_module_imports_itself_through_others() -> None:
    edges = {
        module_of(path): {
            each.module
            for each in imports_of(path)
            if each.module.startswith("twisted_aotx.")
            and not (each.late or each.typing)
        }
        for path in FILES
    }
    done: set[str] = set()

    def follow(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " → ".join((*way[way.index(module) :], module))
        if module not in done:
            for each in sorted(edges.get(module, ())):
                follow(each, (*way, module))
            done.add(module)

    for module in edges:
        follow(module, ())


@pytest.mark.parametrize("name", SANS_IO)
def test_sans_io_files_have_no_reactor_socket_thread_or_clock(name: str) -> None:
    path = PACKAGE / name
    roots = {each.module.split(".")[0] for each in imports_of(path)}

    assert not roots & (IO | {"twisted", "os"})


def test_only_the_device_knows_arrays() -> None:
    """Memory that cannot be reached cannot be written."""
    arrays = {"numpy", "numba", "llvmlite", "ctypes", "mmap", "array"}
    # Children are other processes, and none of the device's.
    others = {*(PACKAGE / "engines/llama").iterdir(), *DECODER_CHILD}
    for path in FILES:
        if part_of(module_of(path)) != "device" and path not in others:
            roots = {each.module.split(".")[0] for each in imports_of(path)}
            assert not roots & arrays, name_of(path)


def test_pillow_stays_in_a_process_of_its_own() -> None:
    """Its C code may crash, and its Python keeps others from the interpreter."""
    kept = ("PIL", *map(module_of, DECODER_CHILD))
    for path in set(FILES) - DECODER_CHILD:
        found = [each.module for each in imports_of(path) if covered(each.module, kept)]
        assert not found, name_of(path)


def test_threads_in_the_device_are_the_simulators() -> None:
    for name, allowed in (
        ("threading", {"device/backend.py"}),
        # The loop that CUDA needs in Python, and who waits for another to compile.
        ("select", {"device/gpu.py", "device/cache.py"}),
    ):
        users = {
            short(path)
            for path in python_files(PACKAGE / "device")
            if any(each.module == name for each in imports_of(path))
        }
        assert users <= allowed
