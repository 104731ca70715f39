"""
POST /v1/chat/completions, as JSON and as a stream (`http.md` §7). Layer 4.

1. Once a request is admitted every answer carries its X-Request-ID.
2. A client that leaves first detaches, or cancels exactly this request, as
   `completions.disconnect` says; both forms of answer behave alike [D20].
3. The time of a completion counts from its arrival; when it is up the request runs on.
4. A stream begins after the first successful READ; what fails later is a record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from twisted.logger import Logger

from twisted_aotx.client import Window
from twisted_aotx.errors import AOTXError
from twisted_aotx.gateway.admission import Admitted, admit
from twisted_aotx.gateway.forms import completion
from twisted_aotx.gateway.problems import ProblemCode, refusal
from twisted_aotx.gateway.resource import Answer, Call
from twisted_aotx.gateway.sse import DONE, EventStream, raw_bytes_max, record
from twisted_aotx.gateway.status import ended_badly, finish_reason, usage
from twisted_aotx.gateway.text import TextDecoder, decode
from twisted_aotx.gateway.waiting import ClientLeft, windows
from twisted_aotx.wire.handles import completion_id
from twisted_aotx.wire.packet import ReplyHeader


async def create(call: Call) -> Answer | None:
    """
    Admit the body and answer with its completion.
    """
    gateway = call.gateway
    deadline = gateway.reactor.seconds() + call.settings.limits.operation_seconds
    admitted = await admit(call, completion)
    if admitted is None:
        return None
    answering = _Completion(call, admitted)
    work = answering.stream() if admitted.form.stream else answering.whole()
    try:
        return await answering.events.carry(
            work, deadline=deadline, late=ProblemCode.RESPONSE_TIMEOUT
        )
    except ClientLeft:
        if call.settings.disconnect == "cancel":
            await answering.cancel()
        return None


class _Completion:
    """
    One admitted completion on its way to the client.
    """

    _log = Logger()

    def __init__(self, call: Call, admitted: Admitted) -> None:
        self.events = EventStream(call)
        self._call = call
        self._handle = admitted.handle
        self._form = admitted.form
        self._output_bytes = admitted.output_bytes
        self._created = int(call.gateway.wall_seconds())

    async def whole(self) -> Answer:
        """
        Wait for the end and answer with all of it.
        """
        pieces = []
        async for window in self._windows():
            self._check_size(window)
            pieces.append(window.data)
        reason = self._success(window.reply)
        message = {
            "role": "assistant",
            "content": decode(b"".join(pieces)),
            "refusal": None,
        }
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": reason,
            "logprobs": None,
        }
        body = self._object("chat.completion", [choice])
        return Answer(body=body | {"usage": usage(window.reply)})

    async def stream(self) -> None:
        """
        Send the records of `http.md` §7 as the output grows.
        """
        decoder = TextDecoder()
        step = raw_bytes_max(self._call.settings.limits.event_bytes)
        async for window in self._windows():
            if not self.events.begun:
                self.events.begin()
                await self._delta({"role": "assistant", "content": ""})
            self._check_size(window)
            for at in range(0, len(window.data), step):
                await self._text(decoder.feed(window.data[at : at + step]))
        reason = self._success(window.reply)
        await self._text(decoder.finish())
        await self._delta({}, reason)
        if self._form.include_usage:
            chunk = self._object("chat.completion.chunk", [])
            await self.events.send(record(chunk | {"usage": usage(window.reply)}))
        self.events.close(DONE)

    async def cancel(self) -> None:
        """
        Cancel exactly this request: its client has left [D20].
        """
        client, handle = self._call.gateway.client, self._handle
        try:
            await client.cancel(self._call.caller, handle.epoch, handle.id)
        except AOTXError as error:
            # It ends by itself, at the latest with the device's deadline.
            kind = type(error).__name__
            self._log.warn(
                "{handle} outlives its client: {kind}", handle=handle, kind=kind
            )

    def _windows(self) -> AsyncIterator[Window]:
        return windows(self._call.gateway, self._call.caller, self._handle, 0)

    async def _text(self, text: str) -> None:
        if text:
            await self._delta({"content": text})

    async def _delta(self, delta: dict[str, str], reason: str | None = None) -> None:
        choice = {
            "index": 0,
            "delta": delta,
            "finish_reason": reason,
            "logprobs": None,
        }
        chunk = self._object("chat.completion.chunk", [choice])
        if self._form.include_usage:
            chunk["usage"] = None
        await self.events.send(record(chunk))

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": completion_id(self._handle.id),
            "object": kind,
            "created": self._created,
            "model": self._form.model,
            "choices": choices,
        }

    def _check_size(self, window: Window) -> None:
        if window.reply.total_bytes > self._output_bytes:
            raise refusal(ProblemCode.OUTPUT_LIMIT)

    def _success(self, reply: ReplyHeader) -> str | None:
        """
        The finish reason of a request that ended well; else its problem is raised.
        """
        problem = ended_badly(reply)
        if problem is not None:
            raise problem
        return finish_reason(reply)
