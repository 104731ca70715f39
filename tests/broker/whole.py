"""
Client, broker and device together, in memory and stepped: one thread, one clock.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from tests.client.bench import Call
from tests.device.capacities import SMALL
from twisted_aotx.broker.service import BrokerService, Table
from twisted_aotx.client import Caller, DeviceClient
from twisted_aotx.device.host import Device
from twisted_aotx.engines.reference import make
from twisted_aotx.testing import MemoryWorld
from twisted_aotx.wire.grants import GrantRow, GrantTable
from twisted_aotx.wire.numbers import Action
from twisted_aotx.wire.requests import Message, Submission, TextPart

EPOCH = 7
REVISION = 3
TEXT = "hello from the device"
SUBMISSION = Submission(
    role=2,
    limit=64,
    temperature=0.0,
    top_p=1.0,
    messages=(Message(1, (TextPart(b"hi"),)),),
)


def caller(number: int, revision: int = REVISION) -> Caller:
    return Caller(number.to_bytes(16, "big"), revision)


def row(
    number: int,
    *,
    tokens: int = 100,
    requests: int = 4,
    models: int = 1 << 2,
    revision: int = REVISION,
) -> GrantRow:
    return GrantRow(
        principal=caller(number).principal,
        revision=revision,
        actions=Action.INFER | Action.TELEMETRY,
        models=models,
        pages=0,
        tokens=tokens,
        requests=requests,
        media=0,
        media_bytes=0,
    )


class Whole:
    """
    Everything between a client and an engine.
    """

    def __init__(self, folder: Path, *rows: GrantRow, **engine: Any) -> None:
        self.world = MemoryWorld()
        self.device = Device(
            SMALL,
            epoch=EPOCH,
            hash_key=2,
            seed_key=3,
            engines=[
                make(2, engine or {"text": TEXT}, SMALL.slots, SMALL.sequence_tokens)
            ],
        )
        self.now_ns = 0
        path = self.world.path("service.sock")
        self.grants_path = folder / "grants"
        self.write_grants(REVISION, *rows)
        self.path = path
        self.broker = BrokerService(
            self.world.reactor,
            self.device,
            socket_path=os.fsdecode(path),
            grants_path=str(self.grants_path),
            system=self.world.system,
        )
        self.client = DeviceClient(
            self.world.reactor,
            path,
            connections_max=SMALL.channels - 1,
            system=self.world.system,
        )

    def write_grants(self, revision: int, *rows: GrantRow) -> None:
        table = GrantTable(
            revision, tuple(attrs.evolve(row, revision=revision) for row in rows)
        )
        self.grants_path.write_bytes(table.pack())
        self.grants_path.chmod(0o600)

    def replace(self, revision: int, *rows: GrantRow) -> Deferred[Table]:
        """Reload a table of these rows; a step takes it to its end."""
        self.write_grants(revision, *rows)
        return self.broker.reload(lambda: None)

    def step(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self.world.reactor.advance(0.001)
            self.now_ns += 1_000_000
            self.device.tick(self.now_ns)
            self.broker.replies_published()
        self.world.settle()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Call:
        call = Call(coroutine)
        self.step()
        return call

    def close(self) -> None:
        self.device.close()
        self.device.free()
