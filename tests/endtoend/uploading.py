"""
A runtime that takes media and a gateway, each a process, the second replaceable.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from tests.endtoend.conftest import GATEWAY_READY, RUNTIME_READY, set_engine
from tests.endtoend.scrapes import gauges_of_device
from tests.endtoend.storm import Media
from tests.processes import COMPILE_PATIENCE, Process, edit, make_state, twistd
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table


@attrs.define
class Service:
    """
    A runtime, and a gateway that is killed and started again.
    """

    folder: Path
    state: Path
    stack: ExitStack = attrs.field(factory=ExitStack)
    runtime: Process = attrs.field(init=False)
    gateway: Process = attrs.field(init=False)

    @classmethod
    def make(
        cls, folder: Path, principals: list[dict[str, Any]], **device: Any
    ) -> Service:
        """With *principals* in gateway.json and *device* in runtime.json."""
        state = make_state(folder)
        set_engine(state, modalities=["image", "audio"])
        edit(state / "runtime.json", device=device, metrics="unix:metrics.sock")
        edit(state / "gateway.json", principals=principals)
        table = grant_table(load_gateway(state / "gateway.json").settings)
        replace_file(state / "grants", table.pack())
        return cls(folder, state)

    @property
    def config(self) -> Path:
        return self.state / "gateway.json"

    def gauge(self, name: str) -> int:
        return gauges_of_device(self.state)[name]

    def media(self, token: str) -> Media:
        return Media(self.config, token)

    def start(self) -> None:
        words = "aotx-runtime", "--state", self.state
        self.runtime = self.stack.enter_context(twistd(self.folder, *words))
        self.runtime.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        self.start_gateway()

    def start_gateway(self) -> None:
        words = "aotx-gateway", "--gateway", self.config
        self.gateway = self.stack.enter_context(twistd(self.folder, *words))
        self.gateway.wait_for(GATEWAY_READY)

    def kill_gateway(self) -> None:
        self.gateway.signal(signal.SIGKILL)
        assert self.gateway.code() == -signal.SIGKILL

    def end(self) -> None:
        for process in (self.gateway, self.runtime):
            process.signal(signal.SIGTERM)
            assert process.code() == 0, process
            assert process.lines("critical") == process.lines("error") == []
