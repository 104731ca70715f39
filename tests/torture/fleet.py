"""
Two gateways and one runtime as processes, that can be killed, stopped and started.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import attrs
import psutil  # type: ignore[import-untyped]  # it ships no types
from prometheus_client.parser import text_string_to_metric_families

from tests.endtoend.conftest import GATEWAY_READY, RUNTIME_READY
from tests.endtoend.scrapes import at_endpoint
from tests.processes import (
    COMPILE_PATIENCE,
    Process,
    address,
    edit,
    environment,
)
from tests.torture.deployment import Deployment
from tests.torture.histories import Life

#: Seconds after a fire within which its echo may still be heard: a connection of a
#: pool that was dead without knowing it lives at most ten, an exchange fifteen.
ECHO_SECONDS: Final = 20.0
#: Seconds that a gateway may take to start, with much else to do for the machine.
START_SECONDS: Final = 120.0
#: Seconds that an orderly stop may take.
STOP_SECONDS: Final = 60.0
#: Of the state store, when nothing is wrong with it.
STORE_BYTES: Final = 1 << 30


@attrs.define
class Fleet:
    """
    The processes of one state directory, and what was done to them.

    Attributes:
        lives: By epoch.
        troubles: (from, to) of fires; while one burns, `to` is infinite.
    """

    deployment: Deployment
    runtime: Process | None = None
    gateways: list[Process | None] = attrs.field(factory=lambda: [None, None])
    lives: dict[int, Life] = attrs.field(factory=dict)
    troubles: list[list[float]] = attrs.field(factory=list)
    logs: list[Process] = attrs.field(factory=list)
    #: How often a runtime or a gateway was ended, and by what.
    ends: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    decoders_killed: list[float] = attrs.field(factory=list)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(address(config) for config in self.deployment.configs)

    @property
    def state(self) -> Path:
        return self.deployment.state

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
        process = self._start(
            "aotx-gateway", "--gateway", self.deployment.configs[which]
        )
        self.gateways[which] = process
        process.wait_for(GATEWAY_READY, START_SECONDS)
        return process

    def end_runtime(self, number: signal.Signals) -> Process:
        """SIGKILL, or SIGTERM and a stop in order."""
        process = self.runtime
        assert process is not None
        children = psutil.Process(process.popen.pid).children()
        self.life.ending = time.monotonic()
        process.signal(number)
        self._ended(process, number)
        self.ends["runtime", number.name] += 1
        # They see their pipes close, whatever ended it.
        _, alive = psutil.wait_procs(children, STOP_SECONDS)
        assert not alive, f"they outlive their runtime: {alive}"
        self.life.dead = time.monotonic()
        self.runtime = None
        return process

    def end_gateway(self, which: int, number: signal.Signals) -> Process:
        process = self.gateways[which]
        assert process is not None
        process.signal(number)
        self._ended(process, number)
        self.ends["gateway", number.name] += 1
        self.gateways[which] = None
        return process

    def _ended(self, process: Process, number: signal.Signals) -> None:
        code = process.code(STOP_SECONDS)
        wanted = -signal.SIGKILL if number == signal.SIGKILL else 0
        assert code == wanted, f"ended with {code}: {process.log}"

    def _start(self, *words: str | Path) -> Process:
        log = self.deployment.folder / f"{len(self.logs):04}-{words[0]}.log"
        run = "from twisted.scripts.twistd import run; run()"
        options = ["-n", "--pidfile=", str(words[0]), "--log-format=text"]
        command = [sys.executable, "-c", run, *options, *map(str, words[1:])]
        # Through a pipe: a process that may write no file can still log.
        popen = subprocess.Popen(
            command,
            cwd=self.deployment.folder,
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

    def kill_decoders(self) -> int:
        """SIGKILL what decodes images; how many there were."""
        assert self.runtime is not None
        found = psutil.Process(self.runtime.popen.pid).children()
        self.decoders_killed.append(time.monotonic())
        for each in found:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        return len(found)

    def may_lose_image(self, asked: float, answered: float) -> bool:
        """Whether a decoder was killed between the two."""
        return any(asked <= killed <= answered for killed in self.decoders_killed)

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
