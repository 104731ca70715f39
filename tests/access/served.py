"""
A gateway in memory before a broker and a device, stepped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.access.front import Front
from tests.device.capacities import SMALL
from tests.device.driver import Driver
from tests.device.making import EPOCH, new_device, played_engine
from twisted_aotx.broker.service import BrokerService
from twisted_aotx.config.grants import grant_table
from twisted_aotx.gateway.settings import Principal
from twisted_aotx.orders import OpenOrder
from twisted_aotx.watch.service import WatchService
from twisted_aotx.wire.watch import watch_path

_NS: Final = 1_000_000


class Served(Front):
    """
    All of it. The engine's sequences are played: by `step` if `plays`, else by hand.
    """

    def __init__(self, folder: Path, *principals: Principal, **settings: Any) -> None:
        super().__init__(
            principals, connections_max=SMALL.channels - 1, watched=True, **settings
        )
        engine = played_engine(
            capacity=4, sequence_tokens=SMALL.sequence_tokens, modalities=7
        )
        self.device = new_device(SMALL, [engine])
        #: Plays the engine; what it steps is `step`'s.
        self.engine = Driver(self.device, SMALL)
        #: What `step` does for the engine, the media worker and the state store.
        self.plays: Sequence[bytes] | None = (b"out", b"put")
        self.decodes = True
        self.saves: bool | None = True
        self.leases: list[OpenOrder] = []
        grants = folder / "grants"
        grants.write_bytes(grant_table(self.settings).pack())
        grants.chmod(0o600)
        reactor, system = self.world.reactor, self.world.system
        self.broker = BrokerService(
            reactor,
            self.device,
            socket_path=self.path,
            grants_path=str(grants),
            system=system,
        )
        self.watches = WatchService(
            reactor,
            self.device,
            epoch=EPOCH,
            socket_path=watch_path(self.path),
            system=system,
        )
        self.watches.start()
        started = self.broker.start()
        self.step()
        assert started.called

    def frames(self) -> int:
        return self.device.stats().frames

    def pass_time(self) -> None:
        """A millisecond."""
        self.world.reactor.advance(0.001)
        self.engine.now += _NS
        self.device.tick(self.engine.now)
        self._serve_device()
        self.watches.progress_published()
        self.broker.replies_published()

    def _serve_device(self) -> None:
        for order in self.engine.opens():
            self.leases.append(order)
            if self.plays is not None:
                self.engine.play(order, self.plays)
        if self.decodes:
            for job in self.device.media_jobs():
                self.device.finish_media(job.worker, True)
        if self.saves is not None:
            for _ in self.device.records():
                self.device.finish_record(self.saves)

    def close(self) -> None:
        super().close()
        self.device.close()
        self.device.free()
