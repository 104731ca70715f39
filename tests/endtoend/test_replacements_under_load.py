"""
64 clients of two gateways while grants are replaced at random (`device.md` §2).

Between the device's acknowledgement of a table and the gateways' reload nobody can be
admitted, so the tables stand still and can be looked at whole.

`AOTX_FULL=1` replaces them 200 times.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import attrs
import pytest
import treq
from twisted.internet.defer import Deferred, gatherResults
from twisted.web.client import ResponseFailed

from tests.asynchronous import asynchronous
from tests.endtoend.http_client import Http
from tests.endtoend.peers import pause
from tests.endtoend.replacing import (
    MODEL,
    TOKENS,
    Operator,
    Principal,
    deployment,
    entries_of,
    invariants_hold,
    media_of_all,
    random_entries,
)
from tests.media_made import make_wav
from twisted_aotx.limits import Capacities
from twisted_aotx.wire.handles import RequestHandle
from twisted_aotx.wire.numbers import TERMINAL_PHASES, Phase

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CLIENTS = 64
REPLACEMENTS = 200 if "AOTX_FULL" in os.environ else 20
#: Tokens per second of the engine: the last requests run for five seconds.
RATE = 20
SLOTS = Capacities().slots - 1
ENTRIES = Capacities().requests
ACTIVE = (Phase.QUEUED, Phase.PREPARING, Phase.RUNNING)
#: What a caller may be told: gone or without the model, quota, revoked, and 503 once
#: while connections are made anew.
REFUSALS = {400, 401, 403, 404, 429, 503}


@attrs.define
class Made:
    """
    A request that was admitted.
    """

    owner: Principal
    request_id: bytes
    #: When it was asked for (CLOCK_MONOTONIC, ns).
    asked_ns: int
    asked_to_end: bool = False


@attrs.define
class Load:
    """
    Clients that submit, stream, cancel and look, until they are told to stop.
    """

    operator: Operator
    http: Http = attrs.field(factory=Http)
    seen: Counter[tuple[str, object]] = attrs.field(factory=Counter)
    #: Of the tables so far that have not been judged.
    made: list[Made] = attrs.field(factory=list)
    admitted: int = 0
    #: Asked after an acknowledgement, taken before a gateway heard of it.
    late: list[Made] = attrs.field(factory=list)
    stopped: bool = False

    async def run(self, index: int) -> None:
        chance = random.Random(index)
        owner = self.operator.principals[index % len(self.operator.principals)]
        while not self.stopped:
            try:
                await self._one(owner, chance)
            except ResponseFailed:
                self.seen["submit", "broken off"] += 1
            await pause(0.05 * chance.random())

    async def _one(self, owner: Principal, chance: random.Random) -> None:
        path = "/aotx/v1/requests"
        content: list[dict[str, Any]] = [
            {"type": "text", "text": f"number {chance.random()}"}
        ]
        if chance.random() < 0.3:
            source = await self._upload(owner, chance)
            if source is None:
                return
            content.append({"type": "media", "media_id": source, "modality": "audio"})
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": chance.randint(1, TOKENS // 4),
            "temperature": 0,
        }
        asked_ns = time.monotonic_ns()
        url = chance.choice(self.operator.urls)
        status, answer = await self.http.ask(url + path, owner.token, body)
        self._saw("submit", status)
        if status != 202:
            return
        handle = RequestHandle.parse(answer["id"])
        made = Made(owner, handle.id, asked_ns)
        self.made.append(made)
        self.admitted += 1
        if self.operator.is_between and asked_ns > self.operator.acknowledged_ns:
            self.late.append(made)
        url = f"{chance.choice(self.operator.urls)}{path}/{handle}"
        kind = chance.choice(("stream", "cancel", "look"))
        if kind == "stream":
            await self._stream(url, owner)
            return
        if kind == "cancel":
            await pause(0.3 * chance.random())
            made.asked_to_end = True
            status, _ = await self.http.ask(url + "/cancel", owner.token, {})
            self._saw("cancel", status)
        while status in (200, 202) and not self.stopped:
            status, answer = await self.http.ask(url, owner.token)
            self._saw("look", status)
            if answer.get("state") in ("completed", "cancelled"):
                return
            await pause(0.1)

    async def _upload(self, owner: Principal, chance: random.Random) -> str | None:
        """The handle of a new source; None if there is none, or none any more."""
        url = chance.choice(self.operator.urls) + "/aotx/v1/media"
        wav = make_wav(chance.randint(330, 400), seed=chance.getrandbits(30))
        status, answer = await self.http.upload(url, owner.token, wav)
        self._saw("upload", status)
        if status != 201:
            return None
        source: str = answer["id"]
        if chance.random() < 0.3:
            status = await self.http.delete(f"{url}/{source}", owner.token)
            self._saw("delete", status)
            return None
        return source

    async def _stream(self, url: str, owner: Principal) -> None:
        answer = await self.http.open(url + "/events", owner.token)
        self._saw("stream", answer.code)
        text: list[bytes] = []
        await treq.collect(answer, text.append)
        if answer.code == 200:
            last = b"".join(text).split(b"\n\n")[-2]
            assert last.startswith((b"event: error", b"event: status")), last
            self.seen["stream", last.split(b"\n")[0].decode()] += 1

    def _saw(self, what: str, status: int) -> None:
        assert status in REFUSALS | {200, 201, 202, 204}, (what, status)
        self.seen[what, status] += 1


async def judge(operator: Operator, load: Load, seen: Counter[str]) -> None:
    """What the tables must be while a table is in force that no gateway knows."""
    await invariants_hold(operator.runtime.device)
    entries = entries_of(operator)
    for entry in entries.values():
        assert entry.revision < operator.revision
        assert entry.opened_ns <= operator.acknowledged_ns
        assert entry.phase in TERMINAL_PHASES
        if entry.status != 403:
            # It had already ended.
            assert entry.changed_ns <= operator.acknowledged_ns
    for made in load.made:
        found = entries.get((made.owner.id, made.request_id))
        if found is None:
            # Reclaimed, so it had ended before the last that were admitted.
            seen["reclaimed"] += 1
            continue
        end = (found.phase, found.status)
        allowed = [(Phase.COMPLETED, 0), (Phase.CANCELLED, 403)]
        allowed += [(Phase.CANCELLED, 409)] * made.asked_to_end
        assert end in allowed, (end, made)
        seen[f"{found.phase} {found.status}"] += 1
    load.made.clear()


async def replace(operator: Operator, entries: list[dict[str, Any]]) -> None:
    operator.write(entries)
    await operator.have_runtime_reload()
    await operator.have_gateways_reload()


async def statuses_of(
    operator: Operator, http: Http, owner: Principal, count: int
) -> list[int]:
    """Of *count* submissions, one after the other, at the gateways in turn."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": TOKENS,
        "temperature": 0,
    }
    found = []
    for _, url in zip(range(count), cycle(operator.urls), strict=False):
        status, _ = await http.ask(f"{url}/aotx/v1/requests", owner.token, body)
        found.append(status)
    return found


async def free_of_leftovers(operator: Operator) -> None:
    """Nothing active, no slot taken, every entry in its list."""
    await operator.settle()
    stats = operator.runtime.device.stats()
    assert (stats.leases, stats.queued) == (0, 0)
    await invariants_hold(operator.runtime.device)
    assert all(e.phase not in ACTIVE for e in entries_of(operator).values())


@asynchronous
async def test_nothing_leaks_and_nothing_is_admitted_late(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with deployment(tmp_path, rate=RATE) as operator:
        load = Load(operator)
        running = [Deferred.fromCoroutine(load.run(index)) for index in range(CLIENTS)]
        ends: Counter[str] = Counter()
        try:
            for _ in range(REPLACEMENTS):
                await pause(0.5 * chance.random())
                operator.write(random_entries(operator.principals, chance))
                await operator.have_runtime_reload()
                # Clients go on meanwhile.
                await operator.settle()
                await judge(operator, load, ends)
                await operator.have_gateways_reload()
        finally:
            load.stopped = True
            await gatherResults(running, consumeErrors=True)

        assert load.late == []
        assert load.admitted > REPLACEMENTS * 5
        statuses = {status for kind, status in load.seen if kind == "submit"}
        assert statuses >= {202, 401, 403, 404, 429}, load.seen
        kinds = {("stream", "event: error"), ("stream", "event: status")}
        assert kinds | {("cancel", 200), ("upload", 201)} <= set(load.seen), load.seen
        assert {"4 0", "6 403", "6 409"} <= set(ends), ends

        http = Http()
        quotas = {owner: 1 + owner.number % 5 for owner in operator.principals}
        assert sum(quotas.values()) <= SLOTS
        await replace(
            operator,
            [owner.entry(requests=quota) for owner, quota in quotas.items()],
        )
        await free_of_leftovers(operator)
        await media_of_all(operator, http)
        for owner, quota in quotas.items():
            found = await statuses_of(operator, http, owner, quota + 1)
            assert found == [202] * quota + [429], owner
        # With one principal that may have as many active requests as there are
        # entries, every entry and every slot is to be had.
        (first, *_) = operator.principals
        await replace(operator, [first.entry(requests=ENTRIES)])
        await free_of_leftovers(operator)
        found = await statuses_of(operator, http, first, ENTRIES + 1)
        assert found == [202] * ENTRIES + [429]
        stats = operator.runtime.device.stats()
        assert (stats.leases, stats.queued) == (SLOTS, ENTRIES - SLOTS)
        await invariants_hold(operator.runtime.device)
        await http.pool.closeCachedConnections()
        await load.http.pool.closeCachedConnections()
