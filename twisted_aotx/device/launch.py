"""
Where kernels run: one small class per backend, the same verbs for each.

`on_host` runs an entry over region H, `on_device` one over region D, `once` one over
both; `tick` and `run` belong to the device's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numba
import numpy as np
from numba.core import config

from twisted_aotx.device import entries, loop, tables, tick
from twisted_aotx.device.cache import one_at_a_time
from twisted_aotx.device.restoring import compile_restoring
from twisted_aotx.errors import ConfigError


class Launch(Protocol):
    """
    The verbs of a backend. H and D are record arrays of length 1, B one of requests, P
    bytes.
    """

    host: Any
    device: Any
    bulk: Any
    #: The host's view of P.
    pool: Any

    def on_host(self, entry: Any, *arguments: Any) -> Any:
        """Run *entry* over region H on the CPU."""

    def on_device(self, entry: Any, *arguments: Any) -> Any:
        """Run *entry* over region D."""

    def once(self, entry: Any, *arguments: Any) -> Any:
        """Run *entry* over both regions."""

    def tick(self, now_ns: int) -> None:
        """Run one tick."""

    def everywhere(self, entry: Any, *arguments: Any) -> Any:
        """Run *entry* over the regions H, D and P."""

    def run(self, doorbell: int, bells: Sequence[int]) -> None:
        """Tick until the region is closed; *bells*: broker's, engines', store's."""

    def compile(self) -> None:
        """Compile everything above; changes nothing."""

    def snapshot(self) -> tuple[Any, Any]:
        """Copies of the regions D and B."""

    def look(self) -> Any:
        """Region D, to be read before the next tick: a copy where it lies elsewhere."""


class CPULaunch:
    """
    Compiled kernels in this process; plain Python with NUMBA_DISABLE_JIT=1.
    """

    def __init__(self, regions: tables.Regions) -> None:
        self.host = tables.allocate(regions.host)
        self.device = tables.allocate(regions.device)
        self.bulk = tables.allocate(regions.bulk, regions.requests)
        self.pool = np.zeros(regions.pool, np.uint8)
        self._plain = bool(getattr(config, "DISABLE_JIT", False))
        if self._plain:
            # Without the compiler a record needs numpy's own attribute access.
            self.host = self.host.view(np.recarray)
            self.device = self.device.view(np.recarray)
            self.bulk = self.bulk.view(np.recarray)

    def on_host(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.on_host`."""
        return entry(self.host, *arguments)

    def on_device(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.on_device`."""
        return entry(self.device, *arguments)

    def once(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.once`."""
        return entry(self.host, self.device, *arguments)

    def tick(self, now_ns: int) -> None:
        """See `Launch.tick`."""
        tick.tick(self.host, self.device, self.bulk, self.pool, now_ns)

    def everywhere(self, entry: Any, *arguments: Any) -> Any:
        """See `Launch.everywhere`."""
        return entry(self.host, self.device, self.pool, *arguments)

    def run(self, doorbell: int, bells: Sequence[int]) -> None:
        """See `Launch.run`."""
        if self._plain:
            raise RuntimeError("the device loop needs compiled kernels")
        scratch = np.zeros(loop.SCRATCH_WORDS, np.int64)
        rung: Any = np.array(bells, np.int64)
        regions = self.host, self.device, self.bulk, self.pool
        loop.run_loop(*regions, doorbell, rung, scratch)

    def compile(self) -> None:
        """See `Launch.compile`."""
        if self._plain:
            return
        parts = self.host, self.device, self.bulk, self.pool
        regions = tuple(numba.typeof(part) for part in parts)
        host, device, _, pool = regions
        word = numba.int64
        words = numba.typeof(np.zeros(1, np.int64))
        with one_at_a_time():
            loop.run_loop.compile((*regions, word, words, words))
            entries.compile_entries(host)
            compile_restoring(host, device, pool)

    def snapshot(self) -> tuple[Any, Any]:
        """See `Launch.snapshot`."""
        return self.device.copy(), self.bulk.copy()

    def look(self) -> Any:
        """See `Launch.look`."""
        return self.device


def launcher(backend: str, regions: tables.Regions) -> Launch:
    """
    The launcher of *backend*, "cpu" or "cuda".

    Raises:
        ConfigError: the backend is unknown or its hardware is not there.
    """
    if backend == "cpu":
        return CPULaunch(regions)
    if backend == "cuda":
        # numba-cuda is an extra: only this backend may need it.
        from twisted_aotx.device import gpu

        return gpu.launcher(regions)
    raise ConfigError("device.backend", f"{backend!r} is neither cpu nor cuda")
