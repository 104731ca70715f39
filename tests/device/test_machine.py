"""
The state machine on the compiled device (`machine.py` has the rules).
"""

from __future__ import annotations

from tests.device.capacities import SMALL
from tests.device.driver import (
    CHATML,
    EPOCH,
    HASH_KEY,
    LETTERS,
    SEED_KEY,
    SteppedDevice,
    played_engine,
)
from tests.device.machine import DeviceRules
from twisted_aotx.device.host import Device


class DeviceMachine(DeviceRules):
    capacities = SMALL
    # Fewer leases than slots, so that requests wait for their role and for slots.
    engines = (
        played_engine(
            2,
            capacity=3,
            sequence_tokens=SMALL.sequence_tokens,
            message_format=LETTERS,
        ),
        played_engine(
            3,
            capacity=5,
            sequence_tokens=SMALL.sequence_tokens,
            message_format=CHATML,
        ),
    )

    def make_device(self) -> SteppedDevice:
        return Device(
            self.capacities,
            epoch=EPOCH,
            hash_key=HASH_KEY,
            seed_key=SEED_KEY,
            engines=self.engines,  # type: ignore[arg-type]  # only facts are looked at
        )


TestDevice = DeviceMachine.TestCase
