"""
Device memory is handed to compiled functions and to nobody else
(docs/architecture.md): inside `device/` only compiled functions write to arrays, but
for those in `WRITERS`; regions are allocated in `ALLOCATORS`.
"""

from __future__ import annotations

import ast

from tests.sources import PACKAGE, inside, python_files, short, tree_of

#: Functions of device/ that are not compiled and yet store into something subscripted.
WRITERS = {
    # The plain bodies of what each target compiles in its own way, and those ways.
    ("device/backend.py", "store_release"),
    ("device/backend.py", "copy_bytes"),
    ("device/backend.py", "_copy_bytes_cpu"),
    ("device/gpu_words.py", "register"),
    # Fresh memory is zeroed where it is allocated.
    ("device/gpu.py", "_mapped"),
    # An argument of a compiled function, not a table.
    ("device/attach.py", "_spans"),
    # Counts over a copy of the tables.
    ("device/invariants.py", "_leases"),
    ("device/media_invariants.py", "_counts"),
    ("device/media_invariants.py", "_owners"),
}

#: Files that make the two regions.
ALLOCATORS = {"device/gpu.py", "device/launch.py", "device/tables.py"}

_ALLOCATIONS = {"tables.allocate", "allocate", "cuda.to_device", "cuda.mapped_array"}

#: Calls that write into an array without a subscript.
_WRITING = {"fill", "copyto", "put", "putmask", "place", "itemset", "partition"}


def compiled(above: tuple[ast.AST, ...]) -> bool:
    """
    Whether a node stands in a function that numba compiles.
    """
    return any(
        isinstance(each, ast.FunctionDef)
        and any(
            ast.unparse(decorator).split("(")[0]
            in {"dev", "backend.dev", "njit", "cuda.jit"}
            for decorator in each.decorator_list
        )
        for each in above
    )


def function_of(above: tuple[ast.AST, ...]) -> str:
    names = [each.name for each in above if isinstance(each, ast.FunctionDef)]
    return names[0] if names else ""


def writes(node: ast.stmt | ast.Call) -> bool:
    """
    Whether a statement stores into something subscripted, or a call into an array.
    """
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Attribute) and node.func.attr in _WRITING
        return named or any(keyword.arg == "out" for keyword in node.keywords)
    return any(
        isinstance(each, ast.Subscript)
        for target in targets
        for each in ast.walk(target)
    )


def test_writes_are_told_from_reads() -> None:
    source = """
@dev
def compiled(D):
    D.x[0] = 1
def plain(D, y):
    y = D.x[0]
    D.x[0] = y
    D.x[1] += y
    D.x.fill(y)
    np.add(D.x, y, out=D.x)
"""
    lines = [
        node.lineno
        for node, above in inside(ast.parse(source))
        if isinstance(node, ast.stmt | ast.Call)
        and writes(node)
        and not compiled(above)
    ]

    assert lines == [7, 8, 9, 10]


def test_only_compiled_functions_write_to_arrays() -> None:
    writers = {
        (short(path), function_of(above)): node.lineno
        for path in python_files(PACKAGE / "device")
        for node, above in inside(tree_of(path))
        if isinstance(node, ast.stmt | ast.Call)
        and writes(node)
        and not compiled(above)
    }
    extra = {key: line for key, line in writers.items() if key not in WRITERS}

    assert not extra, "writes to an array outside a compiled function"
    assert set(writers) >= WRITERS, "named in WRITERS, but writes no longer"


def test_regions_are_allocated_in_one_place() -> None:
    allocators = {
        short(path)
        for path in python_files(PACKAGE)
        for node, _ in inside(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _ALLOCATIONS
    }

    assert allocators <= ALLOCATORS
