"""
Clients of the native routes: they submit, follow, read, cancel, and come back.

Each client is a thread with a principal and a seed of its own. It speaks to either
gateway, and asks again after whatever may happen to an honest client under fire. What
it was told goes into histories; `histories` judges them later.
"""

from __future__ import annotations

import base64
import random
import time
from typing import Any, Final

import attrs

from tests.endtoend.streams import Event, EventStream
from tests.torture.book import Book
from tests.torture.expected import ANSWERING, RECITING, Source, Task
from tests.torture.histories import History, Reading, State
from tests.torture.talk import Answer, Gone, Line, Silent, reset

REQUESTS: Final = "/aotx/v1/requests"
#: Different prompts of each client.
PROMPTS: Final = 12
#: Seconds after which a request that has not ended is a fault: some kills long.
FOLLOW_SECONDS: Final = 240.0
#: Bytes of a slow reader's receive buffer.
NARROW_BYTES: Final = 2048
#: Pauses while a storm ends.
BRISK_SECONDS: Final = 0.05
#: Answers after which one asks again; the rest are faults.
AGAIN: Final = (429, 503)


@attrs.define
class Client:
    """
    One client; `role` is what it does with its requests.

    Attributes:
        is_calm: Tells whether there was no fire near (asked, answered).
    """

    number: int
    role: str
    token: str = attrs.field(repr=False)
    urls: tuple[str, ...]
    book: Book
    chance: random.Random
    is_calm: Any
    lines: list[Line] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.lines = [Line(url, self.token) for url in self.urls]

    def run(self) -> None:
        """Until the book says stop; a thread's body."""
        try:
            while not self.book.stopping.is_set():
                self.one()
        except Exception as error:
            self.book.fault(f"client {self.number} ({self.role}): {error!r}")
        finally:
            for line in self.lines:
                line.close()

    def one(self) -> None:
        """One request, to its end."""
        history = self.submit(self.task())
        if history is None:
            return
        if self.role == "canceller":
            self.pause(0.0, 1.0)
            self.cancel(history)
        self.follow(history)

    def task(self) -> Task:
        """What is asked."""
        number = self.chance.randrange(PROMPTS)
        text = f"Client {self.number} asks {number}: what comes after {number * 7919}?"
        if self.role == "follower" and self.chance.random() < 0.3:
            return Task(RECITING, text, self.chance.randint(1000, 7000))
        return Task(ANSWERING, text, self.chance.choice((20, 100, 1000)))

    def line(self) -> Line:
        """To either gateway."""
        return self.chance.choice(self.lines)

    def pause(self, least: float, most: float) -> None:
        """As long as people think; shorter while a storm ends."""
        if self.book.stopping.is_set():
            time.sleep(BRISK_SECONDS)
        else:
            self.book.stopping.wait(self.chance.uniform(least, most))

    # --- submitting ---------------------------------------------------------------

    def submit(self, task: Task) -> History | None:
        """POST it until it is admitted; None if the storm ends first."""
        while not self.book.stopping.is_set():
            history = History(self.number, task, time.monotonic())
            try:
                answer = self.line().call("POST", REQUESTS, body_of(task))
            except Gone:
                # Perhaps it was admitted: nobody knows its name now.
                self._lost(history)
                continue
            history.answered = answer.answered
            if answer.status == 202:
                history.handle = answer.body["id"]
                self.book.write(history)
                return history
            if answer.status == 503:
                self._lost(history)
            self.unless_again(answer, "a submission")
            if answer.status not in AGAIN:
                return None
        return None

    def _lost(self, history: History) -> None:
        history.answered = time.monotonic()
        if self.is_calm(history.asked, history.answered):
            self.book.fault(f"client {self.number}: a POST was lost in calm weather")
        self.book.write(history)
        self.book.saw("submissions without an answer")
        self.pause(0.05, 0.2)

    def unless_again(self, answer: Answer, what: str) -> None:
        """Wait before asking again; a fault if one must not."""
        told = f"{answer.status} {answer.code}"
        if answer.status not in AGAIN:
            self.book.fault(f"client {self.number}: {what} was answered {told}")
            return
        self.book.saw(f"told to wait, {told}")
        if "retry-after" not in answer.headers:
            self.book.fault(f"{what}: {answer.status} without Retry-After")
        if self.is_calm(answer.asked, answer.answered):
            self.book.fault(f"client {self.number}: {what}: {told} in calm weather")
        self.pause(0.05, 0.3)

    # --- following ----------------------------------------------------------------

    def follow(self, history: History) -> None:
        """Until it has ended, or its epoch has; also while a storm ends."""
        deadline = time.monotonic() + FOLLOW_SECONDS
        cursor, resumed = 0, 0
        while not (is_over(history)):
            if time.monotonic() > deadline:
                self.book.fault(f"{history.handle}: no end within {FOLLOW_SECONDS} s")
                return
            reads = self.role == "poller" or self.chance.random() < 0.1
            reading = (self.read if reads else self.watch)(history, cursor)
            if reading.status == 200:
                cursor = max(cursor, reading.reached)
                resumed += reading.how == "stream" and not is_over(history)
            elif reading.status in AGAIN:
                self.pause(0.05, 0.3)
        self.book.saw("streams resumed", resumed)
        end = history.end
        self.book.ended(f"{end.state} {end.status}" if end else "with its epoch")

    def read(self, history: History, cursor: int) -> Reading:
        """GET one window."""
        reading = Reading("read", time.monotonic(), cursor)
        query = f"?cursor={cursor}" if cursor else ""
        try:
            answer = self.line().call("GET", f"{REQUESTS}/{history.handle}{query}")
        except Gone:
            return self.broken(reading)
        told(reading, answer, cursor)
        self._judged(reading, answer)
        history.readings.append(reading)
        if reading.status == 200 and not reading.pieces:
            self.pause(0.02, 0.2)
        return reading

    def cancel(self, history: History) -> None:
        """POST its cancel until that is answered."""
        deadline = time.monotonic() + FOLLOW_SECONDS
        while time.monotonic() < deadline:
            reading = Reading("cancel", time.monotonic())
            history.cancels.append(reading.asked)
            path = f"{REQUESTS}/{history.handle}/cancel"
            try:
                answer = self.line().call("POST", path, {})
            except Gone:
                self.broken(reading)
                continue
            told(reading, answer, 0)
            self._judged(reading, answer)
            if answer.status not in AGAIN:
                history.readings.append(reading)
                return
            self.pause(0.05, 0.3)
        self.book.fault(f"{history.handle}: its cancel was never answered")

    def _judged(self, reading: Reading, answer: Answer) -> None:
        """What is wrong with the answer whatever the request does."""
        if reading.status in (404, 410):
            if answer.headers.get("x-should-retry") != "false":
                self.book.fault(f"{reading.status} without x-should-retry: false")
        elif reading.status != 200:
            self.unless_again(answer, reading.how)

    def broken(self, reading: Reading) -> Reading:
        """No answer: not wrong under fire."""
        reading.answered = time.monotonic()
        reading.status = 503
        if self.is_calm(reading.asked, reading.answered):
            what = f"client {self.number}: a {reading.how} broke in calm weather"
            self.book.fault(what)
        self.book.saw("answers broken off")
        self.pause(0.05, 0.3)
        return reading

    def watch(self, history: History, cursor: int) -> Reading:
        """GET its events until they end, break, or one has seen enough."""
        reading = Reading("stream", time.monotonic(), cursor)
        path = f"{REQUESTS}/{history.handle}/events"
        last_id, query = None, ""
        if cursor and self.chance.random() < 0.7:
            last_id = f"{history.handle}:{cursor}"
        elif cursor:
            query = f"?cursor={cursor}"
        slow = self.chance.random() < 0.1
        window = NARROW_BYTES if slow else None
        try:
            stream = self.line().stream(path + query, last_id, window)
        except Gone:
            return self.broken(reading)
        leaves_after = self.chance.choice((None, None, self.chance.randint(1, 40)))
        try:
            self._events(reading, stream, leaves_after, slow=slow)
        finally:
            stream.close()
        if reading.status == 200 or reading.status in (404, 410):
            history.readings.append(reading)
        elif reading.status not in AGAIN:
            what = f"a stream was answered {reading.status} {reading.code}"
            self.book.fault(f"{history.handle}: {what}")
        elif self.is_calm(reading.asked, reading.answered):
            self.book.fault(f"{history.handle}: {reading.status} in calm weather")
        return reading

    def _events(
        self,
        reading: Reading,
        stream: EventStream,
        leaves_after: int | None = None,
        *,
        slow: bool = False,
        may_break: bool = False,
    ) -> None:
        reading.status = stream.status
        try:
            if stream.status != 200:
                reading.code = stream.problem()["error"]["code"]
                return
            while (event := stream.next()) is not None:
                take(reading, event)
                if len(reading.pieces) == leaves_after:
                    self.book.saw("streams left by their client")
                    reset(stream.sock)
                    return
                if slow and len(reading.pieces) < 40:
                    time.sleep(0.05)
            reading.is_over = bool(reading.states and reading.states[-1].is_end)
            calm = self.is_calm(reading.asked, time.monotonic())
            if calm and not (reading.is_over or may_break):
                self.book.fault(f"client {self.number}: a stream broke in calm weather")
        except TimeoutError:
            raise Silent("a stream") from None
        except (OSError, ValueError):
            self.book.saw("answers broken off")
        finally:
            reading.answered = time.monotonic()


def is_over(history: History) -> bool:
    """Whether there is nothing more to come, and no byte that was not read."""
    if history.refused(410) or history.refused(404):
        return True
    return any(
        reading.states and reading.states[-1].is_end
        for reading in history.readings
        if reading.how != "cancel"
    )


def body_of(task: Task) -> dict[str, Any]:
    """The native request for it."""
    content: Any = task.text
    if task.sources:
        content = [part_of(source) for source in task.sources]
        content.append({"type": "text", "text": task.text})
    return {
        "model": task.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": task.limit,
        "temperature": 0,
    }


def part_of(source: Source) -> dict[str, str]:
    """The part of a message that refers to it."""
    return {"type": "media", "media_id": source.handle, "modality": source.modality}


def state_of(body: dict[str, Any]) -> State:
    """What a STATUS says."""
    usage = body["usage"]
    return State(
        state=body["state"],
        cancel_requested=body["cancel_requested"],
        status=body["status"],
        prompt_tokens=usage["prompt_tokens"],
        tokens=usage["completion_tokens"],
        finish=body["finish_reason"],
    )


def told(reading: Reading, answer: Answer, cursor: int) -> None:
    """Fill *reading* from a STATUS, or an error."""
    reading.asked, reading.answered = answer.asked, answer.answered
    reading.status, reading.code = answer.status, answer.code
    if answer.status != 200:
        return
    output = answer.body["output"]
    data = base64.b64decode(output["bytes"])
    assert int(output["cursor"]) == cursor
    assert (
        int(output["next_cursor"]) == cursor + len(data) <= int(output["total_bytes"])
    )
    if data:
        reading.pieces.append((cursor, data))
    state = state_of(answer.body)
    # An end counts as seen by who has every byte.
    if not (state.is_end and cursor + len(data) < int(output["total_bytes"])):
        reading.states.append(state)


def take(reading: Reading, event: Event) -> None:
    """One event of a stream."""
    if event.name == "status":
        reading.states.append(state_of(event.data))
    elif event.name == "emission":
        offset = int(event.data["offset"])
        data = event.output
        assert int(event.data["next_cursor"]) == offset + len(data)
        assert event.id == f"{event.data['request_id']}:{offset + len(data)}"
        reading.pieces.append((offset, data))
    elif event.name == "error":
        reading.code = event.data["error"]["code"]
    else:
        raise AssertionError(f"an event of no kind: {event.name!r}")
