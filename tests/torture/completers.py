"""
Clients of the standard route. What breaks off is followed as a native request: it runs
on (`completions.disconnect` is `detach`), and its name is in the answer's header.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import Any, Final

import attrs

from tests.torture.clients import Client
from tests.torture.expected import ANSWERING, Task
from tests.torture.histories import History, Reading, State
from tests.torture.statuses import body_of
from tests.torture.talk import Gone, Silent

COMPLETIONS: Final = "/v1/chat/completions"


@attrs.define
class Completer(Client):
    """
    Completions, streamed or not, some left in the middle.
    """

    def task(self) -> Task:
        """Text only: other bytes would be replaced in an answer."""
        number = self.chance.randrange(12)
        text = f"Completer {self.number} wonders about {number}, again and again."
        return Task(ANSWERING, text, self.chance.choice((10, 60, 500)))

    def one(self) -> None:
        """One completion, and what is left of it natively."""
        task = self.task()
        history = History(self.number, task, time.monotonic())
        is_stream = self.chance.random() < 0.6
        body = body_of(task) | {"stream": is_stream}
        if is_stream:
            body["stream_options"] = {"include_usage": True}
        reading = Reading("completion", history.asked)
        try:
            self._ask(history, reading, body)
        except Gone:
            if self.is_calm(reading.asked, time.monotonic()):
                self.book.fault(f"client {self.number}: a completion was lost")
            self.book.saw("answers broken off")
            self.pause(0.05, 0.3)
        reading.answered = history.answered = time.monotonic()
        if reading.status == 429:
            return
        self.book.write(history)
        if reading.status != 200:
            # Whether it was admitted nobody knows: an id is chosen before that.
            history.handle = None
        if history.handle is None:
            return
        history.readings.append(reading)
        if history.end is None:
            self.book.saw("completions followed natively")
            self.follow(history)
        else:
            self.book.ended("completed 0")

    def _ask(self, history: History, reading: Reading, body: dict[str, Any]) -> None:
        line = self.line()
        answer, _ = line.open("POST", COMPLETIONS, body)
        history.handle = answer.getheader("X-Request-ID")
        reading.status = answer.status
        try:
            if answer.status != 200:
                self._refused(reading, answer)
            elif body["stream"]:
                self._stream(reading, answer)
            else:
                _whole(reading, json.loads(answer.read()))
        except TimeoutError:
            raise Silent("a completion") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Gone from error
        finally:
            # A line that broke, or was left, is of no more use.
            line.close()

    def _refused(self, reading: Reading, answer: http.client.HTTPResponse) -> None:
        reading.code = json.loads(answer.read())["error"]["code"]
        self.book.saw(f"told to wait, {reading.status} {reading.code}")
        # 410: the epoch ended while it ran; 404: displaced before it was read.
        if reading.status not in (410, 429, 503):
            told = f"{reading.status} {reading.code}"
            self.book.fault(f"client {self.number}: a completion was answered {told}")
        if self.is_calm(reading.asked, time.monotonic()):
            told = f"{reading.status} {reading.code}"
            self.book.fault(f"client {self.number}: completion: {told} in calm weather")
        self.pause(0.05, 0.3)

    def _stream(self, reading: Reading, answer: http.client.HTTPResponse) -> None:
        leaves_after = self.chance.choice((None, None, self.chance.randint(1, 30)))
        finish: str | None = None
        at = 0
        for line in answer:
            if not line.startswith(b"data: {"):
                if line == b"data: [DONE]\n":
                    reading.is_over = True
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                reading.code = chunk["error"]["code"]
                return
            for choice in chunk["choices"]:
                finish = choice["finish_reason"] or finish
                data = choice["delta"].get("content", "").encode()
                if data:
                    reading.pieces.append((at, data))
                    at += len(data)
            if chunk["usage"] is not None:
                reading.states.append(_end(chunk["usage"], finish))
            if len(reading.pieces) == leaves_after:
                self.book.saw("completions left by their client")
                return
        if not reading.is_over:
            # Cut: whatever stood in for an end was not one.
            reading.states.clear()


def _whole(reading: Reading, body: dict[str, Any]) -> None:
    (choice,) = body["choices"]
    data = choice["message"]["content"].encode()
    if data:
        reading.pieces.append((0, data))
    reading.states.append(_end(body["usage"], choice["finish_reason"]))
    reading.is_over = True


def _end(usage: dict[str, int], finish: str | None) -> State:
    """What a completion tells of a request that completed."""
    prompt, tokens = usage["prompt_tokens"], usage["completion_tokens"]
    return State("completed", False, 0, prompt, tokens, finish)
