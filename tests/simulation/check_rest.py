"""
What is left at the end: nothing that is held, nothing that runs, and a ledger that is
exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tests.simulation.truth import Request, Truth


def check_rest(truth: Truth) -> Iterator[str]:
    """Everything that leaked, hangs or was miscounted."""
    for event in truth.history.of("logged"):
        yield f"a failure was logged: {event.format} {event.why}"
    for event in truth.history.of("session_failed", "hangs", "spins"):
        yield str(event)
    for event in truth.history.of("held"):
        held = [name for name, amount in event.budgets if amount]
        if held:
            yield f"a gateway still holds {', '.join(held)}"
    for event in truth.history.of("runtime_held"):
        for name in ("leases", "queued", "unanswered", "taken", "engine", "violations"):
            if getattr(event, name):
                yield f"the runtime still has {name}: {getattr(event, name)}"
        if event.is_held:
            yield "the device is held although the disk works"
    for event in truth.history.of("channels"):
        if event.served != event.of:
            yield f"{event.served} of {event.of} channels are served"
    for event in truth.history.of("left"):
        if event.calls or event.descriptors or event.files:
            yield f"{event.process} ended and left {event}"
    yield from _check_audit(truth)
    yield from _check_ledger(truth)
    yield from _check_peers(truth)


def _check_peers(truth: Truth) -> Iterator[str]:
    """Each packet client gets the replies to its own packets, in order."""
    for event in truth.history.of("received"):
        if event.sent < 0:
            yield f"packet {event.number} answers nothing"
            continue
        sent = truth.events[event.sent]
        if (event.principal, event.id) != (sent.principal, sent.id):
            yield f"packet {event.number} answers another than {event.sent}"


def _check_audit(truth: Truth) -> Iterator[str]:
    """Once all is quiet every request of the epoch has ended, or is reclaimed."""
    for audit in truth.history.of("auditing"):
        for key, request in truth.requests.items():
            told = [
                reply for _, reply in request.windows if reply.number > audit.number
            ]
            if key[0] == audit.epoch and told and told[0].phase < 4:
                yield f"request {request.nonce} never ended"


@attrs.define
class _Sum:
    """
    Requests, prompt tokens and sampled tokens: at least, and at most.
    """

    low: list[int] = attrs.field(factory=lambda: [0, 0, 0])
    high: list[int] = attrs.field(factory=lambda: [0, 0, 0])

    def add(self, low: tuple[int, int, int], high: tuple[int, int, int]) -> None:
        self.low = [a + b for a, b in zip(self.low, low, strict=True)]
        self.high = [a + b for a, b in zip(self.high, high, strict=True)]


def _check_ledger(truth: Truth) -> Iterator[str]:
    ledgers = list(truth.history.of("ledger"))
    if not ledgers:
        return
    due: dict[tuple[bytes, bool], _Sum] = {}
    for request in (*truth.requests.values(), *truth.reclaimed, *truth.uncertain):
        bounds = _bounds(truth, request)
        name = request.key[1], request.is_fixed
        due.setdefault(name, _Sum()).add(*bounds)
    for event in ledgers:
        counted: dict[tuple[bytes, bool], list[int]] = {}
        for principal, model, *counts in event.rows:
            name = principal, model != truth.model_sha256
            counted[name] = counts
        for name in due.keys() | counted.keys():
            counts, bounds_of = counted.get(name, [0, 0, 0]), due.get(name, _Sum())
            inside = all(
                low <= count <= high
                for low, count, high in zip(
                    bounds_of.low, counts, bounds_of.high, strict=True
                )
            )
            if not inside:
                yield (
                    f"the ledger of {name[0].hex()[-2:]} has {counts}, due are "
                    f"{bounds_of.low} to {bounds_of.high}"
                )


def _bounds(
    truth: Truth, request: Request
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """What a request may have added to the ledger."""
    last = request.last
    if last is not None:
        exact = 1, last.prompt, last.sampled
        is_saved = request.key[0] in truth.saved
        return (exact if is_saved else (0, 0, 0)), exact
    lease = request.lease
    if request.is_fixed:
        return (0, 0, 0), (1, 1 << 16, request.frame.limit)
    if lease is None:
        return (0, 0, 0), (1, 0, 0)
    return (0, 0, 0), (1, lease.prompt or 0, lease.marks[-1][2])
