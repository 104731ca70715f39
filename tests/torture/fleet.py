"""
Two gateways and one runtime as processes, that can be killed, stopped and started.
"""

from __future__ import annotations

import base64
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import attrs
from prometheus_client.parser import text_string_to_metric_families

from tests.endtoend.conftest import GATEWAY_READY, RUNTIME_READY
from tests.endtoend.scrapes import at_endpoint
from tests.processes import (
    COMPILE_PATIENCE,
    Process,
    address,
    edit,
    environment,
    free_port,
    make_state,
)
from tests.torture.expected import ANSWERING, RECITED, RECITING
from tests.torture.histories import Life
from tests.torture.uploaders import UPLOAD_SECONDS
from twisted_aotx.config.files import replace_file
from twisted_aotx.config.gateway import load_gateway
from twisted_aotx.config.grants import grant_table
from twisted_aotx.config.initial import new_token

#: Tokens per second of the model that answers, and of the one that recites.
RATE, RECITING_RATE = 100, 1000
#: Principal who looks at metrics and switches review on.
WATCHER: Final = 1000
LIMITS: Final = {
    "connections": 256,
    "work": 128,
    "header_seconds": 3,
    "body_seconds": 4,
    "write_seconds": 4,
}
#: Seconds after a fire within which its echo may still be heard: a connection of a
#: pool that was dead without knowing it lives at most ten, an exchange fifteen.
ECHO_SECONDS: Final = 20.0
#: Seconds that an orderly stop may take.
STOP_SECONDS: Final = 60.0
#: Of the state store, when nothing is wrong with it.
STORE_BYTES: Final = 1 << 30


@attrs.frozen
class Account:
    """
    A principal: its number and its token.
    """

    number: int
    token: str = attrs.field(repr=False)
    digest: str = attrs.field(repr=False)

    @classmethod
    def make(cls, number: int) -> Account:
        return cls(number, *new_token())

    @property
    def entry(self) -> dict[str, Any]:
        """Its place in gateway.json."""
        actions = ["infer", "upload"]
        if self.number == WATCHER:
            actions += ["telemetry", "policy_manage"]
        return {
            "id": f"{self.number:032x}",
            "token_sha256": [self.digest],
            "models": [ANSWERING, RECITING],
            "actions": actions,
            "tokens": 8192,
            "requests": 16,
            "media": 12,
            "media_bytes": 4 << 20,
        }


@attrs.define
class Fleet:
    """
    The processes of one state directory, and what was done to them.

    Attributes:
        lives: By epoch.
        troubles: (from, to) of fires; while one burns, `to` is infinite.
    """

    folder: Path
    state: Path
    configs: tuple[Path, Path]
    accounts: list[Account]
    runtime: Process | None = None
    gateways: list[Process | None] = attrs.field(factory=lambda: [None, None])
    lives: dict[int, Life] = attrs.field(factory=dict)
    troubles: list[list[float]] = attrs.field(factory=list)
    logs: list[Process] = attrs.field(factory=list)

    @classmethod
    def make(cls, folder: Path, clients: int, requests: int) -> Fleet:
        """
        Args:
            requests: `device.requests`; 128 needs no kernels of its own.
        """
        numbers = [*range(1, clients + 1), WATCHER]
        accounts = [Account.make(number) for number in numbers]
        entries = [account.entry for account in accounts]
        models = {
            ANSWERING: {"role": "language", "published_at": 1},
            RECITING: {"role": "language-q4", "published_at": 1},
        }
        state = make_state(
            folder, principals=entries, models=models, limits=dict(LIMITS)
        )
        recited = base64.b64encode(RECITED).decode()
        media = ["image", "audio"]
        device = edit(state / "runtime.json")["device"]
        edit(
            state / "runtime.json",
            metrics="unix:metrics.sock",
            device={**device, "requests": requests, "upload_seconds": UPLOAD_SECONDS},
            models={
                "language": {"engine": "reference", "rate": RATE, "modalities": media},
                "language-q4": {
                    "engine": "reference",
                    "rate": RECITING_RATE,
                    "bytes": recited,
                },
            },
        )
        first, second = state / "gateway.json", state / "gateway-2.json"
        shutil.copy(first, second)
        edit(second, port=free_port())
        table = grant_table(load_gateway(first).settings)
        replace_file(state / "grants", table.pack())
        return cls(folder, state, (first, second), accounts)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(address(config) for config in self.configs)

    @property
    def watcher(self) -> Account:
        return self.accounts[-1]

    @property
    def life(self) -> Life:
        """The newest."""
        return self.lives[max(self.lives)]

    # --- trouble ------------------------------------------------------------------

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """What goes wrong for clients meanwhile, and shortly after, is no wonder."""
        entry = [time.monotonic(), float("inf")]
        self.troubles.append(entry)
        try:
            yield
        finally:
            entry[1] = time.monotonic()

    def is_calm(self, asked: float, answered: float) -> bool:
        """Whether no fire burnt between the two, nor shortly before."""
        return not any(
            begun <= answered and ended >= asked - ECHO_SECONDS
            for begun, ended in self.troubles
        )

    # --- processes ----------------------------------------------------------------

    def start_runtime(self) -> Process:
        """A new epoch; when this returns, it serves."""
        began = time.monotonic()
        process = self._start("aotx-runtime", "--state", self.state)
        self.runtime = process
        process.wait_for(RUNTIME_READY, COMPILE_PATIENCE)
        epoch = int((self.state / "epoch").read_text())
        self.lives[epoch] = Life(epoch, began, time.monotonic())
        return process

    def start_gateway(self, which: int) -> Process:
        process = self._start("aotx-gateway", "--gateway", self.configs[which])
        self.gateways[which] = process
        process.wait_for(GATEWAY_READY)
        return process

    def end_runtime(self, number: signal.Signals) -> Process:
        """SIGKILL, or SIGTERM and a stop in order."""
        process = self.runtime
        assert process is not None
        self.life.ending = time.monotonic()
        process.signal(number)
        self._ended(process, number)
        self.life.dead = time.monotonic()
        self.runtime = None
        return process

    def end_gateway(self, which: int, number: signal.Signals) -> Process:
        process = self.gateways[which]
        assert process is not None
        process.signal(number)
        self._ended(process, number)
        self.gateways[which] = None
        return process

    def _ended(self, process: Process, number: signal.Signals) -> None:
        code = process.code(STOP_SECONDS)
        wanted = -signal.SIGKILL if number == signal.SIGKILL else 0
        assert code == wanted, f"ended with {code}: {process.log}"

    def _start(self, *words: str | Path) -> Process:
        log = self.folder / f"{len(self.logs):04}-{words[0]}.log"
        run = "from twisted.scripts.twistd import run; run()"
        options = ["-n", "--pidfile=", str(words[0]), "--log-format=text"]
        command = [sys.executable, "-c", run, *options, *map(str, words[1:])]
        # Through a pipe: a process that may write no file can still log.
        popen = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        log.touch()
        assert popen.stdout is not None
        threading.Thread(target=_copy, args=(popen.stdout, log), daemon=True).start()
        process = Process(popen, log)
        self.logs.append(process)
        return process

    def running(self) -> dict[str, Process]:
        """By name: those that are there."""
        named = {"runtime": self.runtime, "gateway 1": self.gateways[0]}
        named["gateway 2"] = self.gateways[1]
        return {name: each for name, each in named.items() if each is not None}

    def pid_of(self, url: str) -> int:
        """Of the gateway at *url*; 0 if it does not run."""
        gateway = self.gateways[self.urls.index(url)]
        return 0 if gateway is None else gateway.popen.pid

    def end(self) -> None:
        """Leave no process behind."""
        for process in self.logs:
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait(STOP_SECONDS)

    # --- the disk -----------------------------------------------------------------

    def store_bytes(self) -> int:
        """What the state store has in use."""
        for family in text_string_to_metric_families(at_endpoint(self.state)):
            for sample in family.samples:
                if sample.name == "aotx_store_bytes":
                    return int(sample.value)
        raise AssertionError("no aotx_store_bytes")

    def set_store_bytes(self, value: int) -> None:
        """What the next runtime may store."""
        edit(self.state / "runtime.json", store_bytes=value)

    def fill_disk(self) -> None:
        """From now on the runtime cannot make a file longer, as on a full disk."""
        self._set_file_bytes(0)

    def clear_disk(self) -> None:
        self._set_file_bytes(resource.RLIM_INFINITY)

    def _set_file_bytes(self, soft: int) -> None:
        assert self.runtime is not None
        pid = self.runtime.popen.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        soft = hard if soft == resource.RLIM_INFINITY else soft
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))

    # --- logs ---------------------------------------------------------------------

    def complaints(self) -> list[str]:
        """Lines of logs that no fire excuses."""
        return [
            f"{process.log.name}: {line}"
            for process in self.logs
            for level in ("critical", "error")
            for line in process.lines(level)
            if not line.startswith(EXCUSED)
        ]


#: Lines of level error that are as they should be: a disk that is full.
EXCUSED: Final = ("the state store cannot write",)


def _copy(pipe: IO[bytes], log: Path) -> None:
    with pipe, log.open("ab", buffering=0) as file:
        while data := os.read(pipe.fileno(), 65536):
            file.write(data)
