"""
The state machine on the compiled device (`machine.py` has the rules).
"""

from __future__ import annotations

import hashlib

from hypothesis import settings

from tests.device.capacities import SMALL
from tests.device.machine.rules import DeviceRules
from tests.device.making import (
    CHATML,
    LETTERS,
    new_device,
    played_engine,
)
from tests.device.stepped import SteppedDevice
from twisted_aotx.engines.reference import ReferenceEngine
from twisted_aotx.interfaces import EngineFacts, ReferenceModel

TOKENS = SMALL.sequence_tokens
CORPUS = b"a cat sat on a mat and a rat ran at a cat. a mat!\n\nno cat is a rat.\n"


def kernel_engine(role: int, capacity: int, rate: int) -> ReferenceEngine:
    """The model in the kernels, from a corpus that is quickly counted."""
    facts = EngineFacts(
        role=role,
        model_sha256=hashlib.sha256(CORPUS).digest(),
        modalities=1,
        capacity=capacity,
        sequence_tokens=TOKENS,
        message_format=CHATML,
    )
    return ReferenceEngine(facts, ReferenceModel(corpus=CORPUS, rate=rate))


class DeviceMachine(DeviceRules):
    capacities = SMALL
    # One lease more than there are slots: requests wait for their role and for slots.
    engines = (
        played_engine(2, capacity=3, sequence_tokens=TOKENS, message_format=LETTERS),
        played_engine(3, capacity=3, sequence_tokens=TOKENS, message_format=CHATML),
        kernel_engine(4, capacity=2, rate=10**9),
    )

    def make_device(self) -> SteppedDevice:
        return new_device(self.capacities, self.engines)


TestDevice = DeviceMachine.TestCase
TestDevice.settings = settings(stateful_step_count=40)
