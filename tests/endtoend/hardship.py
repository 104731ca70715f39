"""
Many requests against a llama engine, some cancelled, some left by their clients, while
its child is killed; and what each of them may come to.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from tests.endtoend.conftest import Service
from tests.endtoend.peers import Peer, Result, all_of, greedy, pause
from twisted_aotx.client import Window
from twisted_aotx.errors import DeviceRefused
from twisted_aotx.wire.numbers import Finish, Phase, Status

REQUESTS = 64
AT_ONCE = 12
CAPACITY = 8
#: The child is killed when so many requests have completed.
KILLS = (4, 10)


@attrs.frozen
class Question:
    """
    What is asked, at temperature 0, and what is answered if nobody ends it.
    """

    text: str
    limit: int
    whole: Result


def children(pid: int) -> list[int]:
    """The child processes that *pid*'s threads have started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def kill_the_child(service: Service) -> None:
    """And wait until the next one serves."""
    (pid,) = children(service.process.popen.pid)
    times = service.process.text().count("is back")
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while service.process.text().count("is back") == times:
        assert time.monotonic() < deadline, service.process
        time.sleep(0.02)


@attrs.define
class Hardship:
    """
    REQUESTS against one service, and how each of them ended.
    """

    service: Service
    device: Peer
    model: str
    question: Callable[[int], Question]
    chance: random.Random = attrs.field(factory=lambda: random.Random(7))
    outcomes: Counter[str] = attrs.field(factory=Counter)
    #: SUBMITs refused because the role was inactive.
    refused: int = 0

    async def run(self) -> None:
        """All of them, with a kill at each of KILLS."""

        def kill() -> None:
            for completed in KILLS:
                while self.outcomes["COMPLETED 0"] < completed:
                    time.sleep(0.01)
                kill_the_child(self.service)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        await all_of(self.one, list(range(REQUESTS)), at_once=AT_ONCE)
        while killer.is_alive():
            await pause(0.1)
        assert sum(self.outcomes.values()) == REQUESTS
        assert self.outcomes["COMPLETED 0"] >= KILLS[-1], self.outcomes
        assert self.outcomes["CANCELLED 409"] >= 8, self.outcomes
        assert self.outcomes["CANCELLED 503"] >= 1, self.outcomes
        log = self.service.process.text()
        assert log.count("was ended by SIGKILL") == len(KILLS)
        assert "broke the rules" not in log
        # The last kill may have met the last that was to complete.
        again = self.question(0)
        assert await self.device.result(await self.submit(again)) == again.whole

    async def one(self, number: int) -> None:
        question = self.question(number)
        ends = self.chance.choice(["whole", "whole", "cancel", "cancel", "leave"])
        if ends == "leave":
            request_id = await self.leave(question)
        else:
            request_id = await self.submit(question)
            if ends == "cancel":
                await pause(self.chance.random() * 0.5)
                await self.device.cancel(request_id)
        result = await self.device.result(request_id)
        self.check(result, question.whole, asked_to_end=ends != "whole")

    async def submit(self, question: Question) -> bytes:
        while True:
            try:
                return await self.device.submit(greedy(question.text, question.limit))
            except DeviceRefused as error:
                if error.status != Status.NOT_FOUND:
                    raise
                # `device.md` §10: the role is not active until the engine is back.
                self.refused += 1
                await pause(0.05)

    async def leave(self, question: Question) -> bytes:
        """A completion whose client goes away in the middle; the request's id."""
        while True:
            stream = Stream(self.service, self.model, question)
            while not stream.is_over and stream.chunks < 8:
                await pause(0.01)
            stream.close()
            if stream.request_id is not None:
                return stream.request_id
            self.refused += 1
            await pause(0.05)

    def check(self, result: Result, whole: Result, *, asked_to_end: bool) -> None:
        """That the end is one that the tables allow (`device.md` §9)."""
        end = (Phase(result.phase), result.failure_status)
        if end == (Phase.COMPLETED, 0):
            assert result == whole
        else:
            # Killed under it: running, or preparing or queued; or we ended it.
            allowed = [(Phase.CANCELLED, 503), (Phase.FAILED, 503)]
            allowed += [(Phase.CANCELLED, 409)] * asked_to_end
            assert end in allowed, end
            assert result.finish == Finish.NONE
            assert whole.data.startswith(result.data)
            assert result.sampled_tokens <= whole.sampled_tokens
            assert result.prompt_tokens in (0, whole.prompt_tokens)
        self.outcomes[f"{end[0].name} {end[1]}"] += 1


class Stream:
    """
    A streamed completion, read by a thread until it is closed.
    """

    def __init__(self, service: Service, model: str, question: Question) -> None:
        self.chunks = 0
        self.is_over = False
        self.request_id: bytes | None = None
        self._connection = HTTPConnection(urlsplit(service.url).netloc, timeout=60)
        body = {
            "model": model,
            "messages": [{"role": "user", "content": question.text}],
            "max_tokens": question.limit,
            "temperature": 0,
            "stream": True,
        }
        headers = {**service.headers, "Content-Type": "application/json"}
        path = "/v1/chat/completions"
        self._connection.request("POST", path, json.dumps(body), headers)
        self._socket = self._connection.sock
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Reset the connection in the middle of whatever comes."""
        self._socket.shutdown(2)
        self._thread.join()
        self._connection.close()

    def _read(self) -> None:
        try:
            for line in self._connection.getresponse():
                if line.startswith(b"data: {"):
                    handle = json.loads(line[6:]).get("id", "")
                    if handle:
                        self.request_id = bytes.fromhex(
                            handle.removeprefix("chatcmpl-")
                        )
                    self.chunks += 1
        except (OSError, ValueError):
            pass
        self.is_over = True


async def every_sequence_is_free(device: Peer, question: Question) -> None:
    """As many run at once as there are, the next one waits, and all end alike."""
    ids = [await device.submit(greedy("Go on.", 1500)) for _ in range(CAPACITY + 1)]

    async def looked(request_id: bytes) -> Window:
        return await device.read(request_id)

    for _ in range(500):
        windows = await all_of(looked, ids, at_once=CAPACITY + 1)
        if all(window.reply.sampled_tokens for window in windows[:CAPACITY]):
            break
        await pause(0.02)
    phases = [window.reply.phase for window in windows]
    assert phases == [Phase.RUNNING] * CAPACITY + [Phase.QUEUED]
    for request_id in ids:
        await device.cancel(request_id)
        assert (await device.result(request_id)).phase == Phase.CANCELLED
    assert await device.run(greedy(question.text, question.limit)) == question.whole
