"""
What was seen of requests, and the judge of it: bytes, states, ends, epochs.

Times are those of the monotonic clock, in seconds. An exchange was under way between
`asked` and `answered`; what the service did then, it did at some moment in between, so
only what is wrong for every such moment is a violation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from tests.torture.expected import Answers, Expected, Task

RANKS: Final = {"queued": 0, "preparing": 1, "running": 2}
ENDS: Final = ("completed", "failed", "cancelled")


@attrs.frozen
class State:
    """
    A request as one status tells it (`http.md` §6).
    """

    state: str
    cancel_requested: bool
    status: int
    prompt_tokens: int
    tokens: int
    finish: str | None

    @property
    def is_end(self) -> bool:
        return self.state in ENDS

    @property
    def rank(self) -> int:
        return RANKS.get(self.state, 3)


@attrs.define
class Reading:
    """
    One exchange about a request: a window, a stream, a cancel, a completion.

    Attributes:
        cursor: From where output was asked for.
        pieces: (offset, bytes) in the order of arrival, offsets as the service told.
        states: In the order of arrival.
        is_over: A stream that the service ended in order; a plain answer is.
    """

    how: str
    asked: float
    cursor: int = 0
    answered: float = 0.0
    status: int = 200
    code: str = ""
    pieces: list[tuple[int, bytes]] = attrs.field(factory=list)
    states: list[State] = attrs.field(factory=list)
    is_over: bool = False

    @property
    def reached(self) -> int:
        """The cursor behind the last piece."""
        return self.pieces[-1][0] + len(self.pieces[-1][1]) if self.pieces else 0


@attrs.define
class History:
    """
    One request, from the wish to its end.

    Attributes:
        handle: None if it is not known whether it was admitted.
        cancels: When its cancel was asked for.
    """

    owner: int
    task: Task
    asked: float
    answered: float = 0.0
    handle: str | None = None
    readings: list[Reading] = attrs.field(factory=list)
    cancels: list[float] = attrs.field(factory=list)

    @property
    def epoch(self) -> int:
        assert self.handle is not None
        return int(self.handle.split("-")[1], 16)

    @property
    def end(self) -> State | None:
        """The terminal state, if it was seen."""
        for reading in self.readings:
            for state in reading.states:
                if state.is_end:
                    return state
        return None

    @property
    def last(self) -> float:
        """When it was heard of last."""
        return max([self.answered, *(reading.answered for reading in self.readings)])

    def refused(self, status: int) -> Reading | None:
        """The first reading that was answered with *status*."""
        return next((each for each in self.readings if each.status == status), None)


@attrs.define
class Life:
    """
    One epoch: when its runtime was ready, told to end or killed, and seen dead.
    """

    epoch: int
    began: float
    ready: float = float("inf")
    ending: float = float("inf")
    dead: float = float("inf")


@attrs.frozen
class World:
    """
    What histories are judged against.

    Attributes:
        entries: Of the device's request table.
    """

    lives: Mapping[int, Life]
    answers: Answers
    entries: int


def judge(histories: Sequence[History], world: World) -> list[str]:
    """Everything that is wrong with them, in words."""
    found = []
    handles: set[str] = set()
    for history in histories:
        if history.handle is not None:
            if history.handle in handles:
                found.append(f"{history.handle}: two requests of one name")
            handles.add(history.handle)
            problems = judge_one(history, world)
            if history.refused(404) is not None:
                problems += displaced(history, histories, world.entries)
            name = f"client {history.owner}, {history.handle}"
            found += [f"{name}: {problem}" for problem in problems]
    return found


def judge_one(history: History, world: World) -> list[str]:
    """What is wrong with one admitted request, looked at alone."""
    expected = world.answers(history.task)
    life = world.lives.get(history.epoch)
    if life is None:
        return [f"an epoch that never was: {history.epoch}"]
    found = []
    if history.asked > life.dead or history.answered < life.began:
        found.append("admitted in an epoch that was over, or had not begun")
    for number, reading in enumerate(history.readings):
        where = f"{reading.how} {number}"
        problems = [*_epochs(reading, life), *_bytes(reading, expected)]
        problems += _states(reading)
        found += [f"{where}: {problem}" for problem in problems]
    found += _order(history)
    found += _end(history, expected)
    return found


def _epochs(reading: Reading, life: Life) -> Iterator[str]:
    """Old epochs answer 410, and no living one does (`device.md` §11)."""
    if reading.status == 200 and reading.asked > life.dead:
        yield f"answered 200 although epoch {life.epoch} was over"
    if reading.status == 410 and reading.answered < life.ending:
        yield f"answered 410 although epoch {life.epoch} was alive"


def _bytes(reading: Reading, expected: Expected) -> Iterator[str]:
    at = reading.cursor
    for offset, data in reading.pieces:
        if offset < at:
            yield f"repeated: bytes {offset}.. came again after {at}"
        elif offset > at:
            yield f"missing: bytes {at}..{offset}"
        if not data:
            yield f"an empty piece at {offset}"
        if data != expected.data[offset : offset + len(data)]:
            yield f"foreign: bytes {offset}..{offset + len(data)} are others"
        at = offset + len(data)


def _states(reading: Reading) -> Iterator[str]:
    """One end at most, as the last thing; a stream that is over has one."""
    ends = [state.is_end for state in reading.states]
    if any(ends[:-1]):
        yield "something followed the end"
    is_stream = reading.how == "stream"
    if is_stream and reading.is_over and reading.status == 200 and not any(ends):
        yield "a stream was over without an end"
    ranks = [state.rank for state in reading.states]
    if ranks != sorted(ranks):
        yield f"states went back: {[state.state for state in reading.states]}"


def _order(history: History) -> Iterator[str]:
    """What was told once stays so: states go on, and an end stays as it is."""
    told = [reading for reading in history.readings if reading.states]
    done = sorted(told, key=lambda reading: reading.answered)
    known: State | None = None
    at = 0
    for reading in sorted(told, key=lambda reading: reading.asked):
        while at < len(done) and done[at].answered <= reading.asked:
            state = done[at].states[-1]
            known = state if known is None or state.rank > known.rank else known
            at += 1
        first = reading.states[0]
        if known is not None and first.rank < known.rank:
            yield f"{known.state} became {first.state}"
    ends = {state for each in told for state in each.states if state.is_end}
    if len(ends) > 1:
        yield f"different ends: {sorted(ends, key=str)}"


def _end(history: History, expected: Expected) -> Iterator[str]:
    """That it ended as the tables allow (`device.md` §9), or with its epoch."""
    end = history.end
    if end is None:
        if history.refused(410) is None and history.refused(404) is None:
            yield "never ended"
        return
    if (end.state, end.status) == ("completed", 0):
        told = end.prompt_tokens, end.tokens, end.finish
        right = expected.prompt_tokens, expected.tokens, expected.finish
        if told != right:
            yield f"completed with {told}, not {right}"
        if end.cancel_requested:
            yield "completed although its cancel was accepted"
    elif (end.state, end.status) == ("cancelled", 409):
        if not history.cancels or min(history.cancels) > history.last:
            yield "cancelled, and nobody asked for it"
        if not end.cancel_requested or end.finish is not None:
            yield f"an odd cancel: {end}"
        if end.prompt_tokens not in (0, expected.prompt_tokens):
            yield f"cancelled with {end.prompt_tokens} prompt tokens"
        if end.tokens > expected.tokens:
            yield f"cancelled with {end.tokens} tokens of {expected.tokens}"
    else:
        yield f"an end that the tables do not allow: {end}"
    yield from _whole(history, end, expected)


def _whole(history: History, end: State, expected: Expected) -> Iterator[str]:
    """That a reader who saw the end had every byte before it, none left out."""
    for number, reading in enumerate(history.readings):
        if not (reading.states and reading.states[-1].is_end):
            continue
        if reading.how == "cancel":
            continue
        reached = max(reading.reached, reading.cursor)
        if end.state == "completed" and reached != len(expected.data):
            told = f"{reached} of {len(expected.data)} bytes"
            yield f"{reading.how} {number}: ended after {told}"
    totals = {
        max(each.reached, each.cursor)
        for each in history.readings
        if each.states and each.states[-1].is_end and each.how != "cancel"
    }
    if len(totals) > 1:
        yield f"ended after different lengths: {sorted(totals)}"


def displaced(
    history: History, histories: Sequence[History], entries: int
) -> Iterator[str]:
    """
    That a 404 is one of a result which newer ones displaced (`device.md` §4).

    The victim is the result that changed longest ago, so every other entry is of a
    request that was heard of since this one was wished for.
    """
    gone = history.refused(404)
    assert gone is not None
    others = sum(
        other is not history
        and other.asked <= gone.answered
        and max(other.last, other.answered) >= history.asked
        for other in histories
    )
    if others < entries - 1:
        yield f"404 after {others} others, with room for {entries}"
