"""
The checker refuses histories that break a promise: each test plants one fault in a
history that is sound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from tests.simulation.check_gateway import key_of
from tests.simulation.checker import check
from tests.simulation.history import Event, History
from tests.simulation.people import PEOPLE
from tests.simulation.scene import Profile
from tests.simulation.simulation import run
from tests.simulation.truth import Truth
from twisted_aotx.wire.numbers import Operation

pytestmark = pytest.mark.simulation

Changes = Callable[[Event], Mapping[str, Any] | None]


@pytest.fixture(scope="module")
def sound() -> History:
    """A run in which everything happens but faults."""
    profile = Profile(sessions=90, leaves=0.05, deeds=("stop_gateway",))
    history = run(5, profile).history
    assert check(history) == []
    return history


def planted(history: History, kind: str, changes: Changes) -> list[str]:
    """
    What is wrong once the first event of *kind* is changed as *changes* says of it.
    """
    for event in history.of(kind):
        changed = changes(event)
        if changed is not None:
            fields = {**event.fields, **changed}
            events = list(history.events)
            events[event.number] = attrs.evolve(event, fields=fields)
            return check(History(events))
    raise AssertionError(f"no {kind} to change")


def of_reply(history: History, operation: int, **changed: Any) -> Changes:
    """Changes to a reply with 200 or 202 to *operation*."""

    def changes(event: Event) -> Mapping[str, Any] | None:
        frame = history.events[event.frame]
        is_one = frame.operation == operation and event.status < 300
        return changed if is_one and event.number > 50 else None

    return changes


def last_byte_lost(event: Event) -> Mapping[str, Any] | None:
    return {"data": event.data[:-1]} if event.data else None


def last_byte_repeated(event: Event) -> Mapping[str, Any] | None:
    return {"data": event.data + event.data[-1:]} if event.data else None


def other_byte(event: Event) -> Mapping[str, Any] | None:
    if not event.fields.get("data"):
        return None
    return {"data": bytes([event.data[0] ^ 1]) + event.data[1:]}


def other_person(event: Event) -> Mapping[str, Any]:
    others = [each.id for each in PEOPLE if each.id != event.principal]
    return {"principal": others[0]}


@pytest.mark.parametrize("change", [last_byte_lost, last_byte_repeated, other_byte])
def test_a_stream_with_other_bytes_is_refused(sound: History, change: Changes) -> None:
    assert planted(sound, "emission", change)


def test_a_stream_resumed_a_byte_late_is_refused(sound: History) -> None:
    assert planted(
        sound,
        "emission",
        lambda event: {
            "offset": event.offset + 1,
            "data": event.data[1:],
        },
    )


def test_a_stream_that_ends_twice_is_refused(sound: History) -> None:
    told = Counter(event.stream for event in sound.of("told"))

    def is_terminal(event: Event) -> Mapping[str, Any] | None:
        is_followed = told[event.stream] > 1 and not event.is_terminal
        return {"is_terminal": True} if is_followed else None

    faults = planted(sound, "told", is_terminal)

    assert any("goes on after its end" in fault for fault in faults)


def test_each_life_of_an_id_has_its_own_bytes() -> None:
    """An id that is used again once its result was reclaimed names two requests."""
    history = run(506491).history
    truth = Truth(history)
    assert check(history) == []
    (first,) = truth.reclaimed
    later = truth.requests[first.key]

    def other_life(event: Event) -> Mapping[str, Any] | None:
        is_first = key_of(event) == first.key and event.number < later.frame.number
        part = slice(event.cursor, event.cursor + len(event.data))
        return {"data": later.data[part]} if is_first and event.data else None

    assert planted(history, "status", other_life)


def test_a_window_with_other_bytes_is_refused(sound: History) -> None:
    assert planted(sound, "status", other_byte)


def test_a_result_for_another_principal_is_refused(sound: History) -> None:
    assert planted(sound, "status", other_person)
    assert planted(sound, "completion", other_person)


def test_a_completion_with_another_text_is_refused(sound: History) -> None:
    assert planted(sound, "completion", lambda event: {"text": event.text + "x"})


def test_tokens_that_nobody_sampled_are_refused(sound: History) -> None:
    assert planted(
        sound,
        "status",
        lambda event: {"sampled": event.sampled + 1, "tokens": event.tokens + 1},
    )


def test_an_answer_to_another_frame_is_refused(sound: History) -> None:
    assert planted(sound, "reply", of_reply(sound, Operation.READ, id=bytes(16)))
    assert planted(sound, "received", other_person)


@pytest.mark.parametrize(
    "changed",
    [
        {"status": 404},
        {"status": 410},
        {"status": 403},
        {"at_epoch": 77},
        {"total": 100_000},
        {"sampled": 777},
    ],
)
def test_a_wrong_reply_is_refused(sound: History, changed: dict[str, Any]) -> None:
    assert planted(sound, "reply", of_reply(sound, Operation.READ, **changed))


def test_a_cancel_that_ends_nothing_is_refused(sound: History) -> None:
    """What had accepted a cancel completes all the same."""
    completed = {event.id for event in sound.of("reply") if event.phase == 4}
    before = {event.frame for event in sound.of("reply") if event.phase in (2, 3)}

    def cancelled(event: Event) -> Mapping[str, Any] | None:
        is_one = event.number in before and event.id in completed
        return {"operation": Operation.CANCEL} if is_one else None

    faults = planted(sound, "frame", cancelled)

    assert any("was cancelled and ended in phase 4" in fault for fault in faults)


def test_an_engine_that_is_told_of_no_end_is_refused(sound: History) -> None:
    untold = [
        attrs.evolve(event, fields={**event.fields, "generation": 0})
        if event.kind == "stopped"
        else event
        for event in sound.events
    ]

    faults = check(History(untold))

    assert any("not told of its end" in fault for fault in faults)


def test_an_old_handle_that_is_found_is_refused(sound: History) -> None:
    def found(event: Event) -> Mapping[str, Any] | None:
        return {"status": 200} if event.status == 410 else None

    assert planted(sound, "reply", found)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("runtime_held", {"leases": 1}),
        ("runtime_held", {"engine": [(1, 1)]}),
        ("runtime_held", {"taken": [3]}),
        ("runtime_held", {"violations": ["a table is broken"]}),
        ("held", {"budgets": [("work", 1)]}),
        ("left", {"files": 1}),
        ("left", {"calls": 1}),
        ("channels", {"served": 14}),
        ("snooped", {"status": 200}),
        ("looked", {"status": 500}),
        ("refused", {"code": "internal_error"}),
        ("leased", {"slot": 0}),
    ],
)
def test_a_leak_or_a_fault_is_refused(
    sound: History, kind: str, changed: dict[str, Any]
) -> None:
    assert planted(sound, kind, lambda _: changed)


def test_a_request_that_ran_twice_is_refused(sound: History) -> None:
    first = next(sound.of("leased"))
    assert planted(
        sound,
        "leased",
        lambda event: (
            {"nonce": first.nonce}
            if event.number != first.number and event.epoch == first.epoch
            else None
        ),
    )


def test_a_source_that_is_lost_is_refused(sound: History) -> None:
    ready = [event.handle for event in sound.of("source_ready")]
    removed = [event.handle for event in sound.of("removing")]
    kept = set(ready) - set(removed)

    def without(event: Event) -> Mapping[str, Any] | None:
        rows = [row for row in event.rows if row[0] not in kept]
        return {"rows": rows} if len(rows) < len(event.rows) else None

    assert planted(sound, "source_list", without)


def test_a_source_of_another_is_refused(sound: History) -> None:
    def to_another(event: Event) -> Mapping[str, Any] | None:
        return other_person(event) if event.rows else None

    assert planted(sound, "source_list", to_another)


def test_a_ledger_that_counts_once_too_often_is_refused(sound: History) -> None:
    def counted_twice(event: Event) -> Mapping[str, Any] | None:
        (principal, model, requests, *tokens), *rows = event.rows
        return {"rows": [(principal, model, requests + 1, *tokens), *rows]}

    assert planted(sound, "ledger", counted_twice)


@pytest.mark.parametrize("kind", ["hangs", "spins", "session_failed", "logged"])
def test_what_must_never_happen_is_refused(sound: History, kind: str) -> None:
    number = len(sound.events)
    event = Event(number, 0.0, kind, {"format": "", "why": ""})
    assert check(History([*sound.events, event]))
