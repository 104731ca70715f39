"""
The state machine on the compiled device (`machine.py` has the rules).
"""

from __future__ import annotations

from hypothesis import settings

from tests.device.capacities import SMALL
from tests.device.machine.rules import DeviceRules
from tests.device.making import (
    CHATML,
    LETTERS,
    kernel_engine,
    new_device,
    played_engine,
)
from tests.device.stepped import SteppedDevice

TOKENS = SMALL.sequence_tokens


class DeviceMachine(DeviceRules):
    capacities = SMALL
    # One lease more than there are slots: requests wait for their role and for slots.
    engines = (
        played_engine(2, capacity=3, sequence_tokens=TOKENS, message_format=LETTERS),
        played_engine(3, capacity=3, sequence_tokens=TOKENS, message_format=CHATML),
        kernel_engine(4, capacity=2, sequence_tokens=TOKENS, rate=999_983),
    )

    def make_device(self) -> SteppedDevice:
        return new_device(self.capacities, self.engines)


TestDevice = DeviceMachine.TestCase
TestDevice.settings = settings(stateful_step_count=40)
