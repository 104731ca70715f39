"""
Counts what a soak has seen; totals of several runs add up in one file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

from tests.device.model import Oracle
from tests.device.oracle.frames import FRAME, HEADER, Frame, u32
from tests.device.pair import Pair
from tests.device.soaking.wanted import PAIRS, TRANSITIONS, row_of
from twisted_aotx.device.host import Device
from twisted_aotx.wire.numbers import MediaCommand, Operation

_NAMES = {
    Operation.SHARED_MUTATION: "shared write",
    Operation.SHARED_READ: "shared read",
}
#: Operations whose payload tells more than the status does.
_TOLD = ("MEDIA", "POLICY")


def kind_of(channel: int, packet: bytes, length: int) -> str:
    """What sort of frame it is, as `wanted` names it."""
    if not HEADER <= length <= FRAME:
        return "mailbox length"
    frame = Frame(packet)
    if not frame.well_formed():
        return "header"
    operation = frame.operation
    if channel == 0:
        granting = operation == Operation.GRANTS
        return "GRANTS" if granting else "channel 0, not GRANTS"
    if operation == Operation.GRANTS or operation not in set(Operation):
        return "unknown"
    if operation == Operation.MEDIA:
        command = u32(packet, HEADER + 4) if len(packet) >= HEADER + 64 else 0
        known = command in set(MediaCommand)
        return f"MEDIA {MediaCommand(command).name if known else 'odd'}"
    if operation == Operation.POLICY:
        return "POLICY write" if frame.payload else "POLICY read"
    return _NAMES.get(Operation(operation), Operation(operation).name)


@attrs.define
class Tally:
    """How often each thing happened."""

    counts: Counter[str] = attrs.field(factory=Counter)
    pairs: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    transitions: Counter[tuple[str, str, str, int]] = attrs.field(factory=Counter)
    rules: Counter[str] = attrs.field(factory=Counter)

    def answered(self, kind: str, reply: bytes) -> None:
        status = u32(reply, 8)
        more = len(reply) > HEADER and kind.startswith(_TOLD)
        self.pairs[kind, f"{status}{'+' if more else ''}"] += 1
        self.counts["frames"] += 1
        self.counts["frames accepted"] += status in (200, 202)

    def went(self, transitions: Counter[tuple[str, str, str, int]]) -> None:
        for transition, count in transitions.items():
            self.transitions[row_of(transition)] += count

    @property
    def accepted(self) -> float:
        """The share of frames that were accepted."""
        return self.counts["frames accepted"] / max(1, self.counts["frames"])

    def rows(self) -> Iterator[tuple[int, str]]:
        """Everything that should be seen, with how often it was."""
        for row in TRANSITIONS:
            yield self.transitions[row], _told(row)
        for pair in PAIRS:
            yield self.pairs[pair], " ".join(pair)

    def unlisted(self) -> Iterator[str]:
        """What happened and stands in no table: the lists of `wanted` are wrong."""
        for row in sorted(set(self.transitions) - set(TRANSITIONS)):
            yield _told(row)
        for pair in sorted(set(self.pairs) - set(PAIRS)):
            yield " ".join(pair)

    def lines(self, goal: int) -> Iterator[str]:
        """All of it, to be printed; what is rarer than *goal* is marked."""
        for name, count in sorted(self.counts.items()):
            yield f"{count:>9}  {name}"
        yield f"{self.accepted:>9.1%}  of frames accepted"
        rare = [name for count, name in self.rows() if count < goal]
        for count, name in self.rows():
            yield f"{count:>9}  {name}{' !' if name in rare else ''}"
        yield f"{len(rare):>9}  of them fewer than {goal}"

    # --- totals -----------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write all of it as JSON, in one step."""
        data = {
            "counts": self.counts,
            "pairs": {"|".join(pair): n for pair, n in self.pairs.items()},
            "transitions": [[*row, n] for row, n in self.transitions.items()],
            "rules": self.rules,
        }
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(data, indent=1, sort_keys=True))
        beside.replace(path)

    def add(self, other: Tally) -> None:
        """What another run has seen."""
        for name in ("counts", "pairs", "transitions", "rules"):
            getattr(self, name).update(getattr(other, name))

    def load(self, path: Path) -> None:
        """Add what an earlier run has saved."""
        if not path.exists():
            return
        data = json.loads(path.read_text())
        self.counts.update(data["counts"])
        self.rules.update(data["rules"])
        for name, count in data["pairs"].items():
            kind, status = name.split("|")
            self.pairs[kind, status] += count
        for before, event, after, status, count in data["transitions"]:
            self.transitions[before, event, after, status] += count


def _told(row: tuple[str, str, str, int]) -> str:
    before, event, after, status = row
    return f"{before} → {after}: {event}{f', {status}' if status else ''}"


class CountedPair(Pair):
    """Counts the frames that are answered and the transitions that requests make."""

    def __init__(self, device: Device, oracle: Oracle, tally: Tally) -> None:
        super().__init__(device, oracle)
        self._tally = tally
        self._kinds: dict[int, str] = {}

    def publish(
        self, channel: int, packet: bytes, *, length: int | None = None
    ) -> None:
        super().publish(channel, packet, length=length)
        told = len(packet) if length is None else length
        self._kinds[channel] = kind_of(channel, packet, told)

    def reply(self, channel: int) -> bytes:
        packet = super().reply(channel)
        self._tally.answered(self._kinds[channel], packet)
        return packet

    def free(self) -> None:
        self._tally.went(self.oracle.state.transitions)
        super().free()
