"""
The device's mailboxes, and the double that stands for them, keep the same contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import pytest
from zope.interface.verify import verifyObject

from tests.device.capacities import SMALL
from twisted_aotx.device.host import Device
from twisted_aotx.devices import IMailboxes
from twisted_aotx.testing import MemoryMailboxes
from twisted_aotx.testing.contract import MailboxContract, MailboxHarness


@attrs.frozen
class MemoryHarness:
    mailboxes: MemoryMailboxes

    @property
    def settle(self) -> Callable[[], None]:
        return self.mailboxes.answer_all


@attrs.frozen
class DeviceHarness:
    mailboxes: Device

    @property
    def settle(self) -> Callable[[], None]:
        return lambda: self.mailboxes.tick(1)


class TestMemoryMailboxes(MailboxContract):
    @pytest.fixture
    def harness(self) -> MailboxHarness:
        return MemoryHarness(MemoryMailboxes(4))


class TestDeviceMailboxes(MailboxContract):
    @pytest.fixture
    def harness(self) -> Iterator[MailboxHarness]:
        device = Device(SMALL, epoch=1, hash_key=2, seed_key=3)
        yield DeviceHarness(device)
        device.close()
        device.free()


def test_interface() -> None:
    assert verifyObject(IMailboxes, MemoryMailboxes(2))
