"""
Compiling kernels to PTX without a card and without its driver.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ASK = "get_current_device"


class _Card:
    """What numba asks a device for while it compiles."""

    def __init__(self, compute_capability: tuple[int, int]) -> None:
        self.compute_capability = compute_capability


@contextmanager
def offline(compute_capability: tuple[int, int]) -> Iterator[None]:
    """
    Let kernels that call device functions compile without a driver.

    numba-cuda asks the *current device* for its capability even when one is given
    (docs/dependencies.md). One process serves one capability: overloads are cached per
    signature alone.
    """
    names = ("numba.cuda.compiler", "numba.cuda.dispatcher")
    asked = [
        module
        for module in map(importlib.import_module, names)
        if hasattr(module, _ASK)
    ]
    before = [getattr(module, _ASK) for module in asked]
    for module in asked:
        setattr(module, _ASK, lambda: _Card(compute_capability))
    try:
        yield
    finally:
        for module, function in zip(asked, before, strict=True):
            setattr(module, _ASK, function)


def compile_ptx(
    function: Any, signature: Any, threads: int, compute_capability: Any
) -> str:
    """
    PTX of a kernel for *compute_capability*, say (9, 0); no driver needed.

    As when it is launched: with blocks of *threads*, one of them on a multiprocessor,
    so that a thread may use as many registers as there are.
    """
    cuda: Any = importlib.import_module("numba.cuda")
    with offline(compute_capability):
        ptx, _ = cuda.compile(
            function,
            signature,
            cc=compute_capability,
            device=False,
            abi="numba",
            output="ptx",
            launch_bounds=(threads, 1),
        )
    return str(ptx)
