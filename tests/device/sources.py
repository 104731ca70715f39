"""
The kernels' sources, read as Python: which functions there are, who calls whom, which
lines they have. Works alike compiled and as plain Python.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import attrs

from twisted_aotx import device

PACKAGE = Path(device.__file__).parent


@attrs.frozen
class Kernel:
    """
    One function of a kernel file, decorated with `dev` or a thin kernel of `gpu`.
    """

    module: str
    name: str
    node: ast.FunctionDef = attrs.field(eq=False, repr=False)

    @property
    def parameters(self) -> list[str]:
        return [argument.arg for argument in self.node.args.args]


def module_names() -> list[str]:
    return sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")


def load(module: str) -> ModuleType:
    return importlib.import_module(f"{device.__name__}.{module}")


def _is_dev(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "dev" for d in node.decorator_list)


def functions(module: str, *, decorated: bool = True) -> Iterator[Kernel]:
    """The functions of *module*, those with `dev` or all others."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_dev(node) == decorated:
            yield Kernel(module, node.name, node)


def device_functions() -> set[Kernel]:
    """Every function that `dev` compiles."""
    return {kernel for module in module_names() for kernel in functions(module)}


def call_sites(kernels: Iterable[Kernel], name: str) -> int:
    """How often *kernels* call `name(...)`, as written."""
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == name
        for kernel in kernels
        for node in ast.walk(kernel.node)
    )


def _called(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """(module, name) of everything that *kernel* mentions from this package."""
    names = vars(load(kernel.module))
    for node in ast.walk(kernel.node):
        target: Any = None
        if isinstance(node, ast.Name):
            target = names.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = names.get(node.value.id)
            if isinstance(owner, ModuleType):
                target = getattr(owner, node.attr, None)
        target = getattr(target, "py_func", target)
        if inspect.isfunction(target):
            package, _, module = target.__module__.rpartition(".")
            if package == device.__name__:
                yield module, target.__name__


def reachable(roots: Iterable[Kernel]) -> set[Kernel]:
    """*roots* and every function of `dev` that they call, directly or not."""
    known = {(k.module, k.name): k for k in device_functions()}
    reached: set[Kernel] = set()
    waiting = list(roots)
    while waiting:
        kernel = waiting.pop()
        if kernel not in reached:
            reached.add(kernel)
            waiting.extend(known[key] for key in _called(kernel) if key in known)
    return reached


def kernel_roots() -> list[Kernel]:
    """The thin kernels of `gpu`, which are launched."""
    plain = functions("gpu", decorated=False)
    return [kernel for kernel in plain if kernel.name.endswith("_kernel")]


def host_roots() -> list[Kernel]:
    """What Python calls on the CPU: entries, a tick, the loop."""
    ticks = [kernel for kernel in functions("tick") if kernel.name == "tick"]
    return [*functions("entries"), *functions("loop"), *ticks]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def kernel_lines(kernel: Kernel) -> set[int]:
    """The lines that *kernel* executes, without its head and docstring."""
    function = getattr(load(kernel.module), kernel.name)
    code = getattr(function, "py_func", function).__code__
    lines = {n for each in _codes(code) for _, _, n in each.co_lines() if n}
    return lines - set(range(code.co_firstlineno, kernel.node.body[0].lineno))
