"""
The CUDA backend: thin kernels and their launches. `gpu_words` has what kernels call on
CUDA only; nothing else knows `numba.cuda`.

The kernels are the functions of the other files, called with a lane of one block. The
host region is mapped memory that both sides see, the device region never leaves the
card. The simulator (NUMBA_ENABLE_CUDASIM=1 with NUMBA_DISABLE_JIT=1) runs the same
class.
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import cuda, types
from numba.core import config

from twisted_aotx.device import configure as _configure
from twisted_aotx.device import (
    controls,
    entries,
    ledger,
    loop,
    media_restore,
    policy,
    roles,
    tables,
)
from twisted_aotx.device.backend import i64
from twisted_aotx.device.numbers import WORD_RESTORING
from twisted_aotx.device.reference import ref_load_corpus
from twisted_aotx.device.tick import end_tick, tick_stages
from twisted_aotx.errors import ConfigError

#: Lanes of the one block that runs a tick.
LANES = 256

_SIMULATED = bool(config.ENABLE_CUDASIM)


# --- thin kernels ---------------------------------------------------------------------


def tick_kernel(h, d, b, p, now):
    """One tick by one block of LANES threads; *now* in ns."""
    lane = i64(cuda.threadIdx.x)
    tick_stages(h[0], d[0], b, p, lane, i64(cuda.blockDim.x), now)
    if lane == 0:
        end_tick(h[0], d[0], p)


def configure_kernel(h, d, numbers, secrets):
    """One thread; see `configure.configure`."""
    _configure.configure(h[0], d[0], numbers, secrets)


def configure_role_kernel(d, role, numbers, digest, spans, span_bytes):
    """One thread; see `roles.configure_role`."""
    roles.configure_role(d[0], role, numbers, digest, spans, span_bytes)


def configure_control_kernel(d, row):
    """One thread; see `controls.configure_control`."""
    controls.configure_control(d[0], row)


def restore_control_kernel(d, numbers):
    """One thread; see `policy.restore_control`."""
    policy.restore_control(d[0], numbers)


def restore_ledger_kernel(d, rows):
    """One thread; see `ledger.restore_ledger`."""
    ledger.restore_ledger(d[0], rows)


def break_policy_kernel(d):
    """One thread; see `policy.break_policy`."""
    policy.break_policy(d[0])


def load_reference_kernel(d, role, corpus, size, rate, fixed, fixed_size):
    """One thread; see `reference.ref_load_corpus`."""
    ref_load_corpus(d[0], role, corpus, size, rate, fixed, fixed_size)


def restore_source_kernel(h, d, p, ids, form, digest, data):
    """One thread; see `media_restore.restore_source`."""
    media_restore.restore_source(h[0], d[0], p, ids, form, digest, data)


def kernels(regions: tables.Regions) -> dict[str, tuple[Any, Any, int]]:
    """
    Every kernel that is launched: name → (function, signature, threads of its block).
    """
    h = numba.from_dtype(regions.host)[::1]
    d = numba.from_dtype(regions.device)[::1]
    b = numba.from_dtype(regions.bulk)[::1]
    word = types.int64
    numbers = types.int64[::1]
    words = types.uint64[::1]
    data = types.uint8[::1]
    return {
        "tick": (tick_kernel, types.void(h, d, b, data, word), LANES),
        "configure": (
            configure_kernel,
            types.void(h, d, numbers, words),
            1,
        ),
        "configure_role": (
            configure_role_kernel,
            types.void(d, word, numbers, data, types.uint8[:, ::1], numbers),
            1,
        ),
        "configure_control": (configure_control_kernel, types.void(d, data), 1),
        "restore_control": (restore_control_kernel, types.void(d, words), 1),
        "restore_ledger": (
            restore_ledger_kernel,
            types.void(d, types.uint64[:, ::1]),
            1,
        ),
        "break_policy": (break_policy_kernel, types.void(d), 1),
        "load_reference": (
            load_reference_kernel,
            types.void(d, word, data, word, word, data, word),
            1,
        ),
        "restore_source": (
            restore_source_kernel,
            types.void(h, d, data, types.uint64[::1], word, data, data),
            1,
        ),
    }


# --- launching ------------------------------------------------------------------------


def read_clock() -> int:
    """CLOCK_MONOTONIC in ns."""
    return int(loop.read_clock(np.zeros(loop.SCRATCH_WORDS, np.int64)))


class CUDALaunch:
    """
    Kernels on the card; see `launch.Launch`.
    """

    #: Lanes of a tick; tests in the simulator take fewer.
    lanes = LANES
    #: What `run` looks at; in the simulator nothing is compiled, the clock neither.
    clock_ns = staticmethod(read_clock)

    def __init__(self, regions: tables.Regions) -> None:
        self._handle_h, self.host = _mapped(regions.host, 1)
        self.device = cuda.to_device(_records(regions.device, 1))
        self.bulk = cuda.to_device(_records(regions.bulk, regions.requests))
        self._handle_p, self.pool = _mapped(np.dtype(np.uint8), regions.pool)
        self._kernels = {
            entry: _jit(function, 1)
            for entry, function in (
                (entries.configure, configure_kernel),
                (entries.configure_role, configure_role_kernel),
                (entries.configure_control, configure_control_kernel),
                (entries.restore_control, restore_control_kernel),
                (entries.restore_ledger, restore_ledger_kernel),
                (entries.break_policy, break_policy_kernel),
                (entries.load_reference, load_reference_kernel),
                (entries.restore_source, restore_source_kernel),
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
        regions = self._handle_h, self.device, self.bulk, self._handle_p
        self._tick[1, self.lanes](*regions, now_ns)
        cuda.synchronize()

    def everywhere(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.everywhere`."""
        regions = self._handle_h, self.device, self._handle_p
        self._kernels[entry][1, 1](*regions, *_writable(arguments))
        cuda.synchronize()

    def run(self, doorbell: int, bells: Sequence[int]) -> None:
        """
        The device loop in Python: a launch cannot wait for a doorbell itself.
        """
        poll = select.poll()
        poll.register(doorbell, select.POLLIN)
        while self.host["closed"][0][0] == 0:
            self.tick(self.clock_ns())
            due, *rung = self.host["outcome"][0].tolist()
            for bell, rings in zip(bells, rung, strict=True):
                if rings:
                    os.eventfd_write(bell, 1)
            wait_ns = max(0, due - self.clock_ns())
            if poll.poll(-(-wait_ns // 1_000_000)):
                os.eventfd_read(doorbell)

    def compile(self) -> None:
        """
        The tick is compiled by its first launch: one that the restoring gate ends.
        """
        if not _SIMULATED:
            entries.compile_entries(numba.typeof(self.host))
        before = int(self.host["word"][0][WORD_RESTORING])
        self.on_host(entries.set_word, WORD_RESTORING, 1)
        self.tick(0)
        self.on_host(entries.set_word, WORD_RESTORING, before)

    def snapshot(self) -> tuple[Any, Any]:
        """See `Launch.snapshot`."""
        return self.device.copy_to_host(), self.bulk.copy_to_host()

    def look(self) -> Any:
        """See `Launch.look`."""
        return self.device.copy_to_host()


@cache
def _jit(function: Any, threads: int) -> Any:
    """
    *function* as a kernel for blocks of *threads*; the simulator takes any.

    One for all devices of a process, so that each set of capacities compiles once.
    """
    if _SIMULATED:
        return cuda.jit(function)
    return cuda.jit(function, launch_bounds=(threads, 1))


def _records(dtype: Any, count: int) -> Any:
    """Zeroed records; in the simulator their fields are attributes, as in kernels."""
    records = np.zeros(count, dtype)
    return records.view(np.recarray) if _SIMULATED and dtype.names else records


def _mapped(dtype: Any, count: int) -> tuple[Any, Any]:
    """Memory that both sides see: (what kernels take, the host's view), zeroed."""
    if _SIMULATED:
        handle = cuda.to_device(_records(dtype, count))
        return handle, handle._ary
    handle = cuda.mapped_array(count, dtype=dtype)
    view = np.asarray(handle)
    view.view(np.uint8)[:] = 0
    return handle, view


def _writable(arguments: tuple[Any, ...]) -> list[Any]:
    """Arrays of an argument list as copies that a kernel may take."""
    return [
        np.array(argument) if isinstance(argument, np.ndarray) else argument
        for argument in arguments
    ]


def launcher(regions: tables.Regions) -> CUDALaunch:
    """
    Raises:
        ConfigError: there is no card, or its driver does not work.
    """
    if not cuda.is_available():
        raise ConfigError("device.backend", "cuda: no usable NVIDIA GPU was found")
    if not _SIMULATED:
        # numba.cuda.extending is not there in the simulator.
        from twisted_aotx.device.gpu_words import register

        register()
    return CUDALaunch(regions)
