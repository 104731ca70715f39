"""
Packet clients of a running runtime, and what they ask.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from twisted_aotx.client import Caller, DeviceClient, Window
from twisted_aotx.wire.numbers import TERMINAL_PHASES, MessageRole, Role
from twisted_aotx.wire.requests import Message, Submission, TextPart

T = TypeVar("T")
R = TypeVar("R")
_reactor: Any = reactor

#: The principal that `aotx init` makes.
FIRST = Caller(principal=bytes(15) + b"\x01", revision=1)
#: Seconds between two looks at a request.
LOOK_SECONDS = 0.01
#: Seconds after which a request that has not ended is a failure.
PATIENCE = 60.0


def greedy(text: str, limit: int) -> Submission:
    """One user message, answered without chance."""
    return Submission(
        role=Role.LANGUAGE,
        limit=limit,
        temperature=0.0,
        top_p=1.0,
        messages=(Message(MessageRole.USER, (TextPart(text.encode()),)),),
    )


@attrs.frozen
class Result:
    """
    How a request ended.
    """

    phase: int
    finish: int
    failure_status: int
    prompt_tokens: int
    sampled_tokens: int
    data: bytes


@attrs.frozen
class Peer:
    """
    A client, for one principal, in the device's current epoch.
    """

    client: DeviceClient
    caller: Caller
    epoch: int

    async def submit(self, submission: Submission) -> bytes:
        """Admit it under a fresh id, which is returned."""
        request_id = os.urandom(16)
        await self.client.submit(self.caller, self.epoch, request_id, submission)
        return request_id

    async def read(self, request_id: bytes, cursor: int = 0) -> Window:
        return await self.client.read(self.caller, self.epoch, request_id, cursor)

    async def cancel(self, request_id: bytes) -> Window:
        return await self.client.cancel(self.caller, self.epoch, request_id)

    async def result(self, request_id: bytes) -> Result:
        """Read until it has ended and every byte is here."""
        deadline = _reactor.seconds() + PATIENCE
        data = b""
        while True:
            window = await self.read(request_id, len(data))
            data += window.data
            reply = window.reply
            if reply.phase in TERMINAL_PHASES and len(data) == reply.total_bytes:
                return Result(
                    phase=reply.phase,
                    finish=reply.finish,
                    failure_status=reply.failure_status,
                    prompt_tokens=reply.prompt_tokens,
                    sampled_tokens=reply.sampled_tokens,
                    data=data,
                )
            assert _reactor.seconds() < deadline, f"phase {reply.phase} for too long"
            if not window.data:
                await pause(LOOK_SECONDS)

    async def run(self, submission: Submission) -> Result:
        return await self.result(await self.submit(submission))


@asynccontextmanager
async def peer(socket: str, caller: Caller = FIRST) -> AsyncIterator[Peer]:
    """A peer of the runtime at *socket*."""
    client = DeviceClient(_reactor, socket, connections_max=64, waiters_max=4096)
    try:
        yield Peer(client, caller, (await client.info(caller)).epoch)
    finally:
        await client.close()


async def pause(seconds: float) -> None:
    await deferLater(_reactor, seconds)


async def all_of(
    function: Callable[[T], Awaitable[R]], items: list[T], *, at_once: int
) -> list[R]:
    """*function* of every item, at most *at_once* at a time, in the order of items."""
    results: dict[int, R] = {}
    waiting = list(enumerate(items))[::-1]

    async def work() -> None:
        while waiting:
            index, item = waiting.pop()
            results[index] = await function(item)

    workers = [Deferred.fromCoroutine(work()) for _ in range(at_once)]
    await gatherResults(workers, consumeErrors=True)
    return [results[index] for index in range(len(items))]
