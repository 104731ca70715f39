"""
What every kernel file builds on: the decorator, integer names, release/acquire,
barrier.

One kernel source runs on four targets: compiled on the CPU, compiled for CUDA, as plain
Python (NUMBA_DISABLE_JIT=1) and in the CUDA simulator. The Python bodies below serve
the last two; `gpu` registers the CUDA ones. numba's decorators and intrinsics carry no
types, so this file and those of CUDA alone have relaxed type checks (setup.cfg).

Rules for kernels (docs/kernels.md):
1. All arithmetic is int64; a value loaded from a table becomes `i64(...)` first.
2. uint64 only where every operand is uint64: ids, revisions, hashes, words of a bitmap.
3. No floats, exceptions, allocation, recursion, slice assignment or `cuda.*`.
4. A phase is called by every lane; decisions are lane 0's, bulk copies go by lane.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic, overload

from twisted_aotx.device.cache import prepare_cache
from twisted_aotx.device.locator import use_locator
from twisted_aotx.device.parts import with_part

# Not by NUMBA_CACHE_DIR: numba may have been imported by others before us.
_CACHE = prepare_cache()
config.CACHE_DIR = str(_CACHE or "")
use_locator()

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    # Without our directory numba would cache beside the source, and miss changes.
    "cache": _CACHE is not None,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}

i64 = np.int64
u64 = np.uint64
u32 = np.uint32
u8 = np.uint8


def dev(function: Callable[..., Any]) -> Any:
    """
    Compile a kernel function for the CPU; CUDA kernels call the same functions.
    """
    return function if config.DISABLE_JIT else with_part(function, _OPTIONS)


def load_acquire(words: Any, index: Any) -> Any:
    """Read `words[index]`; later reads see what its writer wrote before it."""
    return words[index]


def store_release(words: Any, index: Any, value: Any) -> None:
    """Write `words[index]`; whoever acquires it sees all our earlier writes."""
    words[index] = value


def copy_bytes(
    target: Any, at: Any, source: Any, start: Any, size: Any, lane: Any, lanes: Any
) -> None:
    """
    This lane's share of `target[at : at + size] = source[start : start + size]`.

    Both are u8 arrays that do not overlap; a *size* of 0 or less copies nothing.
    """
    if size > 0:
        end = start + size
        target[at + lane : at + size : lanes] = source[start + lane : end : lanes]


def barrier() -> None:
    """All lanes of the block wait for each other. A single lane goes on."""
    wait = getattr(threading.current_thread(), "syncthreads", None)
    if wait is not None:
        wait()


def item_pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any):
    """The address of `array[index]` in LLVM IR, for both compilers."""
    made = context.make_array(array_type)(context, builder, value=array)
    return cgutils.get_item_pointer(
        context, builder, array_type, made, [index], wraparound=False
    )


def is_words(array: Any) -> bool:
    """Whether numba type *array* is an integer array."""
    return isinstance(array, types.Array) and isinstance(array.dtype, types.Integer)


@intrinsic
def _load_cpu(typingctx, words, index):
    if not is_words(words):
        return None

    def build(context, builder, signature, args):
        array_type = signature.args[0]
        at = context.cast(builder, args[1], signature.args[1], types.intp)
        pointer = item_pointer(context, builder, array_type, args[0], at)
        return builder.load_atomic(pointer, "acquire", array_type.dtype.bitwidth // 8)

    return words.dtype(words, index), build


@intrinsic
def _store_cpu(typingctx, words, index, value):
    if not is_words(words):
        return None

    def build(context, builder, signature, args):
        array_type = signature.args[0]
        at = context.cast(builder, args[1], signature.args[1], types.intp)
        new = context.cast(builder, args[2], signature.args[2], array_type.dtype)
        pointer = item_pointer(context, builder, array_type, args[0], at)
        builder.store_atomic(new, pointer, "release", array_type.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(words, index, value), build


@overload(load_acquire, target="cpu")
def _load_acquire_cpu(words, index):
    return lambda words, index: _load_cpu(words, index)


@overload(store_release, target="cpu")
def _store_release_cpu(words, index, value):
    return lambda words, index, value: _store_cpu(words, index, value)


@overload(barrier, target="cpu")
def _barrier_cpu():
    return lambda: None


@intrinsic
def _copy_cpu(typingctx, target, at, source, start, size):
    for array in (target, source):
        if not is_words(array) or array.dtype.bitwidth != 8:
            return None

    def build(context, builder, signature, args):
        def cast(n):
            return context.cast(builder, args[n], signature.args[n], types.intp)

        cgutils.raw_memcpy(
            builder,
            item_pointer(context, builder, signature.args[0], args[0], cast(1)),
            item_pointer(context, builder, signature.args[2], args[2], cast(3)),
            cast(4),
            1,
        )
        return context.get_dummy_value()

    return types.none(target, at, source, start, size), build


@overload(copy_bytes, target="cpu")
def _copy_bytes_cpu(target, at, source, start, size, lane, lanes):
    """The one lane copies at once; with checked indexes, byte by byte."""

    def one_by_one(target, at, source, start, size, lane, lanes):
        for k in range(lane, size, lanes):
            target[at + k] = source[start + k]

    def at_once(target, at, source, start, size, lane, lanes):
        if size > 0:
            _copy_cpu(target, at, source, start, size)

    return one_by_one if config.BOUNDSCHECK else at_once


#: Re-exported for `gpu`, which builds inline PTX.
llvm_ir = ir
