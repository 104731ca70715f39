"""
Who may import whom, and who may touch device memory (docs/architecture.md).

Rules:
1. A part imports only the parts of its row in `PARTS`, and of other people's modules
   only what the row names; what its row forbids of the standard library, never.
2. Imports stand at the top of a file, except those in `LATE`.
3. No module imports itself through others.
4. Device memory is handed to compiled functions and to nobody else: outside `device/`
   there are no arrays; inside it only compiled functions write to them, but for those
   in `WRITERS`; regions are allocated in `ALLOCATORS`.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import attrs
import pytest

from tests.sources import PACKAGE, inside, module_of, name_of, python_files, tree_of

BASE = ("errors", "limits", "interfaces", "devices", "orders", "strictjson")

#: Modules that a sans-IO part never needs.
_IO = frozenset(
    {
        "asyncio",
        "concurrent",
        "datetime",
        "multiprocessing",
        "random",
        "secrets",
        "select",
        "selectors",
        "signal",
        "socket",
        "subprocess",
        "threading",
        "time",
    }
)


@attrs.frozen
class Part:
    """
    A row of the table.
    """

    #: Parts or modules of ours.
    ours: tuple[str, ...] = ()
    #: Modules of others, or packages of them.
    others: tuple[str, ...] = ()
    #: Modules of the standard library.
    never: frozenset[str] = frozenset()
    #: What stands under `if TYPE_CHECKING` only.
    typing: tuple[str, ...] = ()


_TWISTED = ("twisted.internet", "twisted.logger", "twisted.python")
_RECORDS = ("attrs", "zope.interface")
_WIRING = Part(
    ours=("*",),
    others=(
        *("twisted", "click", "OpenSSL", "attrs", "zope.interface"),
        "prometheus_client",
    ),
)

PARTS: dict[str, Part] = {
    # 0
    "errors": Part((), ("attrs",), _IO, typing=("wire.packet",)),
    "limits": Part((), ("attrs",), _IO),
    "interfaces": Part(
        ("errors", "limits"), _RECORDS, _IO, typing=("orders", "wire.info")
    ),
    "devices": Part(("errors", "limits"), _RECORDS, _IO, typing=("orders",)),
    "orders": Part((), ("attrs",), _IO),
    "strictjson": Part(("errors",), ("attrs",), _IO),
    # 1
    "wire": Part((*BASE, "wire"), ("attrs",), _IO | {"json", "os"}),
    # 2
    "device": Part(
        (*BASE, "wire", "device"),
        (*_RECORDS, "numpy", "numba", "llvmlite"),
        (_IO | {"json"}) - {"threading", "select"},
    ),
    "seqpacket": Part(("seqpacket",), (*_TWISTED, *_RECORDS, "twisted.plugin")),
    "engines": Part(
        (*BASE, "wire", "engines"),
        (*_TWISTED, *_RECORDS, "twisted.plugin", "jinja2"),
    ),
    "statedir": Part(BASE, ("attrs",)),
    # No clock, no thread: both are its owner's.
    "journal": Part(("errors", "limits", "orders", "journal"), ("attrs",), _IO),
    # 3
    "runtime": Part(
        (
            *(*BASE, "wire", "engines.registry", "device.host", "device.numbers"),
            *("journal.errors", "journal.store", "runtime"),
        ),
        (
            *(*_TWISTED, *_RECORDS, "twisted.application.service", "twisted.web"),
            *("prometheus_client", "PIL"),
        ),
    ),
    "broker": Part(
        (*BASE, "wire.packet", "wire.numbers", "wire.mailbox", "seqpacket", "broker"),
        (*_TWISTED, *_RECORDS, "twisted.application.service"),
    ),
    "watch": Part((*BASE, "wire.watch", "seqpacket", "watch"), (*_TWISTED, *_RECORDS)),
    "client": Part((*BASE, "wire", "seqpacket", "client"), (*_TWISTED, *_RECORDS)),
    # 4
    "gateway": Part(
        (*BASE, "wire", "client", "seqpacket.deadlines", "gateway"),
        (
            *(*_TWISTED, *_RECORDS, "twisted.web", "twisted.application.service"),
            "prometheus_client",
        ),
        frozenset({"struct"}),
    ),
    # 5
    "places": Part((), ("attrs",)),
    "config": Part((*BASE, "wire", "gateway.settings", "places", "config"), ("attrs",)),
    "grants_state": Part((*BASE, "config"), ("attrs",)),
    "parts": Part(("errors",), ("twisted.internet",)),
    "reloads": Part(("parts",), _TWISTED),
    "tap": _WIRING,
    "tap_aotx": _WIRING,
    "tap_gateway": _WIRING,
    "tap_runtime": _WIRING,
    "wiring_gateway": _WIRING,
    "wiring_runtime": _WIRING,
    "tls": _WIRING,
    "listening": _WIRING,
    "logs": _WIRING,
    "cli": _WIRING,
    "cli_failures": _WIRING,
    "cli_grants": _WIRING,
    "cli_model": _WIRING,
    "cli_usage": _WIRING,
    "models": Part(
        (
            *(*BASE, "config.initial", "engines.digest", "engines.model_file"),
            *("engines.llama.chat_template", "engines.llama.template_run", "models"),
        ),
        ("attrs",),
    ),
    # Doubles for tests; shipped, but imported by nothing that is not a test.
    "testing": Part(
        (
            *BASE,
            "wire",
            "device.host",
            "device.numbers",
            "seqpacket",
            "client",
            "broker",
            "runtime",
            "testing",
        ),
        (*_TWISTED, *_RECORDS, "pytest"),
    ),
}

#: (file, module): imported inside a function. Each costs seconds or needs an extra.
LATE = {
    ("device/gpu.py", "twisted_aotx.device.gpu_words"),
    ("device/gpu_words.py", "numba.cuda.extending"),
    ("device/launch.py", "twisted_aotx.device"),
    # Needs pyOpenSSL, which only imports and TLS of one's own do.
    ("gateway/imports_fetch.py", "twisted_aotx.gateway.imports_tls"),
    # Comes with the extra llama.
    ("engines/llama/chat_template.py", "jinja2"),
    ("engines/llama/chat_template.py", "jinja2.ext"),
    ("engines/llama/chat_template.py", "jinja2.sandbox"),
    # Whoever imports a maker need not have a reactor yet.
    ("engines/llama/maker.py", "twisted.internet"),
    # A reactor is installed by importing it: only once a service is made.
    ("tap_aotx.py", "twisted.internet"),
    ("tap_gateway.py", "twisted.internet"),
    ("tap_runtime.py", "twisted.internet"),
    ("listening.py", "twisted_aotx.tls"),
    ("wiring_gateway.py", "twisted_aotx.gateway.imports_tls"),
    ("wiring_gateway.py", "twisted_aotx.tls"),
    ("wiring_runtime.py", "twisted_aotx.device.cache"),
    ("wiring_runtime.py", "twisted_aotx.device.host"),
}

#: Files without a reactor, a socket, a thread or a clock, beside the parts above.
SANS_IO = (
    "broker/channel.py",
    "gateway/forms.py",
    "gateway/imports_addresses.py",
    "gateway/imports_urls.py",
    "gateway/messages.py",
    "gateway/text.py",
)

#: Files that only the process which decodes images imports.
DECODER_CHILD = {PACKAGE / "runtime/decoder_child.py", PACKAGE / "runtime/jpeg.py"}

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

FILES = python_files(PACKAGE)


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def short(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


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

    assert not roots & (_IO | {"twisted", "os"})


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
        for path in FILES
        for node, _ in inside(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _ALLOCATIONS
    }

    assert allocators <= ALLOCATORS
