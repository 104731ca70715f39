"""
What is done to the processes while clients are at work, one fire at a time.

Each fire ends when the service is well again, and the next begins when clients have
done something since. Within a fire two things may go wrong at once.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from tests.processes import Process
from tests.torture.book import PAUSE_SECONDS, Book
from tests.torture.fleet import STORE_BYTES, Fleet
from tests.torture.talk import Gone, Line, Silent

#: Seconds for which a process stands still, or a socket is away.
STILL_SECONDS: Final = (1.0, 4.0)
#: Requests that are done between two fires.
BETWEEN: Final = (5, 40)
#: Seconds after a fire until both gateways are ready again.
WELL_SECONDS: Final = 120.0
#: Seconds until the store meets a disk that is full: uploads make it write.
FULL_SECONDS: Final = 60.0
#: Seconds until clients have done their next requests.
WORK_SECONDS: Final = 240.0
#: Seconds between two looks for decoders.
DECODER_PAUSE: Final = 0.02
CANNOT: Final = "the state store cannot write"
AGAIN: Final = "the state store writes again"
#: How often a cap is tried, and for how long each time.
CAPS_MAX: Final = 5
CAP_SECONDS: Final = 20.0
#: Bytes of sources that a store under a cap has room for.
ROOM_BYTES: Final = 20_000
#: What of `store_bytes` takes no source: this, or a quarter if that is less.
RESERVE_BYTES: Final = 1 << 20

KINDS: Final = (
    "gateway killed",
    "gateway killed",
    "both gateways killed",
    "gateway ended",
    "gateway stopped",
    "runtime killed",
    "runtime killed",
    "runtime stopped",
    "runtime killed, gateway stopped",
    "everything killed",
    "socket removed",
    "socket moved away",
    "disk full",
    "store capped",
    "decoders killed",
)

Judge = Callable[[], None]


@attrs.define
class Fires:
    """
    All kinds, in the order of a shuffled deck.

    Attributes:
        on_death: Called whenever the runtime is dead and before the next one starts.
    """

    fleet: Fleet
    book: Book
    chance: random.Random
    on_death: Judge
    kinds: tuple[str, ...] = KINDS
    still_seconds: tuple[float, float] = STILL_SECONDS
    between: tuple[int, int] = BETWEEN
    deck: list[str] = attrs.field(factory=list)
    #: How many were.
    lit: int = 0

    def until(self, over: Callable[[], bool]) -> None:
        """One fire after the other."""
        while not over() and not self.book.faults:
            if not self.deck:
                self.deck = list(self.kinds)
                self.chance.shuffle(self.deck)
            self.light(self.deck.pop())
            before = self.book.done
            enough = self.chance.randint(*self.between)
            self.book.wait(
                lambda before=before, enough=enough: (  # type: ignore[misc]
                    self.book.done >= before + enough or over()
                ),
                WORK_SECONDS,
                "requests done between two fires",
            )

    def light(self, kind: str) -> None:
        """One fire, until it is out and the service is well."""
        name = "_" + kind.replace(",", "").replace(" ", "_")
        with self.fleet.trouble():
            getattr(self, name)()
            self.well()
        self.lit += 1
        self.book.saw(f"fires: {kind}")

    def well(self) -> None:
        """Until both gateways say that they are ready, and answer."""
        for url in self.fleet.urls:
            line = Line(url, self.fleet.deployment.watcher.token)
            self.book.wait(
                partial(_is_ready, line),
                WELL_SECONDS,
                f"ready after a fire: {url}",
            )
            line.close()

    def reload(self) -> None:
        """SIGHUP for all: no fire, for nobody may notice."""
        told = {"runtime": "the grants file holds the table in force"}
        for name, process in self.fleet.running().items():
            line = told.get(name, "reloaded: revision")
            before = process.text().count(line)
            process.signal(signal.SIGHUP)
            self.book.wait(
                partial(_says, process, line, before + 1),
                WELL_SECONDS,
                f"a reload of {name}",
            )
        self.book.saw("reloads")

    # --- gateways -----------------------------------------------------------------

    def _which(self) -> int:
        return self.chance.randrange(2)

    def _gateway_killed(self) -> None:
        which = self._which()
        self.fleet.end_gateway(which, signal.SIGKILL)
        self.still()
        self.fleet.start_gateway(which)

    def _both_gateways_killed(self) -> None:
        for which in (0, 1):
            self.fleet.end_gateway(which, signal.SIGKILL)
        for which in (0, 1):
            self.fleet.start_gateway(which)

    def _gateway_ended(self) -> None:
        which = self._which()
        self.fleet.end_gateway(which, signal.SIGTERM)
        self.fleet.start_gateway(which)

    def _gateway_stopped(self) -> None:
        gateway = self.fleet.gateways[self._which()]
        assert gateway is not None
        self.stopped(gateway)

    # --- the runtime --------------------------------------------------------------

    def _runtime_killed(self) -> None:
        self.replace_runtime(signal.SIGKILL)

    def _runtime_stopped(self) -> None:
        assert self.fleet.runtime is not None
        self.stopped(self.fleet.runtime)

    def _runtime_killed_gateway_stopped(self) -> None:
        gateway = self.fleet.gateways[self._which()]
        assert gateway is not None
        gateway.signal(signal.SIGSTOP)
        self.replace_runtime(signal.SIGKILL)
        gateway.signal(signal.SIGCONT)

    def _everything_killed(self) -> None:
        for which in (0, 1):
            self.fleet.end_gateway(which, signal.SIGKILL)
        self.replace_runtime(signal.SIGKILL)
        for which in (0, 1):
            self.fleet.start_gateway(which)

    def _socket_removed(self) -> None:
        """The next runtime makes another; the one without serves who is connected."""
        for name in ("service.sock", "watch.sock"):
            (self.fleet.state / name).unlink()
        self.still()
        self.replace_runtime(self.chance.choice((signal.SIGKILL, signal.SIGTERM)))

    def _socket_moved_away(self) -> None:
        path = self.fleet.state / "service.sock"
        away = path.with_suffix(".away")
        path.rename(away)
        self.still()
        away.rename(path)

    def replace_runtime(self, number: signal.Signals) -> None:
        """End it, look at what it left, and start the next."""
        self.fleet.end_runtime(number)
        self.on_death()
        self.fleet.start_runtime()

    def _decoders_killed(self) -> None:
        """Costs the image that is decoded, and nothing else."""
        deadline = time.monotonic() + self.chance.uniform(*self.still_seconds)
        killed = 0
        while not killed or time.monotonic() < deadline:
            killed += self.fleet.kill_decoders()
            if time.monotonic() > deadline + FULL_SECONDS:
                self.book.fault("there was no decoder to kill")
                return
            time.sleep(DECODER_PAUSE)
        self.book.saw("decoders killed", killed)

    # --- the disk -----------------------------------------------------------------

    def _disk_full(self) -> None:
        process = self.fleet.runtime
        assert process is not None
        before = process.text().count(CANNOT), process.text().count(AGAIN)
        self.fleet.fill_disk()
        try:
            met = self.book.wait(
                lambda: process.text().count(CANNOT) > before[0],
                FULL_SECONDS,
                "the store meets a full disk",
            )
            self.still()
        finally:
            self.fleet.clear_disk()
        if met:
            self.book.wait(
                lambda: process.text().count(AGAIN) > before[1],
                WELL_SECONDS,
                "the store writes again",
            )

    def _store_capped(self) -> None:
        """
        A cap that uploads run against, lower each time that removals were faster; the
        next runtime has room again.
        """
        if not any(self._meets_cap() for _ in range(CAPS_MAX)):
            self.book.fault(f"{CAPS_MAX} times the store did not meet its cap")
        self.still()
        self.fleet.set_store_bytes(STORE_BYTES)
        self.replace_runtime(self.chance.choice((signal.SIGKILL, signal.SIGTERM)))

    def _meets_cap(self) -> bool:
        """Whether a cap just above what is there now is met within CAP_SECONDS."""
        self.fleet.set_store_bytes(cap_above(self.fleet.store_bytes()))
        self.replace_runtime(signal.SIGTERM)
        process = self.fleet.runtime
        assert process is not None
        deadline = time.monotonic() + CAP_SECONDS
        while CANNOT not in process.text() and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        return CANNOT in process.text()

    # --- parts of them ------------------------------------------------------------

    def still(self) -> None:
        """As long as things stand still."""
        time.sleep(self.chance.uniform(*self.still_seconds))

    def stopped(self, process: Process) -> None:
        """SIGSTOP for a while."""
        process.signal(signal.SIGSTOP)
        self.still()
        process.signal(signal.SIGCONT)


def cap_above(used: int) -> int:
    """`store_bytes` under which *used* bytes leave ROOM_BYTES for sources."""
    wanted = used + ROOM_BYTES
    return min(wanted + RESERVE_BYTES, wanted * 4 // 3)


def _says(process: Process, line: str, times: int) -> bool:
    return process.text().count(line) >= times


def _is_ready(line: Line) -> bool:
    try:
        return line.call("GET", "/readyz").status == 200
    except (Gone, Silent):
        return False
