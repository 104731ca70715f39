"""
The device thread: tick, ring, wait; one compiled loop that never takes the GIL.

It waits in ppoll(2) on its doorbell until the next tick is due, so nothing polls when
nothing happens. The clock is CLOCK_MONOTONIC, read once per tick.
"""

from __future__ import annotations

from typing import Any

from numba import types

from twisted_aotx.device.backend import dev, i64, load_acquire, u64
from twisted_aotx.device.stats import add_busy
from twisted_aotx.device.tick import end_tick, tick_stages

_clock_gettime: Any = types.ExternalFunction(
    "clock_gettime", types.int32(types.int32, types.voidptr)
)
_ppoll: Any = types.ExternalFunction(
    "ppoll", types.int32(types.voidptr, types.uintp, types.voidptr, types.uintp)
)
_read: Any = types.ExternalFunction(
    "read", types.intp(types.int32, types.voidptr, types.uintp)
)
_write: Any = types.ExternalFunction(
    "write", types.intp(types.int32, types.voidptr, types.uintp)
)

_CLOCK_MONOTONIC = 1
_POLLIN = 1
_SECOND_NS = 1_000_000_000
_NULL = 0

#: Words of the loop's scratch: timespec (2), pollfd (1), counter read, the 1 to write.
SCRATCH_WORDS = 8


@dev
def read_clock(scratch: Any) -> Any:
    """CLOCK_MONOTONIC in ns; writes `scratch[0:2]`."""
    _clock_gettime(_CLOCK_MONOTONIC, scratch.ctypes)
    return scratch[0] * _SECOND_NS + scratch[1]


@dev
def _wait(doorbell: Any, scratch: Any, wait_ns: Any) -> None:
    """Sleep until the doorbell rings or *wait_ns* passed, and take its counter."""
    scratch[0] = wait_ns // _SECOND_NS
    scratch[1] = wait_ns - scratch[0] * _SECOND_NS
    scratch[2] = i64(doorbell) | (i64(_POLLIN) << 32)
    ready = _ppoll(scratch[2:].ctypes, 1, scratch.ctypes, _NULL)
    if ready > 0:
        _read(doorbell, scratch[3:].ctypes, 8)


@dev
def run_loop(
    regions_h: Any,
    regions_d: Any,
    bulk: Any,
    pool: Any,
    doorbell: Any,
    bells: Any,
    scratch: Any,
) -> None:
    """
    Tick until the region is closed.

    Args:
        doorbell: eventfd that wakes the loop.
        bells: (3,) i64, the eventfds that it rings: broker's, engines', store's.
        scratch: (8,) i64 of its own.
    """
    H = regions_h[0]
    D = regions_d[0]
    scratch[4] = 1
    while load_acquire(H.closed, 0) == u64(0):
        now = read_clock(scratch)
        tick_stages(H, D, bulk, pool, i64(0), i64(1), now)
        for n in range(len(bells)):
            if H.outcome[1 + n] == 1:
                _write(bells[n], scratch[4:].ctypes, 8)
        end_tick(H, D, pool)
        add_busy(H, read_clock(scratch) - now)
        wait_ns = H.outcome[0] - read_clock(scratch)
        if wait_ns > 0:
            _wait(doorbell, scratch, wait_ns)
        else:
            _wait(doorbell, scratch, i64(0))
