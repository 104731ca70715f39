"""
The CUDA bodies of what `backend` leaves to each target: ordered words, copies, barrier.
"""

from __future__ import annotations

from functools import cache

from numba import cuda, types
from numba.cuda.dispatcher import CUDADispatcher

from twisted_aotx.device.backend import (
    barrier,
    copy_bytes,
    is_words,
    item_pointer,
    llvm_ir,
    load_acquire,
    store_release,
)
from twisted_aotx.device.parts import for_any_constant

#: Bits of a word → inline PTX constraint, type suffix.
_WORDS = {32: ("r", "u32"), 64: ("l", "u64")}


def _register_words() -> None:
    """`load_acquire` and `store_release`: one instruction each, system-wide."""
    from numba.cuda.extending import intrinsic, overload

    @intrinsic
    def load_cuda(typingctx, words, index):
        if not is_words(words):
            return None
        letter, suffix = _WORDS[words.dtype.bitwidth]
        word = llvm_ir.IntType(words.dtype.bitwidth)

        def build(context, builder, signature, args):
            at = context.cast(builder, args[1], signature.args[1], types.intp)
            pointer = item_pointer(context, builder, signature.args[0], args[0], at)
            assembly = llvm_ir.InlineAsm(
                llvm_ir.FunctionType(word, [pointer.type]),
                f"ld.acquire.sys.{suffix} $0, [$1];",
                f"={letter},l,~{{memory}}",
                side_effect=True,
            )
            return builder.call(assembly, [pointer])

        return words.dtype(words, index), build

    @intrinsic
    def store_cuda(typingctx, words, index, value):
        if not is_words(words):
            return None
        letter, suffix = _WORDS[words.dtype.bitwidth]
        word = llvm_ir.IntType(words.dtype.bitwidth)

        def build(context, builder, signature, args):
            at = context.cast(builder, args[1], signature.args[1], types.intp)
            new = context.cast(builder, args[2], signature.args[2], words.dtype)
            pointer = item_pointer(context, builder, signature.args[0], args[0], at)
            assembly = llvm_ir.InlineAsm(
                llvm_ir.FunctionType(llvm_ir.VoidType(), [pointer.type, word]),
                f"st.release.sys.{suffix} [$0], $1;",
                f"l,{letter},~{{memory}}",
                side_effect=True,
            )
            builder.call(assembly, [pointer, new])
            return context.get_dummy_value()

        return types.none(words, index, value), build

    @overload(load_acquire)
    def load_acquire_cuda(words, index):
        return lambda words, index: load_cuda(words, index)

    @overload(store_release)
    def store_release_cuda(words, index, value):
        return lambda words, index, value: store_cuda(words, index, value)


@cache
def register() -> None:
    """
    Give what `backend` leaves to each target its CUDA body; once for a process.
    """
    from numba.cuda.extending import overload

    look_up = for_any_constant(CUDADispatcher.get_call_template)
    CUDADispatcher.get_call_template = look_up  # type: ignore[method-assign]
    _register_words()

    @overload(copy_bytes)
    def copy_bytes_cuda(target, at, source, start, size, lane, lanes):
        # Lanes side by side take bytes side by side, which the card joins.
        def share(target, at, source, start, size, lane, lanes):
            for k in range(lane, size, lanes):
                target[at + k] = source[start + k]

        return share

    @overload(barrier)
    def barrier_cuda():
        return lambda: cuda.syncthreads()
