"""
The work step: lost engines, revocation, deadlines, cancels, leases (`device.md` §9).
"""

from __future__ import annotations

from collections.abc import Callable

from tests.device.oracle.requests import named_controls
from tests.device.oracle.state import (
    CANCELLED,
    FAILED,
    PREPARING,
    QUEUED,
    RUNNING,
    Entry,
    Lease,
    Model,
    Outcome,
    State,
)
from twisted_aotx.orders import StopOrder

SECOND = 1_000_000_000
_UNAVAILABLE = Outcome(event="lease check fails", phase=FAILED, status=503)


def work(state: State) -> None:
    """One work step; a lease whose end is decided has its outcome set."""
    for slot in sorted(state.leases):
        lease = state.leases[slot]
        if state.models[lease.entry.role].lost:
            running = lease.entry.phase == RUNNING
            stop(
                state,
                lease,
                Outcome(
                    event="engine lost",
                    phase=CANCELLED if running else FAILED,
                    status=503,
                    cancel=int(running),
                ),
            )
    lost = {model.role for model in state.models.values() if model.lost}
    for model in state.models.values():
        model.active = model.reported_active
        model.lost = False
    _lease_check(state, lost)
    revoked = Outcome(event="revoked", phase=CANCELLED, status=403, cancel=1)
    _end_where(state, revoked, lambda entry: not _is_current(state, entry))
    limit = state.capacities.request_seconds * SECOND
    overdue = Outcome(event="deadline", phase=CANCELLED, status=504, cancel=1)
    _end_where(state, overdue, lambda entry: state.now - entry.opened_ns > limit)
    for slot in sorted(state.leases):
        lease = state.leases[slot]
        if lease.entry.cancel:
            stop(state, lease, _cancelled(409))
    _lease(state)


def decide(lease: Lease, outcome: Outcome) -> None:
    """The first end that is decided stands; an accepted cancel overrules it."""
    if lease.outcome is not None:
        return
    if lease.entry.cancel:
        outcome = _cancelled(lease.entry.status)
    lease.outcome = outcome


def _cancelled(status: int) -> Outcome:
    return Outcome(event="cancel", phase=CANCELLED, status=status, cancel=1)


def stop(state: State, lease: Lease, outcome: Outcome) -> None:
    """End a lease that its engine still serves; it is told so once."""
    if lease.outcome is not None:
        return
    decide(lease, outcome)
    if lease.ordered:
        state.send(
            StopOrder(
                slot=lease.slot, generation=lease.generation, role=lease.entry.role
            )
        )


def _is_current(state: State, entry: Entry) -> bool:
    return entry.principal in state.grants and entry.revision == state.revision


def _end_where(state: State, outcome: Outcome, ended: Callable[[Entry], bool]) -> None:
    """Give *outcome* to every active request that *ended* names."""
    leases = {lease.entry.key: lease for lease in state.leases.values()}
    for entry in sorted(state.entries.values(), key=lambda entry: entry.sequence):
        if entry.phase == QUEUED and ended(entry):
            state.finish_entry(entry, outcome)
        elif entry.phase in (PREPARING, RUNNING) and ended(entry):
            stop(state, leases[entry.key], outcome)


def _lease_check(state: State, lost: set[int]) -> None:
    """
    What was queued for an engine that is gone fails, also if it came back.

    Role by role, which only the order of reclaiming shows.
    """
    for entry in sorted(state.queued(), key=lambda entry: entry.role):
        model = state.models[entry.role]
        if entry.role in lost or not model.active or model.sha256 != entry.model_sha256:
            state.finish_entry(entry, _UNAVAILABLE)


def _lease(state: State) -> None:
    for entry in state.queued():
        taken = [x for x in state.leases.values() if x.entry.role == entry.role]
        if len(taken) >= state.models[entry.role].capacity:
            continue
        free = set(range(1, state.capacities.slots)) - set(state.leases)
        if not free:
            break
        if not _is_selectable(state.models[entry.role], entry):
            state.finish_entry(entry, _UNAVAILABLE)
            continue
        slot = min(free)
        state.generations[slot] += 1
        lease = Lease(entry=entry, slot=slot, generation=state.generations[slot])
        state.note(QUEUED, "leased", PREPARING)
        entry.phase = PREPARING
        entry.changed_ns = state.now
        state.leases[slot] = lease
        if entry.prompt.forbidden:
            decide(lease, Outcome(event="refused markers", phase=FAILED, status=400))


def _is_selectable(model: Model, entry: Entry) -> bool:
    """Whether the engine still offers what was selected at admission."""
    selection = entry.selection
    if selection is None:
        return True
    (row,) = named_controls(model, selection.qualification_sha256)
    return selection.dose in model.doses(row)
