"""
What a history says really happened: which request every handle names, what its engine
said, and how the device told of it.
"""

from __future__ import annotations

import itertools
from typing import Final

import attrs

from tests.simulation.engine import MODEL_SHA256
from tests.simulation.history import Event, History
from tests.simulation.runtime import FIXED_TEXT
from twisted_aotx.wire.numbers import Operation, Role

#: Epoch, principal, id.
Key = tuple[int, bytes, bytes]
TERMINAL: Final = (4, 5, 6)


@attrs.define
class Lease:
    """
    What the engine did for one request.
    """

    event: Event
    prompt: int | None = None
    #: After each emission: its event's number, output bytes and tokens so far.
    marks: list[tuple[int, int, int]] = attrs.field(factory=lambda: [(-1, 0, 0)])
    data: bytes = b""
    ended: Event | None = None


@attrs.define
class Request:
    """
    One request that the device admitted.
    """

    key: Key
    frame: Event
    admitted: Event
    lease: Lease | None = None
    #: Every reply to READ and CANCEL with status 200, and the frame that it answers.
    windows: list[tuple[Event, Event]] = attrs.field(factory=list)

    @property
    def nonce(self) -> str:
        return str(self.frame.nonce)

    @property
    def is_fixed(self) -> bool:
        """Whether the kernels' own model serves it."""
        return bool(self.frame.role == Role.LANGUAGE_Q4)

    @property
    def data(self) -> bytes:
        """All that its engine ever said."""
        if self.is_fixed:
            return FIXED_TEXT.encode()[: self.frame.limit]
        return b"" if self.lease is None else self.lease.data

    def is_told(self, began: int, end: int, **facts: object) -> bool:
        """Whether a reply between two events tells *facts* of it."""
        return any(
            began <= reply.number < end
            and all(getattr(reply, name) == value for name, value in facts.items())
            for _, reply in self.windows
        )

    @property
    def last(self) -> Event | None:
        """The first reply that tells how it ended."""
        for _, reply in self.windows:
            if reply.phase in TERMINAL:
                return reply
        return None


class Truth:
    """
    A history, read once.

    Attributes:
        pairs: every reply with the frame that it answers, in order of the replies.
        requests: by key; of a key that was admitted twice, the later one.
        twice: keys that were admitted again after their entry was reclaimed.
        reclaimed: the earlier requests of those keys; `lives` has both.
        uncertain: what was submitted and not answered: it may have been admitted.
        leases: by epoch and nonce, each in order.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.events = history.events
        self.pairs: list[tuple[Event, Event]] = []
        self.requests: dict[Key, Request] = {}
        self.twice: list[Key] = []
        self.reclaimed: list[Request] = []
        self._lives: dict[Key, list[Request]] = {}
        self.uncertain: list[Request] = []
        self.leases: dict[tuple[int, str], list[Lease]] = {}
        #: Admissions of each epoch, in order: numbers of their replies.
        self.admissions: dict[int, list[int]] = {}
        #: Grant tables of each epoch: when sent, when answered, the revision.
        self.grants: dict[int, list[tuple[int, int, int]]] = {}
        #: Epochs that ended by a kill.
        self.killed = {event.epoch for event in history.of("runtime_killed")}
        #: Epochs whose usage was saved to the end.
        self.saved = {e.epoch for e in history.of("runtime_stopped") if e.is_saved}
        self.model_sha256 = MODEL_SHA256
        #: Moments at which a gateway began to stop.
        self.closings = list(history.of("gateway_stopping"))
        #: Names of requests that were sent to the device and not answered by it.
        self.unanswered: set[str] = set()
        #: Numbers of the CANCEL frames of each key.
        self._cancels: dict[Key, list[int]] = {}
        self._read_leases()
        self._read_packets()

    def _read_leases(self) -> None:
        by_slot: dict[tuple[int, int, int], Lease] = {}
        for event in self.history.of("leased", "opened", "emitted", "ended"):
            name = event.epoch, event.slot, event.generation
            if event.kind == "leased":
                lease = by_slot[name] = Lease(event)
                self.leases.setdefault((event.epoch, event.nonce), []).append(lease)
                continue
            if name not in by_slot:
                continue
            lease = by_slot[name]
            if event.kind == "opened":
                lease.prompt = event.tokens
            elif event.kind == "ended":
                lease.ended = event
            else:
                _, size, tokens = lease.marks[-1]
                lease.data += event.data
                mark = size + len(event.data), tokens + event.tokens
                lease.marks.append((event.number, *mark))

    def _read_packets(self) -> None:
        for frame in self.history.of("frame"):
            if frame.operation == Operation.SUBMIT:
                self.unanswered.add(frame.nonce)
            elif frame.operation == Operation.CANCEL:
                key = frame.epoch, frame.principal, frame.id
                self._cancels.setdefault(key, []).append(frame.number)
        for reply in self.history.of("reply"):
            frame = self.events[reply.frame]
            if frame.operation == Operation.SUBMIT:
                self.unanswered.discard(frame.nonce)
            elif frame.operation == Operation.GRANTS and reply.status == 200:
                table = frame.number, reply.number, frame.revision
                self.grants.setdefault(reply.epoch, []).append(table)
            self.pairs.append((frame, reply))
            key = reply.epoch, frame.principal, frame.id
            if frame.operation == Operation.SUBMIT and reply.status == 202:
                if key in self.requests:
                    self.twice.append(key)
                    self.reclaimed.append(self.requests[key])
                leases = self.leases.get((reply.epoch, frame.nonce), [None])
                self.requests[key] = Request(key, frame, reply, leases[0])
                self._lives.setdefault(key, []).append(self.requests[key])
                self.admissions.setdefault(reply.epoch, []).append(reply.number)
            elif (
                frame.operation in (Operation.READ, Operation.CANCEL)
                and reply.status == 200
                and key in self.requests
            ):
                self.requests[key].windows.append((frame, reply))
        answered = {frame.number for frame, _ in self.pairs}
        for frame in self.history.of("frame"):
            if frame.operation == Operation.SUBMIT and frame.number not in answered:
                key = frame.epoch, frame.principal, frame.id
                leases = self.leases.get((frame.epoch, frame.nonce), [None])
                self.uncertain.append(Request(key, frame, frame, leases[0]))

    def lives(self, key: Key, began: int, end: int) -> list[Request]:
        """
        The requests of *key* that somebody may have been told of between two events:
        one, or two when the earlier one was reclaimed meanwhile.
        """
        found = self._lives.get(key, [])
        return [
            each
            for each, later in itertools.zip_longest(found, found[1:])
            if each.frame.number < end
            and (later is None or began <= later.admitted.number)
        ]

    def asked_to_cancel(self, key: Key, before: int) -> bool:
        """Whether a CANCEL was sent before the event of that number."""
        return any(number < before for number in self._cancels.get(key, []))

    def revisions(self, epoch: int, begin: int, end: int) -> set[int]:
        """The revisions that may have been in force between two events."""
        tables = self.grants.get(epoch, [])
        answered = [n for n, (_, number, _) in enumerate(tables) if number < begin]
        first = answered[-1] if answered else 0
        return {revision for sent, _, revision in tables[first:] if sent < end}
