"""
What happened in a run, in order: the one thing that the checker sees.

Two runs of one seed have the same digest, on every machine.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs


@attrs.frozen
class Event:
    """
    Something that happened. `event.name` is the field *name*.
    """

    #: Its place in the history.
    number: int
    #: Seconds.
    at: float
    kind: str
    fields: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(f"{self.kind} has no {name}") from None

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self.items())
        return f"{self.number:6} {self.at:12.6f} {self.kind}: {shown}"

    def items(self) -> Iterator[tuple[str, Any]]:
        """The fields, in a fixed order."""
        yield from sorted(self.fields.items())


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.hex()
        return text if len(text) <= 40 else f"{text[:32]}…({len(value)} bytes)"
    return repr(value)


@attrs.define
class History:
    """
    Events, and how often what was counted happened.
    """

    events: list[Event] = attrs.field(factory=list)
    counts: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    def add(self, at: float, kind: str, fields: Mapping[str, Any]) -> int:
        """One more event; its number."""
        number = len(self.events)
        self.events.append(Event(number, at, kind, fields))
        return number

    def count(self, group: str, name: str, times: int = 1) -> None:
        """*name* of *group* happened *times* more."""
        self.counts[group, name] += times

    def of(self, *kinds: str) -> Iterator[Event]:
        """The events of *kinds*, in order."""
        return (event for event in self.events if event.kind in kinds)

    def digest(self) -> str:
        """SHA-256 over all of it."""
        digest = hashlib.sha256()
        for event in self.events:
            line = (f"{event.at:.9f}", event.kind, list(event.items()))
            digest.update(repr(line).encode())
        digest.update(repr(sorted(self.counts.items())).encode())
        return digest.hexdigest()
