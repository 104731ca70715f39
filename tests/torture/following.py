"""
Clients that follow a request to its end: by streams that break and are resumed, and by
windows; and that cancel.

A client speaks to either gateway, and asks again after whatever may happen to an honest
one under fire. What it was told goes into histories; `histories` judges them later.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

import attrs

from tests.endtoend.streams import EventStream
from tests.processes import COMPILE_PATIENCE
from tests.torture.book import Book
from tests.torture.histories import History, Reading
from tests.torture.statuses import take, told
from tests.torture.talk import Answer, Gone, Line, Silent, reset

REQUESTS: Final = "/aotx/v1/requests"
#: Seconds after which a request that has not ended is a fault: as long as the longest
#: start of a runtime, and some.
FOLLOW_SECONDS: Final = COMPILE_PATIENCE + 60
#: Bytes of a slow reader's receive buffer, and for how many pieces it dawdles so long.
NARROW_BYTES: Final = 2048
SLOW_PIECES: Final = 40
SLOW_SECONDS: Final = 0.05
#: Pauses while a storm ends.
BRISK_SECONDS: Final = 0.05
#: Answers after which one asks again; the rest are faults.
AGAIN: Final = (429, 503)


@attrs.define
class Reader:
    """
    One client, and how it hears of a request; `role` is what it does with its own.

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

    def line(self) -> Line:
        """To either gateway."""
        return self.chance.choice(self.lines)

    def pause(self, least: float, most: float) -> None:
        """As long as people think; shorter while a storm ends."""
        if self.book.stopping.is_set():
            time.sleep(BRISK_SECONDS)
        else:
            self.book.stopping.wait(self.chance.uniform(least, most))

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

    def follow(self, history: History) -> None:
        """Until it has ended, or its epoch has; also while a storm ends."""
        deadline = time.monotonic() + FOLLOW_SECONDS
        cursor, resumed = 0, 0
        while not is_over(history):
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
            self.events(reading, stream, leaves_after, slow=slow)
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

    def events(
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
                if slow and len(reading.pieces) < SLOW_PIECES:
                    time.sleep(SLOW_SECONDS)
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
