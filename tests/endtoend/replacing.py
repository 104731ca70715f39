"""
A runtime in this process, whose tables can be looked at, two gateways in processes of
their own, and the operator who replaces their grants (`device.md` §2).
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
from twisted.internet import reactor

from tests.endtoend.conftest import GATEWAY_READY, set_engine
from tests.endtoend.http_client import Http
from tests.endtoend.peers import pause
from tests.processes import (
    PATIENCE,
    Process,
    address,
    edit,
    free_port,
    make_state,
    twistd,
)
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.config.initial import new_token
from twisted_aotx.config.runtime import load_runtime
from twisted_aotx.device.host import Device
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.numbers import Phase
from twisted_aotx.wiring_runtime import RuntimePart

PRINCIPALS = 20
#: What a principal may call, and what it may call when the model was taken from it.
MODEL = "reference"
OTHER_MODEL = "unserved"
#: The highest token cap that a table gives, and the highest media cap.
TOKENS = 100
MEDIA = 3
#: Seconds that an upload may take; what became of it is told for as long again.
UPLOAD_SECONDS = 2


class WatchedRuntime(RuntimePart):
    """
    A runtime whose device a test can look at.
    """

    device: Device

    def _device(self, epoch: int) -> Device:
        self.device = super()._device(epoch)
        return self.device


@attrs.frozen
class Principal:
    """
    Number, token, and the token's hash.
    """

    number: int
    token: str = attrs.field(repr=False)
    digest: str

    @property
    def id(self) -> bytes:
        return self.number.to_bytes(16, "big")

    def entry(
        self,
        *,
        requests: int,
        tokens: int = TOKENS,
        model: str = MODEL,
        media: int = MEDIA,
    ) -> dict[str, Any]:
        """Its place in gateway.json."""
        return {
            "id": self.id.hex(),
            "token_sha256": [self.digest],
            "models": [model],
            "actions": ["infer", "upload"],
            "tokens": tokens,
            "requests": requests,
            "media": media,
        }


@attrs.define
class Operator:
    """
    Replaces tables, and knows when which was acknowledged.
    """

    state: Path
    runtime: WatchedRuntime
    gateways: list[Process]
    configs: list[Path]
    principals: list[Principal]
    revision: int = 1
    #: When the device had acknowledged the newest table (CLOCK_MONOTONIC, ns).
    acknowledged_ns: int = 0
    #: While the device has the new table, and no gateway has been told.
    is_between: bool = False

    @property
    def urls(self) -> list[str]:
        return [address(config) for config in self.configs]

    def write(self, entries: list[dict[str, Any]]) -> None:
        """The next table and the configurations that go with it."""
        self.revision += 1
        for config in self.configs:
            edit(config, principals=entries, revision=str(self.revision))
        table = grant_table(load_gateway(self.configs[0]).settings)
        replace_file(self.state / "grants", table.pack())

    async def have_runtime_reload(self) -> None:
        """As SIGHUP has it; the acknowledgement has come when this returns."""
        self.runtime.read_again()
        await self.runtime.reload(lambda: None)
        self.acknowledged_ns = time.monotonic_ns()
        self.is_between = True

    async def have_gateways_reload(self) -> None:
        self.is_between = False
        for gateway in self.gateways:
            gateway.signal(signal.SIGHUP)
        line = f"reloaded: revision {self.revision},"
        for gateway in self.gateways:
            await logged(gateway, line)

    async def settle(self) -> None:
        """Until the device has gone through three whole ticks more."""
        device = self.runtime.device
        begun = device.stats().ticks
        while device.stats().ticks < begun + 4:
            device.ring()
            await pause(0.001)


@attrs.frozen
class Entry:
    """
    What the request table holds of one request.
    """

    revision: int
    phase: int
    status: int
    opened_ns: int
    changed_ns: int


def entries_of(operator: Operator) -> dict[tuple[bytes, bytes], Entry]:
    """The request table, by principal and id."""
    D = operator.runtime.device.snapshot()
    found = {}
    for n in range(len(D["r_phase"])):
        if int(D["r_phase"][n]) != Phase.FREE:
            key = D["r_principal"][n].tobytes(), D["r_id"][n].tobytes()
            columns = ("r_revision", "r_phase", "r_status", "r_open", "r_changed")
            found[key] = Entry(*(int(D[column][n]) for column in columns))
    return found


async def invariants_hold(device: Device) -> None:
    """
    Of every table. A look while a source is on its way may be of two ticks: only what
    stays broken is broken.
    """
    for _ in range(50):
        found = device.invariants()
        if not found:
            return
        await pause(0.01)
    raise AssertionError(found)


async def media_of_all(operator: Operator, http: Http) -> None:
    """
    No receipt is left once its time is over, and every source is its owner's to remove.
    """
    device = operator.runtime.device
    for _ in range(100):
        if device.stats().media_receipts == 0:
            break
        await pause(UPLOAD_SECONDS / 20)
    assert device.stats().media_receipts == 0
    found = 0
    for owner in operator.principals:
        url = f"{operator.urls[0]}/aotx/v1/media"
        status, answer = await http.ask(url, owner.token)
        assert status == 200
        for row in answer["data"]:
            assert row["phase"] == 6
            assert await http.delete(f"{url}/{row['id']}", owner.token) == 204
            found += 1
    assert found > 0
    stats = device.stats()
    assert (stats.media_objects, stats.media_bytes_free) == (
        0,
        Capacities().media_bytes,
    )
    assert device.invariants() == []


async def logged(process: Process, line: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while line not in process.text():
        assert process.popen.poll() is None, process
        assert time.monotonic() < deadline, f"no {line!r} in time: {process}"
        await pause(0.01)


def random_entries(
    principals: list[Principal], chance: random.Random
) -> list[dict[str, Any]]:
    """Each with a model or without, with other quotas, or not there at all."""
    return [
        principal.entry(
            requests=chance.randint(1, 6),
            tokens=chance.choice((TOKENS // 10, TOKENS, TOKENS)),
            model=chance.choice((MODEL, MODEL, MODEL, OTHER_MODEL)),
            media=chance.randint(0, MEDIA),
        )
        for principal in principals
        if chance.random() < 0.85
    ]


@asynccontextmanager
async def deployment(folder: Path, *, rate: int) -> AsyncIterator[Operator]:
    """
    Everything running, with an engine of *rate* tokens per second; all of it must end
    in order.
    """
    state = make_state(folder)
    set_engine(state, rate=rate, modalities=["audio"])
    device = edit(state / "runtime.json")["device"]
    edit(state / "runtime.json", device={**device, "upload_seconds": UPLOAD_SECONDS})
    models = edit(state / "gateway.json")["models"]
    models[OTHER_MODEL] = {**models[MODEL], "role": "language-q4"}
    principals = [Principal(number + 1, *new_token()) for number in range(PRINCIPALS)]
    entries = [principal.entry(requests=4) for principal in principals]
    first, second = state / "gateway.json", state / "gateway-2.json"
    edit(first, models=models, principals=entries)
    shutil.copy(first, second)
    edit(second, port=free_port())
    replace_file(state / "grants", grant_table(load_gateway(first).settings).pack())

    died: list[str] = []
    runtime = WatchedRuntime(reactor, load_runtime(state / "runtime.json"))
    await runtime.start(died.append)
    try:
        with ExitStack() as stack:
            gateways = [
                stack.enter_context(twistd(folder, "aotx-gateway", "--gateway", config))
                for config in (first, second)
            ]
            for gateway in gateways:
                await logged(gateway, GATEWAY_READY)
            yield Operator(state, runtime, gateways, [first, second], principals)
            for gateway in gateways:
                gateway.signal(signal.SIGTERM)
            for gateway in gateways:
                while gateway.popen.poll() is None:
                    await pause(0.01)
                assert gateway.code() == 0, gateway
                assert gateway.lines("critical") == gateway.lines("error") == []
    finally:
        await runtime.stop()
    assert died == []
