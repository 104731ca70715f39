"""
The CUDA backend's loop in the simulator: `python -m tests.device.simulated_loop` says
`closed` after all went well.
"""

from __future__ import annotations

import sys
import threading
import time

from tests.device.capacities import SMALL
from tests.device.making import grant
from tests.device.scenario.player import FIXED, make_device
from tests.device.test_loop import PATIENCE, Running
from twisted_aotx.device.gpu import CUDALaunch
from twisted_aotx.wire.numbers import Phase


def main() -> None:
    # The simulator's lanes hand over to each other at every barrier.
    sys.setswitchinterval(1e-4)
    CUDALaunch.lanes = 2
    CUDALaunch.clock_ns = staticmethod(time.monotonic_ns)
    device = make_device(SMALL, "cuda")
    device.warm_up()
    thread = threading.Thread(target=device.run, daemon=True)
    thread.start()
    running = Running(device, SMALL)
    assert running.install(grant(actions=9, models=1 << FIXED)) == 200
    assert running.submit(1, role=FIXED, limit=4) == 202
    deadline = time.monotonic() + PATIENCE
    while running.phase(1) != Phase.COMPLETED:
        assert time.monotonic() < deadline
    assert running.read(1)[1] == b"\x00fix"
    device.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    device.free()
    sys.stdout.write("closed\n")


if __name__ == "__main__":
    main()
