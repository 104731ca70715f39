"""
The double that stands for the device's mailboxes keeps their contract.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from zope.interface.verify import verifyObject

from twisted_aotx.interfaces import IMailboxes
from twisted_aotx.testing import MemoryMailboxes
from twisted_aotx.testing.contract import MailboxContract, MailboxHarness


@attrs.frozen
class MemoryHarness:
    mailboxes: MemoryMailboxes

    @property
    def settle(self) -> Callable[[], None]:
        return self.mailboxes.answer_all


class TestMemoryMailboxes(MailboxContract):
    @pytest.fixture
    def harness(self) -> MailboxHarness:
        return MemoryHarness(MemoryMailboxes(4))


def test_interface() -> None:
    assert verifyObject(IMailboxes, MemoryMailboxes(2))
