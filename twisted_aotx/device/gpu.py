"""
Everything that knows `numba.cuda`: ordered words, barrier, thin kernels, launches, PTX.

The kernels are the functions of the other files, called with a lane of one block. The
host region is mapped memory that both sides see, the device region never leaves the
card. The simulator (NUMBA_ENABLE_CUDASIM=1 with NUMBA_DISABLE_JIT=1) runs the same
class.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from numba import cuda, types
from numba.core import config

from twisted_aotx.device import configure as _configure
from twisted_aotx.device import entries, loop, roles
from twisted_aotx.device.backend import (
    barrier,
    copy_bytes,
    i64,
    is_words,
    item_pointer,
    llvm_ir,
    load_acquire,
    store_release,
)
from twisted_aotx.device.numbers import WORD_RESTORING
from twisted_aotx.device.reference import ref_load_corpus
from twisted_aotx.device.tick import tick_stages
from twisted_aotx.errors import ConfigError

#: Lanes of the one block that runs a tick.
LANES = 256

_SIMULATED = bool(config.ENABLE_CUDASIM)
#: Bits of a word → inline PTX constraint, type suffix.
_WORDS = {32: ("r", "u32"), 64: ("l", "u64")}


def register() -> None:
    """
    Give `load_acquire`, `store_release` and `barrier` their CUDA bodies. Once is
    enough.
    """
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


# --- thin kernels ---------------------------------------------------------------------


def tick_kernel(h, d, now):
    """One tick by one block of LANES threads; *now* in ns."""
    tick_stages(h[0], d[0], i64(cuda.threadIdx.x), i64(cuda.blockDim.x), now)


def configure_kernel(h, d, numbers, secrets):
    """One thread; see `configure.configure`."""
    _configure.configure(h[0], d[0], numbers, secrets)


def configure_role_kernel(d, role, numbers, digest, spans, span_bytes):
    """One thread; see `roles.configure_role`."""
    roles.configure_role(d[0], role, numbers, digest, spans, span_bytes)


def load_reference_kernel(d, role, corpus, size, rate, fixed, fixed_size):
    """One thread; see `reference.ref_load_corpus`."""
    ref_load_corpus(d[0], role, corpus, size, rate, fixed, fixed_size)


def kernels(host_dtype: Any, device_dtype: Any) -> dict[str, tuple[Any, Any, int]]:
    """
    Every kernel that is launched: name → (function, signature, threads of its block).
    """
    h = numba.from_dtype(host_dtype)[::1]
    d = numba.from_dtype(device_dtype)[::1]
    word = types.int64
    numbers = types.int64[::1]
    data = types.uint8[::1]
    return {
        "tick": (tick_kernel, types.void(h, d, word), LANES),
        "configure": (
            configure_kernel,
            types.void(h, d, numbers, types.uint64[::1]),
            1,
        ),
        "configure_role": (
            configure_role_kernel,
            types.void(d, word, numbers, data, types.uint8[:, ::1], numbers),
            1,
        ),
        "load_reference": (
            load_reference_kernel,
            types.void(d, word, data, word, word, data, word),
            1,
        ),
    }


# --- launching ------------------------------------------------------------------------


class CUDALaunch:
    """
    Kernels on the card; see `launch.Launch`.
    """

    #: Lanes of a tick; tests in the simulator take fewer.
    lanes = LANES

    def __init__(self, host_dtype: Any, device_dtype: Any) -> None:
        self._handle_h, self.host = _mapped(host_dtype)
        self.device = cuda.to_device(_records(device_dtype))
        self._kernels = {
            entry: _jit(function, 1)
            for entry, function in (
                (entries.configure, configure_kernel),
                (entries.configure_role, configure_role_kernel),
                (entries.load_reference, load_reference_kernel),
            )
        }
        self._tick = _jit(tick_kernel, LANES)

    def on_host(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.on_host`."""
        return entry(self.host, *arguments)

    def on_device(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.on_device`."""
        self._kernels[entry][1, 1](self.device, *_writable(arguments))
        cuda.synchronize()

    def once(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.once`."""
        kernel = self._kernels[entry]
        kernel[1, 1](self._handle_h, self.device, *_writable(arguments))
        cuda.synchronize()

    def tick(self, now_ns: int) -> None:
        """See `Launch.tick`."""
        self._tick[1, self.lanes](self._handle_h, self.device, now_ns)
        cuda.synchronize()

    def run(self, doorbell: int, broker_bell: int, engine_bell: int) -> None:
        """
        The device loop in Python: a launch cannot wait for a doorbell itself.
        """
        scratch = np.zeros(loop.SCRATCH_WORDS, np.int64)
        poll = select.poll()
        poll.register(doorbell, select.POLLIN)
        while self.host["closed"][0][0] == 0:
            self.tick(int(loop.read_clock(scratch)))
            due, broker, engines = self.host["outcome"][0].tolist()
            if broker:
                os.eventfd_write(broker_bell, 1)
            if engines:
                os.eventfd_write(engine_bell, 1)
            wait_ns = max(0, due - int(loop.read_clock(scratch)))
            if poll.poll(-(-wait_ns // 1_000_000)):
                os.eventfd_read(doorbell)

    def compile(self) -> None:
        """
        The tick is compiled by its first launch: one that the restoring gate ends.
        """
        words = self.host["word"][0]
        before = int(words[WORD_RESTORING])
        words[WORD_RESTORING] = 1
        self.tick(0)
        words[WORD_RESTORING] = before
        if not _SIMULATED:
            entries.compile_entries(numba.typeof(self.host))

    def snapshot(self) -> Any:
        """See `Launch.snapshot`."""
        return self.device.copy_to_host()


def _jit(function: Any, threads: int) -> Any:
    """*function* as a kernel for blocks of *threads*; the simulator takes any."""
    if _SIMULATED:
        return cuda.jit(function)
    return cuda.jit(function, launch_bounds=(threads, 1))


def _records(dtype: Any) -> Any:
    """One zeroed record; in the simulator its fields are attributes, as in kernels."""
    records = np.zeros(1, dtype)
    return records.view(np.recarray) if _SIMULATED else records


def _mapped(dtype: Any) -> tuple[Any, Any]:
    """Memory that both sides see: (what kernels take, the host's view), zeroed."""
    if _SIMULATED:
        handle = cuda.to_device(_records(dtype))
        return handle, handle._ary
    handle = cuda.mapped_array(1, dtype=dtype)
    view = np.asarray(handle)
    view.view(np.uint8)[:] = 0
    return handle, view


def _writable(arguments: tuple[Any, ...]) -> list[Any]:
    """Arrays of an argument list as copies that a kernel may take."""
    return [
        np.array(argument) if isinstance(argument, np.ndarray) else argument
        for argument in arguments
    ]


def launcher(host_dtype: Any, device_dtype: Any) -> CUDALaunch:
    """
    Raises:
        ConfigError: there is no card, or its driver does not work.
    """
    if not cuda.is_available():
        raise ConfigError("device.backend", "cuda: no usable NVIDIA GPU was found")
    if not _SIMULATED:
        register()
    return CUDALaunch(host_dtype, device_dtype)


# --- compiling without a card ---------------------------------------------------------


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
    from numba.cuda import compiler, dispatcher

    modules = [
        module
        for module in (compiler, dispatcher)
        if hasattr(module, "get_current_device")
    ]
    before = [module.get_current_device for module in modules]
    for module in modules:
        module.get_current_device = lambda: _Card(compute_capability)
    try:
        yield
    finally:
        for module, function in zip(modules, before, strict=True):
            module.get_current_device = function


def compile_ptx(
    function: Any, signature: Any, threads: int, compute_capability: Any
) -> str:
    """
    PTX of a kernel for *compute_capability*, say (9, 0); no driver needed.

    As when it is launched: with blocks of *threads*, one of them on a multiprocessor,
    so that a thread may use as many registers as there are.
    """
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
