"""
Clients of the native routes: they submit, follow or cancel, and begin anew.

Each client is a thread with a principal and a seed of its own.
"""

from __future__ import annotations

import time
from typing import Final

import attrs

from tests.torture.expected import ANSWERING, RECITING, Task
from tests.torture.following import AGAIN, REQUESTS, Reader
from tests.torture.histories import History
from tests.torture.statuses import body_of
from tests.torture.talk import Gone

#: Different prompts of each client.
PROMPTS: Final = 12


@attrs.define
class Client(Reader):
    """
    Follower, poller or canceller: one request after the other.
    """

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
            if answer.status == 410 and not self.is_calm(answer.asked, answer.answered):
                # The runtime was replaced between the gateway's INFO and its SUBMIT.
                self.book.saw("submissions to a runtime that went")
                continue
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
