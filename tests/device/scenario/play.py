"""
All stages in their order.
"""

from __future__ import annotations

from tests.device.making import SECOND
from tests.device.scenario import frames, media, policy, states
from tests.device.scenario.frames import install_grants
from tests.device.scenario.player import FIXED, RATE, SAMPLED, Scenario
from twisted_aotx.device.host import Device
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import Phase


def _kernel_engines(s: Scenario) -> None:
    """The model in the kernels: sampled, fixed at a rate, cancelled, lost."""
    draws = (0.0, 1.0), (0.7, 0.9), (2.0, 1.0), (1.0, 0.2), (1e-6, 1.0)
    for temperature, top_p in draws:
        number = s.new(role=SAMPLED, temperature=temperature, top_p=top_p, limit=40)
        for _ in range(3):
            s.step()
        assert s.entry(number)["r_phase"] == Phase.COMPLETED
    number = s.new(role=FIXED, limit=60)
    for _ in range(8):
        s.step(SECOND // RATE * 3)
    assert s.read(number)[1] == b"\x00fixed \xff output"
    number = s.new(role=FIXED, limit=3)
    s.step(SECOND)
    s.step(SECOND)
    assert s.entry(number)["r_finish"] == 2
    for _ in range(2):
        s.running()
    numbers = [s.new(role=FIXED, limit=60) for _ in range(6)]
    assert s.phase_of(numbers[5]) == "queued"
    s.cancel(numbers[0])
    numbers.append(s.new(role=FIXED, limit=60))
    s.device.set_engine(FIXED, False)
    s.step()
    s.device.set_engine(FIXED, True)
    s.step()
    assert [s.entry(number)["r_status"] for number in numbers] == [409] + [503] * 6


def play(device: Device, capacities: Capacities) -> Scenario:
    """All of it, on a device of `make_device`."""
    scenario = Scenario(device, capacities)
    stages = *states.STAGES, *frames.STAGES, *media.STAGES, _kernel_engines
    for stage in (media.restore, install_grants, *stages, *policy.STAGES):
        stage(scenario)
    return scenario
