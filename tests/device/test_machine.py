"""
The state machine on the compiled device (`machine/rules.py` has the rules).
"""

from __future__ import annotations

from hypothesis import settings

from tests.device.machine.worlds import DeviceMachine

TestDevice = DeviceMachine.TestCase
#: One example is forty ticks or more: two for every five of other tests.
TestDevice.settings = settings(
    max_examples=settings().max_examples * 2 // 5, stateful_step_count=40
)
