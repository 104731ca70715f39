"""
The whole of it: calm weather, rounds of fire, a flood, and calm weather again.

After each part everything is brought to rest and judged: histories, ledger, sources,
old epochs, descriptors, threads, memory.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path
from typing import Final

import attrs

from tests.endtoend.calls import call
from tests.torture import checks
from tests.torture.book import Book
from tests.torture.clients import Client
from tests.torture.completers import Completer
from tests.torture.deployment import Deployment
from tests.torture.expected import Oracle
from tests.torture.fires import BETWEEN, KINDS, STILL_SECONDS, Fires
from tests.torture.fleet import Fleet
from tests.torture.flood import Flood, affordable, flood_packets
from tests.torture.following import FOLLOW_SECONDS
from tests.torture.histories import History, Life, World, judge
from tests.torture.ledgers import Ledger, judge_ledger, ledger_of
from tests.torture.levels import Level, leaks, quiet, settled
from tests.torture.rude import Rude
from tests.torture.uploaders import Uploader

#: What clients are, in turn.
ROLES: Final = (
    "follower",
    "uploader",
    "poller",
    "completer",
    "canceller",
    "follower",
    "rude",
    "follower",
)
#: Seconds of a storm without a fire, of a round, and of what a flood is watched from.
CALM_SECONDS, ROUND_SECONDS, FLOODED_SECONDS = 25.0, 150.0, 10.0
#: Seconds between two reloads.
RELOAD_PAUSE: Final = 1.0
#: Uploads until there was one of each kind.
UPLOADS_MAX: Final = 100
#: `device.channels` of the runtime, which every deployment here has.
CHANNELS: Final = 128


@attrs.frozen(kw_only=True)
class Plan:
    """
    How much of what.
    """

    clients: int
    seed: int
    #: Until when fires are lit, from the first one on; or how many of them.
    seconds: float = float("inf")
    fires: float = float("inf")
    #: `device.requests`.
    requests: int
    flood: int
    calm_seconds: float = CALM_SECONDS
    round_seconds: float = ROUND_SECONDS
    kinds: tuple[str, ...] = KINDS
    #: Least and most seconds for which something stands still, and requests that are
    #: done between two fires.
    still_seconds: tuple[float, float] = STILL_SECONDS
    between: tuple[int, int] = BETWEEN


@attrs.define
class Battle:
    """
    One run; `run` returns when it is over, or something is wrong.
    """

    folder: Path
    plan: Plan
    book: Book = attrs.field(factory=Book)
    oracle: Oracle = attrs.field(factory=Oracle)
    levels: dict[str, Level] = attrs.field(factory=dict)
    #: At the end: level by process.
    last_levels: dict[str, Level] = attrs.field(factory=dict)
    part: str = "start"
    fleet: Fleet = attrs.field(init=False)
    clients: list[Client] = attrs.field(init=False)
    fires: Fires = attrs.field(init=False)
    _chance: random.Random = attrs.field(init=False)
    _ledger: Ledger = attrs.field(factory=dict)
    #: Of runtimes that died in this round, with what their ledger was then.
    _deaths: list[tuple[Life, Ledger]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self._chance = random.Random(plan.seed)
        self.fleet = Fleet(Deployment.make(self.folder, plan.clients, plan.requests))
        self.clients = [self._client(number) for number in range(plan.clients)]
        self.fires = Fires(
            self.fleet,
            self.book,
            self._chance,
            self._died,
            kinds=plan.kinds,
            still_seconds=plan.still_seconds,
            between=plan.between,
        )

    def _client(self, index: int) -> Client:
        account = self.fleet.deployment.accounts[index]
        role = ROLES[index % len(ROLES)]
        kinds = {"uploader": Uploader, "completer": Completer, "rude": Rude}
        client: Client = kinds.get(role, Client)(
            number=account.number,
            role=role,
            token=account.token,
            urls=self.fleet.urls,
            book=self.book,
            chance=random.Random(1000 * self.plan.seed + account.number),
            is_calm=self.fleet.is_calm,
        )
        if isinstance(client, Uploader):
            client.may_lose_image = self.fleet.may_lose_image
        if isinstance(client, Rude):
            client.pid_of = self.fleet.pid_of
            client.packet_socket = str(self.fleet.state / "service.sock")
        return client

    @property
    def uploaders(self) -> list[Uploader]:
        return [each for each in self.clients if isinstance(each, Uploader)]

    # --- the course of it ---------------------------------------------------------

    def run(self) -> None:
        """All parts, until the time is over or something is wrong."""
        try:
            self._begin()
            self._storm("calm", time.monotonic() + self.plan.calm_seconds)
            running = self.fleet.running()
            found = quiet([process.popen.pid for process in running.values()])
            self.levels = dict(zip(running, found, strict=True))
            until = time.monotonic() + self.plan.seconds
            while not (self._is_over(until) or self.book.faults):
                end = min(until, time.monotonic() + self.plan.round_seconds)
                self._storm("fire", end, burning=True)
                self._look_at_levels()
            if not self.book.faults:
                self._flood()
                self._look_at_levels()
            if not self.book.faults:
                self._end()
        except Exception as error:
            self.book.fault(f"{self.part}: {error!r}")
        finally:
            self.fleet.end()
        self.book.fault(*self.fleet.complaints())

    def _begin(self) -> None:
        with self.fleet.trouble():
            self.fleet.start_runtime()
            for which in (0, 1):
                self.fleet.start_gateway(which)
            headers = {"Authorization": f"Bearer {self.fleet.deployment.watcher.token}"}
            url = f"{self.fleet.urls[0]}/aotx/v1/policy"
            policy = call(url, headers).body
            body = {"action": "review_on"}
            body |= {key: policy[key] for key in ("epoch", "control_revision")}
            answer = call(url, headers, body)
            assert answer.status == 200, answer
            self._compile()
        self.fleet.troubles.clear()

    def _compile(self) -> None:
        """
        Have every kernel compiled, those that restore included, and begin with a
        process that did not compile them: it takes memory.
        """
        for uploader in self.uploaders[:1]:
            for _ in range(UPLOADS_MAX):
                if len({each.kind for each in uploader.shelf.ready.values()}) == 2:
                    break
                uploader.upload()
            # Else they are closed meanwhile as unused.
            for line in uploader.lines:
                line.close()
        for _ in range(2):
            self.fleet.end_runtime(signal.SIGTERM)
            self.fleet.start_runtime()
        self.fires.well()

    def _is_over(self, until: float) -> bool:
        """Whether there were as many fires as there are to be, or it is *until*."""
        return self.fires.lit >= self.plan.fires or time.monotonic() >= until

    def _storm(self, part: str, until: float, *, burning: bool = False) -> None:
        """Clients at work until then, then rest and judgement."""
        self.part = part
        threads = self._set_to_work()
        if burning:
            self.fires.until(lambda: self._is_over(until))
        else:
            while time.monotonic() < until and not self.book.faults:
                self.fires.reload()
                time.sleep(RELOAD_PAUSE)
        self._finish(threads)

    def _set_to_work(self) -> list[threading.Thread]:
        self.book.stopping.clear()
        threads = [
            threading.Thread(target=client.run, name=client.role, daemon=True)
            for client in self.clients
        ]
        for thread in threads:
            thread.start()
        return threads

    def _finish(self, threads: list[threading.Thread]) -> None:
        self.part = "rest"
        self.book.stopping.set()
        deadline = time.monotonic() + FOLLOW_SECONDS + 30
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self.book.fault(f"a {thread.name} that does not come to its end")
        if self.book.faults:
            return
        checks.at_rest(self.fleet, self.book)
        self._judge(self.book.taken())

    def _judge(self, histories: list[History]) -> None:
        self.part = "judgement"
        world = World(self.fleet.lives, self.oracle, self.plan.requests)
        self.book.fault(*judge(histories, world))
        for history in histories:
            for reading in history.readings:
                self.book.saw("bytes compared", sum(len(x) for _, x in reading.pieces))
        self.book.saw("histories judged", len(histories))
        for life, ledger in self._deaths:
            self._judge_ledger(ledger, histories, life, complete=False)
        self._deaths.clear()
        now = ledger_of(self.fleet.state)
        self._judge_ledger(now, histories, self.fleet.life, complete=True)
        checks.shelves(self.fleet, self.book, self.uploaders)
        checks.old_epochs(self.fleet, self.book, histories, self._chance)

    def _judge_ledger(
        self, now: Ledger, histories: list[History], life: Life, *, complete: bool
    ) -> None:
        wrong = judge_ledger(
            self._ledger, now, histories, life, self.oracle, complete=complete
        )
        self.book.fault(*wrong)
        self._ledger = now
        self.book.saw("ledgers judged")

    def _died(self) -> None:
        """Between two runtimes."""
        self._deaths.append((self.fleet.life, ledger_of(self.fleet.state)))
        checks.store(self.fleet, self.book, self.uploaders)

    def _look_at_levels(self) -> None:
        """Every process is back where it was in calm weather."""
        self.part = "levels"
        if self.book.faults:
            return
        for name, process in self.fleet.running().items():
            before = self.levels[name]
            after = settled(process.popen.pid, before)
            self.last_levels[name] = after
            self.book.fault(*(f"{name}: {leak}" for leak in leaks(before, after)))

    def _flood(self) -> None:
        """Idle connections by the thousand, while clients are at work elsewhere."""
        self.part = "flood"
        count = affordable(self.plan.flood)
        with self.fleet.trouble():
            threads = self._set_to_work()
            flooded = Flood(self.fleet.urls[0], count).run()
            for end, many in flooded.ends.items():
                self.book.saw(f"flood: {end}", many)
            closed = flooded.ends["closed"] + flooded.ends["reset"]
            if closed != count:
                self.book.fault(f"a flood of {count}: {dict(flooded.ends)}")
            self.fires.well()
            path = str(self.fleet.state / "service.sock")
            ends = flood_packets(path, count // 5, CHANNELS)
            for end, many in ends.items():
                self.book.saw(f"flood of packets: {end}", many)
            if ends["closed"] + ends["reset"] + ends["left open"] != count // 5:
                self.book.fault(f"a flood of packets: {dict(ends)}")
            self.fires.well()
        self._finish(threads)

    def _end(self) -> None:
        """Everything stops in order; what was counted is what was."""
        self.part = "end"
        for which in (0, 1):
            self.fleet.end_gateway(which, signal.SIGTERM)
        self.fleet.end_runtime(signal.SIGTERM)
        checks.store(self.fleet, self.book, self.uploaders)
        if ledger_of(self.fleet.state) != self._ledger:
            self.book.fault("the ledger changed while nothing was asked")
