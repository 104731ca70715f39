"""
What the owner of media sources was told of them, held against what is there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import attrs

from tests.endtoend.storm import JPEG
from tests.torture.expected import Source


@attrs.frozen
class Stored:
    """
    A source as its owner was told of it.
    """

    handle: str
    sha256: str
    size: int
    kind: str
    rows: int

    @property
    def as_source(self) -> Source:
        """To be referred to in a prompt."""
        modality = "image" if self.kind == JPEG else "audio"
        return Source(self.handle, modality, self.sha256, self.rows)


@attrs.define
class Shelf:
    """
    What one principal knows of its sources.

    Attributes:
        ready: Acknowledged, and not asked to be deleted: must be there.
        deleted: Acknowledged as deleted: must not be there.
        unsure: Their deletion was not answered.
        unanswered: SHA-256 → bytes of valid bodies whose upload was not answered.
    """

    ready: dict[str, Stored] = attrs.field(factory=dict)
    deleted: set[str] = attrs.field(factory=set)
    unsure: dict[str, Stored] = attrs.field(factory=dict)
    unanswered: dict[str, int] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @contextmanager
    def changing(self) -> Iterator[Self]:
        """What is changed together, nobody sees half of."""
        with self._lock:
            yield self

    def copy(self) -> Shelf:
        """As it is at one moment."""
        with self._lock:
            return Shelf(
                dict(self.ready),
                set(self.deleted),
                dict(self.unsure),
                dict(self.unanswered),
            )

    def judge(self, found: dict[str, tuple[str, int]]) -> list[str]:
        """What is wrong with *found*: handle → (SHA-256, bytes)."""
        wrong = [
            f"{handle} was deleted, and is back"
            for handle in found.keys() & self.deleted
        ]
        for handle, stored in self.ready.items():
            told = found.get(handle)
            if told is None:
                wrong.append(f"{handle} was acknowledged, and is lost")
            elif told != (stored.sha256, stored.size):
                wrong.append(f"{handle} is another: {told}")
        for handle in found.keys() - self.ready.keys() - self.deleted:
            sha256, size = found[handle]
            stored = self.unsure.get(handle) or Stored(handle, "", 0, "", 0)
            if self.unanswered.get(sha256) == size:
                continue
            if (stored.sha256, stored.size) != (sha256, size):
                wrong.append(f"{handle} was never sent like that")
        return wrong

    def settle(self, found: dict[str, tuple[str, int]]) -> None:
        """Nothing is under way: what is not there now never will be."""
        for handle, stored in self.unsure.items():
            if handle in found:
                self.ready[handle] = stored
            else:
                self.deleted.add(handle)
        self.unsure.clear()
        for handle in found.keys() - self.ready.keys():
            sha256, size = found[handle]
            self.ready[handle] = Stored(handle, sha256, size, "", 0)
        self.unanswered.clear()
