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
from twisted_aotx.device.host import Device
from twisted_aotx.wire.info import ControlRow

TOKENS = SMALL.sequence_tokens
#: One that selectors name rightly (`strategies.frames`), and one that two rows name.
CONTROLS = (
    ControlRow(
        name="one", layers=1, qualification_sha256=b"\1" * 32, doses=(1, -1, 40000)
    ),
    ControlRow(name="two", layers=1, qualification_sha256=b"\2" * 32, doses=(1,)),
    ControlRow(name="again", layers=1, qualification_sha256=b"\2" * 32, doses=(1,)),
)


class DeviceMachine(DeviceRules):
    capacities = SMALL
    # One lease more than there are slots: requests wait for their role and for slots.
    engines = (
        played_engine(
            2,
            capacity=3,
            sequence_tokens=TOKENS,
            message_format=LETTERS,
            modalities=7,
            controls=CONTROLS,
        ),
        played_engine(
            3,
            capacity=3,
            sequence_tokens=TOKENS,
            message_format=CHATML,
            modalities=3,
        ),
        kernel_engine(
            4, capacity=2, sequence_tokens=TOKENS, rate=999_983, modalities=7
        ),
    )

    def make_device(self) -> Device:
        return new_device(self.capacities, self.engines)


TestDevice = DeviceMachine.TestCase
#: One example is forty ticks or more: two for every five of other tests.
TestDevice.settings = settings(
    max_examples=settings().max_examples * 2 // 5, stateful_step_count=40
)
