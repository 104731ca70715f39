"""
A device and its engines, joined by a bridge over real eventfds.
"""

from __future__ import annotations

import attrs

from tests.runtime.doubles import (
    ListedEngine,
    MemoryDevice,
    ThreadedReactor,
    open_order,
)
from twisted_aotx.interfaces import Lease
from twisted_aotx.runtime.bridge import EngineBridge
from twisted_aotx.runtime.doorbell import Doorbell


@attrs.define
class Bridged:
    """
    A device and its engines, joined.
    """

    device: MemoryDevice
    engines: list[ListedEngine]
    reactor: ThreadedReactor
    bridge: EngineBridge

    @property
    def engine(self) -> ListedEngine:
        return self.engines[0]

    def open(self, slot: int = 1, generation: int = 1) -> Lease:
        self.device.order(open_order(slot, generation))
        self.reactor.settle()
        return self.engine.leases[-1]


def joined(*engines: ListedEngine, room: int = 64) -> Bridged:
    device, reactor = MemoryDevice(room), ThreadedReactor()
    bridge = EngineBridge(reactor, device, engines)
    reactor.addReader(Doorbell(device.engine_doorbell, "engine", bridge.doorbell_rung))
    bridge.serve()
    for engine in engines:
        engine.start(bridge.host(engine))
        engine.verbs.clear()
    return Bridged(device, list(engines), reactor, bridge)
