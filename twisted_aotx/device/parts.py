"""
How kernel functions are put together: each is lowered once, and only what Python calls
is optimised and made machine code, as one module with all that it calls.

numba by itself does both for every function, with everything that it calls, again at
each level of calls; over the levels of a tick that is most of the time that compiling
takes (docs/dependencies.md). So each function exists twice: as itself, for Python, and
as a part, which is what other kernel functions call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class _PartLibrary(JITCodeLibrary):
    """The code of one function without what it calls; never made machine code."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def own_module(self) -> Any:
        """The function alone."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """For functions that numba compiles its own way: with all that it calls."""
        module = self.own_module().clone()
        for library in _reached(self._linking_libraries):
            module.link_in(_module(library), preserve=True)
        return module


class _WholeLibrary(JITCodeLibrary):
    """The code of one function with every part that it reaches, each linked once."""

    def finalize(self) -> None:
        self._linking_libraries = _reached(self._linking_libraries)
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(_module(library), preserve=True)
        self._linking_libraries = []
        super().finalize()


def _reached(libraries: list[CodeLibrary]) -> list[CodeLibrary]:
    """*libraries* and what the parts among them call, each once, in a fixed order."""
    reached: list[CodeLibrary] = []
    seen: set[CodeLibrary] = set()
    waiting = list(reversed(libraries))
    while waiting:
        library = waiting.pop()
        if library not in seen:
            seen.add(library)
            reached.append(library)
            if isinstance(library, _PartLibrary):
                waiting.extend(reversed(library._linking_libraries))
    return reached


def _module(library: CodeLibrary) -> Any:
    is_part = isinstance(library, _PartLibrary)
    return library.own_module() if is_part else library._get_module_for_linking()


class _WholeCompiler(Compiler):
    library_class: type[JITCodeLibrary] = _WholeLibrary

    def _compile_core(self) -> Any:
        state = self.state
        codegen = state.targetctx.codegen()
        state.library = self.library_class(codegen, state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super()._compile_core()


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """Lowers and tells numba's other functions how to call it, nothing more."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        # What numba looks an implementation up by; otherwise the address of its code.
        key = object()
        lowered = state.cr
        state.cr = lowered._replace(cfunc=key)
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        return True


class _PartCompiler(_WholeCompiler):
    library_class = _PartLibrary

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_PartLowering if each is NativeLowering else each, what)
            for each, what in passes.passes
        ]
        passes.finalize()
        return [passes]


def for_any_constant(look_up: Callable[..., Any]) -> Callable[..., Any]:
    """
    Wrap a dispatcher's `get_call_template`: a constant argument is any integer.

    numba would compile a function anew for each constant that it is called with, which
    more than doubles what there is to compile (docs/dependencies.md).
    """

    def find(*call: Any) -> Any:
        *owner, arguments, keywords = call
        return look_up(*owner, tuple(map(types.unliteral, arguments)), keywords)

    return find


def with_part(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """
    *function* compiled with njit's *options* for Python, and as a part for kernels.
    """
    whole: Any = njit(pipeline_class=_WholeCompiler, **options)(function)
    inner = {**options, "cache": False, "no_cpython_wrapper": True}
    part: Any = njit(pipeline_class=_PartCompiler, **inner)(function)

    def add_overload(result: Any) -> None:
        """As numba's own, without an entry for calls from Python."""
        part.overloads.update({tuple(result.signature.args): result})

    part.add_overload = add_overload
    whole.get_call_template = for_any_constant(part.get_call_template)
    whole.get_overload = part.get_overload
    return whole
