"""
Memory that two threads share, as weak as a processor and a compiler may make it.

What a thread writes waits with it until it *surfaces*, word by word, in any order but
these: the writes of one word keep theirs, and a *release* surfaces after everything
that its thread wrote before it. A thread reads its own writes at once. A system call
(the write to a doorbell) lets everything surface.

A read that is moved up by a missing acquire is a model that reads earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Write(NamedTuple):
    """
    A write that waits to surface.
    """

    word: str
    value: int
    release: bool


class Memory(NamedTuple):
    """
    The words by name, as the other thread sees them, and the writes that wait.
    """

    seen: tuple[tuple[str, int], ...]
    waiting: tuple[tuple[Write, ...], ...] = ((), ())

    @classmethod
    def of(cls, words: Iterable[str]) -> Memory:
        """All of them 0."""
        return cls(tuple((word, 0) for word in words))

    def read(self, thread: int, word: str) -> int:
        """What *thread* finds in *word*."""
        for write in reversed(self.waiting[thread]):
            if write.word == word:
                return write.value
        return next(value for name, value in self.seen if name == word)

    def write(self, thread: int, word: str, value: int, release: bool) -> Memory:
        """*thread* writes; nobody else sees it yet."""
        waiting = (*self.waiting[thread], Write(word, value, release))
        return self._replace(waiting=_put(self.waiting, thread, waiting))

    def surfaced(self, thread: int) -> Memory:
        """After a system call of *thread*."""
        memory = self
        for write in self.waiting[thread]:
            memory = memory._set(write)
        return memory._replace(waiting=_put(self.waiting, thread, ()))

    def surfacing(self) -> Iterator[tuple[str, Memory]]:
        """What may surface next: the name of the word, the memory after it."""
        for thread, waiting in enumerate(self.waiting):
            for n, write in enumerate(waiting):
                earlier = waiting[:n]
                if write.release and earlier:
                    continue
                if any(other.word == write.word for other in earlier):
                    continue
                left = _put(self.waiting, thread, earlier + waiting[n + 1 :])
                yield write.word, self._set(write)._replace(waiting=left)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits."""
        return not any(self.waiting)

    def _set(self, write: Write) -> Memory:
        seen = tuple(
            (word, write.value if word == write.word else value)
            for word, value in self.seen
        )
        return self._replace(seen=seen)


def _put(
    rows: tuple[tuple[Write, ...], ...], at: int, row: tuple[Write, ...]
) -> tuple[tuple[Write, ...], ...]:
    return (*rows[:at], row, *rows[at + 1 :])
