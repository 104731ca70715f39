"""
The engine exchange and the commit (`device.md` §9, §10, D4, D5, D8).
"""

from __future__ import annotations

from tests.device.oracle.kernel_engine import open_sequence, step
from tests.device.oracle.lease import decide, stop
from tests.device.oracle.philox import lease_seed
from tests.device.oracle.state import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PAGE,
    PREPARING,
    RUNNING,
    Event,
    Lease,
    Outcome,
    State,
)
from twisted_aotx.orders import OpenOrder, Source

OPENED, REFUSED, EMIT, DONE, FAIL = 1, 2, 3, 4, 5

#: Reports after which the device sends no stop, whatever they meant.
ENDING = (REFUSED, DONE, FAIL)

#: Bytes of output handled per lease and tick.
TAKE = 4096


def exchange(state: State) -> None:
    """Handle reports in slot order, then ask engines to open what was leased."""
    for slot in sorted(state.leases):
        lease = state.leases[slot]
        model = state.models[lease.entry.role].kernel
        if model is not None and lease.outcome is None:
            if lease.sequence is None and slot not in state.unread:
                lease.sequence = open_sequence(state, lease, model)
            if lease.sequence is not None:
                step(state, lease, lease.sequence, model.rate)
        _collect(state, lease)
    for slot in sorted(state.leases):
        lease = state.leases[slot]
        if lease.ordered or lease.outcome is not None or slot in state.unread:
            continue
        if state.models[lease.entry.role].kernel is not None:
            continue
        lease.ordered = True
        state.unread.add(slot)
        entry = lease.entry
        references = entry.prompt.references
        state.send(
            OpenOrder(
                slot=slot,
                generation=lease.generation,
                role=entry.role,
                limit=entry.limit,
                temperature=entry.temperature,
                top_p=entry.top_p,
                seed=lease_seed(state.seed_key, entry.sequence),
                rendered=entry.prompt.data,
                spans=entry.prompt.spans,
                payload=entry.payload,
                selection=entry.selection,
                sources=tuple(
                    Source(
                        kind=kind,
                        sha256=source.sha256,
                        format=source.format,
                        samples=source.samples,
                        rows=source.rows,
                        data=bytes(source.data),
                    )
                    for kind, source in references
                ),
            ),
            *(source for _, source in references),
        )


def commit(state: State) -> None:
    """Terminal transitions in slot order; each frees its slot for the next tick."""
    for slot in sorted(state.leases):
        lease = state.leases[slot]
        if lease.outcome is not None:
            state.finish_entry(lease.entry, lease.outcome)
            del state.leases[slot]


def _collect(state: State, lease: Lease) -> None:
    """One take of one lease, and what the engine reported around it."""
    reports = state.reports[lease.slot]
    if state.models[lease.entry.role].kernel is not None and lease.outcome is None:
        # Whatever the host reports here is of another lease.
        state.dropped_events += len(reports)
        reports.clear()
        reports = lease.said
    take: list[Event] = []
    while reports and lease.outcome is None:
        event = reports[0]
        if event.generation != lease.generation:
            state.dropped_events += 1
            reports.pop(0)
            continue
        taken = sum(len(e.data) for e in take)
        if event.kind == EMIT and take and taken + len(event.data) > TAKE:
            break
        reports.pop(0)
        if event.kind == EMIT and _is_in_order(lease, take, event):
            take.append(event)
            continue
        if _append(state, lease, take, ended=event.kind in ENDING):
            take = []
            _handle(state, lease, event)
    if lease.outcome is None:
        _append(state, lease, take, ended=False)


def _is_in_order(lease: Lease, take: list[Event], event: Event) -> bool:
    """Whether an emission may follow what came before it."""
    tokens = lease.entry.sampled_tokens + sum(e.value for e in take) + event.value
    return (
        lease.entry.phase == RUNNING
        and (event.value > 0 or len(event.data) > 0)
        and tokens <= lease.entry.limit
    )


def _append(state: State, lease: Lease, take: list[Event], *, ended: bool) -> bool:
    """
    Add a whole take to the result, or discard it whole [D5].

    *ended*: the engine's last report came right behind it, so there is none to stop.
    """
    entry = lease.entry
    data = b"".join(event.data for event in take)
    if len(entry.output) + len(data) > state.capacities.output_bytes:
        outcome = Outcome(event="overflow", phase=CANCELLED, status=413, cancel=1)
        if ended:
            decide(lease, outcome)
        else:
            stop(state, lease, outcome)
        return False
    entry.output += data
    entry.sampled_tokens += sum(event.value for event in take)
    return True


def _handle(state: State, lease: Lease, event: Event) -> None:
    """A report that is not an emission in order."""
    entry = lease.entry
    if entry.phase == PREPARING and event.kind == OPENED:
        tokens = event.value + entry.limit
        if (
            event.value == 0
            or tokens > state.capacities.sequence_tokens
            or -(-tokens // PAGE) > entry.pages
        ):
            why = "opened, tokens do not fit"
            stop(state, lease, Outcome(event=why, phase=FAILED, status=400))
        else:
            state.note(PREPARING, "opened, tokens fit", RUNNING)
            entry.prompt_tokens = event.value
            entry.phase = RUNNING
            entry.changed_ns = state.now
    elif entry.phase == PREPARING and event.kind == REFUSED:
        decide(lease, _failed("refused", event.value))
    elif entry.phase == RUNNING and event.kind == DONE and event.value in (1, 2):
        why = f"done({event.value})"
        outcome = Outcome(event=why, phase=COMPLETED, status=0, finish=event.value)
        decide(lease, outcome)
    elif entry.phase == RUNNING and event.kind == FAIL:
        decide(lease, _failed("failed", event.value))
    elif event.kind in ENDING:
        # A fault, but the engine has ended the lease itself: no stop after these.
        decide(lease, _failed("fault", 503))
    else:
        stop(state, lease, _failed("fault", 503))


def _failed(event: str, status: int) -> Outcome:
    known = status if 400 <= status <= 599 else 503
    return Outcome(event=event, phase=FAILED, status=known)
