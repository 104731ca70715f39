"""
What engines may be asked: one lease for each request, in a slot that is free, and an
end to it soon after the request's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.simulation.history import Event
from tests.simulation.truth import Truth

#: Seconds in which an engine is told to stop, by a clock that does not jump, while the
#: runtime goes on: a tick that stalls, a heartbeat, descriptors that are served late.
STOP_SECONDS_MAX: Final = 3.0
#: What excuses an engine that was not told.
_EXCUSES: Final = ("runtime_killed", "runtime_stopping", "runtime_stopped")


def check_leases(truth: Truth) -> Iterator[str]:
    """Everything that is wrong with leases and slots."""
    yield from _check_owners(truth)
    yield from _check_slots(truth)
    yield from _check_stops(truth)


def _check_owners(truth: Truth) -> Iterator[str]:
    """One lease for each request, one request for each lease."""
    known = [*truth.reclaimed, *truth.requests.values()]
    names = {(each.key[0], each.nonce): each for each in known}
    asked = {event.nonce: event for event in truth.history.of("asked")}
    for (epoch, nonce), leases in truth.leases.items():
        if len(leases) > 1:
            yield f"request {nonce} was leased {len(leases)} times in epoch {epoch}"
        request = names.get((epoch, nonce))
        died = epoch in truth.killed
        if request is None and not died and nonce not in truth.unanswered:
            yield f"request {nonce} was leased and not admitted"
        if leases[0].event.sources != asked[nonce].sources:
            yield f"request {nonce} got other sources than it named"


def _check_slots(truth: Truth) -> Iterator[str]:
    """A slot has one lease at a time, and generations only grow."""
    live: dict[tuple[int, int], Event] = {}
    newest: dict[tuple[int, int], int] = {}
    kinds = ("leased", "ended", "stopped", "engine_lost")
    for event in truth.history.of(*kinds):
        if event.kind == "engine_lost":
            live = {slot: at for slot, at in live.items() if slot[0] != event.epoch}
            continue
        slot = event.epoch, event.slot
        if event.kind == "leased":
            if event.slot == 0 or event.generation <= newest.get(slot, 0):
                yield f"lease {event.number} has slot and generation of an earlier one"
            newest[slot] = event.generation
            if slot in live:
                yield f"lease {event.number} began before slot {slot} was free"
            live[slot] = event
        elif slot in live and live[slot].generation == event.generation:
            del live[slot]


def _check_stops(truth: Truth) -> Iterator[str]:
    """Once a request has ended its engine is told, unless it has ended by itself."""
    over: dict[tuple[int, int, int], float] = {}
    lost: dict[int, list[Event]] = {}
    for event in truth.history.of("stopped", "ended"):
        over.setdefault((event.epoch, event.slot, event.generation), event.at)
    for event in truth.history.of("engine_lost", *_EXCUSES):
        lost.setdefault(event.epoch, []).append(event)
    excused = [
        event.at
        for event in truth.history.of("deed")
        if event.name in ("jump", "freeze_runtime")
    ]
    end = truth.events[-1].at
    for request in truth.requests.values():
        lease, last = request.lease, request.last
        if lease is None or last is None or request.is_fixed:
            continue
        told = lease.event
        name = told.epoch, told.slot, told.generation
        until = last.at + STOP_SECONDS_MAX
        ends = [event.at for event in lost.get(told.epoch, []) if event.at > told.at]
        is_over = min(over.get(name, end), *ends, end) <= until
        is_excused = any(last.at <= at <= until for at in excused)
        if not is_over and not is_excused:
            where = f"{request.nonce} at {last.at:.3f}"
            yield f"the engine was not told of its end: {where}"
