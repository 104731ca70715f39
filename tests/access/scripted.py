"""
A gateway in memory before a device that is a script, for what a real one does not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.access.front import Front
from tests.gateway.device_script import WITH_MEDIA, DeviceScript
from twisted_aotx.gateway.settings import Principal
from twisted_aotx.testing.peer import ScriptedPeer


class Scripted(Front):
    """
    `device` is what the test says.
    """

    def __init__(self, principals: Sequence[Principal], **settings: Any) -> None:
        super().__init__(principals, **settings)
        self.device = DeviceScript(WITH_MEDIA, media=True)
        peer = ScriptedPeer(self.device)
        self._port = peer.listen(
            self.world.reactor, self.path, system=self.world.system
        )

    def frames(self) -> int:
        return len(self.device.operations)

    def pass_time(self) -> None:
        """A hundredth of a second."""
        self.world.reactor.advance(0.01)
